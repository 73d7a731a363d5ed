"""Prepare the next steps' batches while the model computes this one's."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.1


class Prefetched(Generic[T]):
    """What `make(step)` gives for each step, made ahead by one background thread, in order.

    To be used in a `with` block, whose end stops the thread. An exception in `make` is raised by
    `take` at the step it belongs to, as itself.

    Args:
        depth: most steps that lie ready; 0 makes each when it is taken, without a thread.
    """

    def __init__(self, make: Callable[[int], T], steps: Iterable[int], depth: int) -> None:
        self._make, self._steps = make, steps
        self._ready: queue.Queue[tuple[int, T | None, BaseException | None]] = queue.Queue(
            max(1, depth)
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._ahead = depth > 0
        self.waited_seconds = 0.0
        """How long `take` has waited so far: the time in which the model stood still."""

    def __enter__(self) -> Prefetched[T]:
        if self._ahead:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._ahead:
            self._thread.join()

    def take(self, step: int) -> T:
        """What belongs to the next step.

        Raises:
            ValueError: `step` is not the next one.
        """
        began = time.perf_counter()
        if not self._ahead:
            made = self._make(step)
            self.waited_seconds += time.perf_counter() - began
            return made
        number, result, error = self._ready.get()
        self.waited_seconds += time.perf_counter() - began
        if error is not None:
            raise error
        if number != step:
            raise ValueError(f"step {step} was asked for, the next one is {number}")
        return result  # type: ignore[return-value]

    def _run(self) -> None:
        for step in self._steps:
            try:
                item: tuple[int, T | None, BaseException | None] = (step, self._make(step), None)
            except BaseException as error:  # the loop's thread raises it
                item = (step, None, error)
            self._put(item)
            if self._stop.is_set() or item[2] is not None:
                return
        self._put((-1, None, ValueError("there is no step after the last one")))

    def _put(self, item: tuple[int, T | None, BaseException | None]) -> None:
        """Wait for room, but not for a loop that has ended."""
        while not self._stop.is_set():
            try:
                self._ready.put(item, timeout=POLL_SECONDS)
                return
            except queue.Full:
                continue
