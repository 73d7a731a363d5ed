"""Notices from outside: save now, or save and stop. Asked for at each step, they never block it."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections import Counter, deque
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Literal, Self

from pydantic import ValidationError

from pipelines.core.config import Config
from pipelines.core.store import Store

Kind = Literal["save", "stop"]
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class TrainingStopped(RuntimeError):
    """Training was told to stop, and its checkpoint is on the store: run again to go on."""

    def __init__(self, step: int, why: str) -> None:
        super().__init__(f"stopped at step {step}, saved ({why}); run again to go on")
        self.step, self.why = step, why

    def __reduce__(self) -> tuple[type[TrainingStopped], tuple[int, str]]:
        """Between processes it keeps its parts."""
        return TrainingStopped, (self.step, self.why)


class Request(Config):
    """What lies under a key that StopNotice watches."""

    kind: Kind
    why: str
    id: str
    """Another one each time, so that a second `save` is not taken for the first."""


def request(store: Store, key: str, kind: Kind, why: str) -> None:
    """Ask a training that watches `key` to save, or to save and stop.

    The key stays until the next request or until somebody deletes it, which whoever starts a
    training does first: a `stop` that is still there stops it again.
    """
    content = Request(kind=kind, why=why, id=uuid.uuid4().hex)
    store.publish_bytes(key, content.model_dump_json().encode("utf-8"))


class StopNotice:
    """Collects notices from any thread, from signals and from a key on the store.

    `asked` gives a `save` once; a `stop` stays, goes before a `save`, and its first reason is kept.
    It takes no lock, because a signal's handler may run in the middle of any of its lines.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        """What a person should know: a store that could not be read, a request that is none."""
        self.counters: Counter[str] = Counter()
        """polls/done, polls/failed, requests/unreadable."""
        self.signal: signal.Signals | None = None
        """The first that came, if one did."""
        self._stop: str | None = None
        self._saves: deque[str] = deque()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._before: dict[int, Any] = {}
        self._interrupts = 0

    def asked(self) -> tuple[str, str] | None:
        """`("save", why)`, `("stop", why)`, or None. Cheap; never blocks."""
        if self._stop is not None:
            return "stop", self._stop
        reasons: dict[str, None] = {}
        with suppress(IndexError):
            while True:
                reasons[self._saves.popleft()] = None
        return ("save", "; ".join(reasons)) if reasons else None

    def ask(self, kind: Kind, why: str) -> None:
        """Give a notice, from any thread or signal handler.

        Raises:
            ValueError: there is no such kind.
        """
        if kind == "save":
            self._saves.append(why)
        elif kind != "stop":
            raise ValueError(f'kind = {kind!r}: need "save" or "stop"')
        elif self._stop is None:
            self._stop = why

    def on_signals(self) -> bool:
        """Let SIGTERM and SIGINT (Ctrl-C) ask for a stop, until `close`.

        A second Ctrl-C does what it did before: it ends the process. SIGTERM may come as often as
        it likes, because some schedulers repeat it. A signal that this process was told to ignore
        (a shell's background job) stays ignored.

        Returns:
            Whether signals are caught: Python allows it in the main thread alone.
        """
        if threading.current_thread() is not threading.main_thread():
            return False
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return True

    def watch(self, store: Store, key: str, seconds: float = 5.0) -> None:
        """Look for requests under a key of the store every so many seconds, in the background.

        What is there at the first look counts too. The same request is never taken twice. A store
        that cannot be read is noted once in a row, and looked at again.
        """
        thread = threading.Thread(
            target=self._watch, args=(store, key, seconds), name=f"watch {key}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Stop watching and give signals back; notices already given stay."""
        self._over.set()
        for thread in self._threads:
            # One that hangs in the store is left to itself; it holds nothing that others need.
            thread.join(timeout=1.0)
        self._threads.clear()
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            signal.signal(number, before if before is not None else signal.SIG_DFL)
        self._before.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        caught = signal.Signals(number)
        if self.signal is None:
            self.signal = caught
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                before = self._before.pop(number, None)
                signal.signal(number, before if before is not None else signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return
        self.ask("stop", f"signal {caught.name}")

    def _watch(self, store: Store, key: str, seconds: float) -> None:
        last, failing = b"", False
        while not self._over.is_set():
            try:
                content = store.read_bytes(key)
            except FileNotFoundError:
                content, failing = b"", False
            except Exception as error:  # any driver's own; training must not end because of it
                self.counters["polls/failed"] += 1
                if not failing:
                    self.notes.append(
                        f"{key} in {store.url} cannot be read, so no notice is seen there for now: "
                        f"{type(error).__name__}: {error}"
                    )
                content, failing = last, True
            else:
                failing = False
            self.counters["polls/done"] += 1
            if content and content != last:
                self._take(key, content)
            last = content
            self._over.wait(seconds)

    def _take(self, key: str, content: bytes) -> None:
        try:
            found = Request.model_validate_json(content)
        except ValidationError:
            self.counters["requests/unreadable"] += 1
            self.notes.append(f"{key}: not a request to save or stop: {content[:80]!r}")
            return
        self.ask(found.kind, found.why)
