"""One worker among several: its rank, its device, and the few collectives the loops need.

Works the same with one worker and no process group, so a loop has one form.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")
ROUND_SECONDS = 0.5
"""How often workers meet while one of them is in `Worker.own_pace`."""
FIRST_WORD_SECONDS = 60.0
"""After so long in `Worker.own_pace` the first worker says who is waited for; then less often."""
LAST_ROUND_SECONDS = 10.0
"""Longest that an error in `Worker.own_pace` waits until the others have been told."""
LEFT, INSIDE, FAILED = range(3)
_say = partial(print, flush=True)


@dataclass(frozen=True)
class Worker:
    """This process. With `world_size` above 1, torch's default process group is already there."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def leads(self) -> bool:
        """Whether this worker writes and prints for all."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients averaged over workers; itself when there is one worker.

        Buffers are tables that no step changes, so they are not sent around. The graph is not
        declared static: micro-batches without documents apart take another way through attention.
        """
        if self.world_size == 1:
            return model
        devices = None if self.device.type == "cpu" else [self.device]
        return DistributedDataParallel(
            model, device_ids=devices, gradient_as_bucket_view=True, forward_sync_buffers=False
        )

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over workers; the same on all of them."""
        if self.world_size > 1:
            torch.distributed.all_reduce(values)
        return values

    def gather(self, value: T) -> list[T]:
        """The small values of all workers, by rank, on all of them."""
        if self.world_size == 1:
            return [value]
        values: list[T | None] = [None] * self.world_size
        torch.distributed.all_gather_object(values, value)
        return [item for item in values if item is not None]

    @contextmanager
    def own_pace(self, what: str) -> Iterator[None]:
        """A block for which each worker may take as long as it needs, such as reading files.

        A collective to which one worker comes later than the group's timeout ends all of them. So
        while any worker is in its block, a thread beside it meets those of the others in one small
        sum, twice a second; all leave together. Inside, no collective can be used.

        Args:
            what: goes on inside, in a few words.

        Raises:
            RuntimeError: another worker was lost, or its block ended in an error.
        """
        if self.world_size == 1:
            yield
            return
        rounds = _Rounds(self, what)
        rounds.start()
        try:
            yield
        except BaseException:
            rounds.leave(FAILED)
            rounds.join(LAST_ROUND_SECONDS)
            raise
        rounds.leave(LEFT)
        rounds.join()
        if rounds.error is not None:
            raise rounds.error


class _Rounds(threading.Thread):
    """Meets the same thread of all workers again and again, until all have left their block."""

    def __init__(self, worker: Worker, what: str) -> None:
        super().__init__(name=f"rounds: {what}", daemon=True)
        self.error: Exception | None = None
        """Why this worker cannot go on, though its own block is fine."""
        self._worker, self._what = worker, what
        self._left, self._state = threading.Event(), INSIDE
        self._began, self._next_word = time.monotonic(), FIRST_WORD_SECONDS

    def leave(self, state: int) -> None:
        """The block has ended."""
        self._state = state
        self._left.set()

    def run(self) -> None:
        """The thread."""
        try:
            while self._round():
                pass
        except Exception as error:  # of the collective: a worker was lost
            self.error = error

    def _round(self) -> bool:
        """Whether there has to be another one; the same on all workers."""
        self._left.wait(ROUND_SECONDS)
        states = torch.zeros(self._worker.world_size, device=self._worker.device)
        states[self._worker.rank] = self._state
        ranks: dict[int, list[int]] = {LEFT: [], INSIDE: [], FAILED: []}
        for rank, state in enumerate(self._worker.sum(states).tolist()):
            ranks[int(state)].append(rank)
        if ranks[FAILED]:
            self.error = RuntimeError(
                f"{self._what}: of {len(states)} workers, {ranks[FAILED]} ended in an error of "
                f"their own"
            )
            return False
        seconds = time.monotonic() - self._began
        if ranks[INSIDE] and self._worker.leads and seconds >= self._next_word:
            self._next_word *= 2
            _say(
                f"{self._what}: {seconds:.0f} s so far, of {len(states)} workers not done: "
                f"{ranks[INSIDE]}"
            )
        return bool(ranks[INSIDE])


def without_sync(model: nn.Module, skip: bool) -> AbstractContextManager[None]:
    """Keep gradients local during all micro-batches but the last."""
    if skip and isinstance(model, DistributedDataParallel):
        return model.no_sync()
    return nullcontext()


@contextmanager
def precision(name: str, device: torch.device) -> Iterator[None]:
    """Run matrix products in the named precision; `float32` changes nothing."""
    with torch.autocast(device.type, torch.bfloat16, enabled=name == "bfloat16"):
        yield


def share_of_batch(batch: int, rank: int, world_size: int) -> range:
    """The samples of a global batch that one worker computes: contiguous, sizes differ by 1.

    Over the ranks, every sample occurs exactly once at any world size.
    """
    return range(batch * rank // world_size, batch * (rank + 1) // world_size)
