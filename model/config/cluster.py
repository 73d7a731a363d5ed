"""What a run may use ([cluster])."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from model.config.types import PositiveInt
from pipelines.core.config import Config


class ClusterSection(Config):
    """What a run may use ([cluster])."""

    num_workers: PositiveInt | tuple[PositiveInt, PositiveInt] = 2
    """Training workers (DDP ranks); or the fewest and the most, such as [1, 8]: training then goes
    on with those that there are, and the result is the same but for the order of sums."""
    cpus_per_worker: PositiveInt = 1
    use_gpu: bool = False
    """One GPU a worker, NCCL; otherwise CPUs and gloo."""
    max_worker_failures: Annotated[int, Field(ge=0)] = 3
    """Times training restarts from its last checkpoint after a worker was lost."""
    worker_timeout_seconds: PositiveInt = 600
    """Longest that workers wait for one of them in a step; it then counts as hung and lost. Reading
    and writing files is not limited by it."""
    resize_seconds: PositiveInt = 60
    """With a range of workers: between two looks whether there is room for more of them. They all
    start again then, from a checkpoint that is saved as soon as a node comes."""
    grace_seconds: PositiveInt = 60
    """When told to stop (a signal, a node that drains), time to save before the end."""
    pending_timeout_seconds: PositiveInt = 300
    """Longest a Ray job may wait to start."""

    @field_validator("num_workers")
    @classmethod
    def _fewest_first(cls, value: int | tuple[int, int]) -> int | tuple[int, int]:
        if isinstance(value, tuple) and value[0] > value[1]:
            raise ValueError(f"[{value[0]}, {value[1]}]: the fewest come first")
        return value

    @property
    def fewest_workers(self) -> int:
        """Workers that training needs at least."""
        return self.num_workers if isinstance(self.num_workers, int) else self.num_workers[0]

    @property
    def most_workers(self) -> int:
        """Workers that training uses at most."""
        return self.num_workers if isinstance(self.num_workers, int) else self.num_workers[1]
