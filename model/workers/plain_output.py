"""Lines of training workers as they wrote them."""

from __future__ import annotations

import re
from typing import IO, Any

NOISE = ("(PlacementGroupCleaner pid=", "class name: 'PreemptionWatcher' and ID")
"""With a second Ray on the machine its placement group cleaner speaks every second; and Ray warns
at each start of an actor of its own."""
PREFIX = re.compile(r"^(?:\x1b\[\d+m)?\((?:RayTrainWorker|TrainController)[^)]*\)(?:\x1b\[0m)? ")


class PlainOutput:
    """A standard stream without Ray's `(RayTrainWorker pid=...)` before a worker's lines."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._left_out = False

    def write(self, text: str) -> int:
        """Write; a worker's line loses its prefix, and two kinds of Ray's own are left out."""
        # `print` writes a line's end by itself.
        if any(part in text for part in NOISE) or (self._left_out and text == "\n"):
            self._left_out = not text.endswith("\n")
            return len(text)
        self._left_out = False
        return self._stream.write(PREFIX.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
