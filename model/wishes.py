"""What a worker would have all of them do after a step: save, or save and end.

Any worker may be told to stop, and only the first one watches the clock. Their wishes travel with
the sums that workers exchange at each step anyway, so that all do the same after the same step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from model.config import PretrainingSection
from model.distributed import Worker
from model.notices import StopNotice


@dataclass(frozen=True)
class Wishes:
    """What is asked for after a step."""

    save: bool = False
    """A checkpoint: notice of an end that may come, or long since the last one."""
    stop: bool = False
    """A checkpoint and the end."""

    def __bool__(self) -> bool:
        return self.save or self.stop


class Wisher:
    """The wishes of one worker: of those who told it to save or stop, and of the clock.

    When a checkpoint is written never changes what is computed.
    """

    def __init__(
        self, settings: PretrainingSection, worker: Worker, notice: StopNotice | None
    ) -> None:
        minutes = settings.checkpoint_every_minutes
        self._seconds = minutes * 60 if minutes and worker.leads else None
        self._worker, self._notice = worker, notice
        self._why_stop = ""
        self._why_save = ""
        self.saved()

    def now(self) -> Wishes:
        """What this worker asks for; each notice to save is passed on once."""
        kind, why = (self._notice.asked() if self._notice is not None else None) or ("", "")
        if kind == "stop":
            self._why_stop = why
        elif kind == "save":
            self._why_save = why
        late = self._seconds is not None and time.monotonic() - self._last >= self._seconds
        return Wishes(save=late or kind == "save", stop=kind == "stop")

    def saved(self) -> None:
        """A checkpoint was taken: the clock begins anew."""
        self._last, self._why_save = time.monotonic(), ""

    def said(self, step: int) -> list[str]:
        """What a person should know before a checkpoint that this worker was told to save."""
        return [f"step {step}: saving now ({self._why_save})"] if self._why_save else []

    def reason(self) -> str:
        """Why training stops, in the words of the first worker that was told; all must call it."""
        return next(why for why in self._worker.gather(self._why_stop) if why)
