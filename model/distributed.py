"""One worker among several: its rank, its device, and the few collectives the loops need.

Works the same with one worker and no process group, so a loop has one form.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")


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

    def wait(self) -> None:
        """Return when all workers are here."""
        if self.world_size > 1:
            torch.distributed.barrier()


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
