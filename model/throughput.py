"""What training costs as it runs: tokens per second, MFU, an idle loader, memory.

Measured values differ from one time to the next, so they never stand beside results: they go into
the record's `speed` and to sinks.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass, field

import torch

from model.config import EncoderSection
from model.cost import peak_flops, training_flops_per_token
from model.distributed import Worker
from model.update import StepResult


@dataclass
class Throughput:
    """Adds up steps between two lines of the log.

    Seconds are those in which the loop waits for a batch, computes and updates. Evaluation and
    checkpoints are not training and are not counted; what a background upload takes from the same
    cores is, and so is the compilation in a step that compiles.
    """

    encoder: EncoderSection
    rows: int
    worker: Worker
    peak: float | None = field(init=False)
    """Of all workers' devices in FLOP/s; None where it is not known."""

    def __post_init__(self) -> None:
        peak = peak_flops(self.worker.device)
        self.peak = None if peak is None else peak * self.worker.world_size
        self._begin()

    def _begin(self) -> None:
        self._seconds = self._waited = self._flops = 0.0
        self._real = self._padded = self._masked = 0

    def add(self, result: StepResult, seconds: float, waited: float, length: int) -> None:
        """Count one step.

        Args:
            seconds: from asking for the batch to the end of the update.
            waited: of these, until the batch was there.
            length: tokens in a full row of this step.
        """
        self._seconds += seconds
        self._waited += waited
        self._real += result.real
        self._padded += result.padded
        self._masked += result.masked
        if self.peak is not None:
            share = result.masked / max(result.real, 1)
            flops = training_flops_per_token(self.encoder, self.rows, length, share)
            self._flops += flops * result.real

    @property
    def real_per_second(self) -> float:
        """Tokens that are not padding, of all workers, per second since the last line."""
        return self._real / self._seconds if self._seconds else 0.0

    def take(self) -> dict[str, float]:
        """Values since the last line, and begin anew.

        Tokens per second are of all workers: `real` are not padding (masked ones among them),
        `padded` are positions of padding, computed for nothing. `mfu` is the FLOPs that real tokens
        need (model.cost: matrix products, no recomputation) over the peak in bfloat16; it is left
        out where the device's peak is not known. `loader_idle_share` and `memory_peak_bytes` are of
        the first worker: memory of its GPU, or of its process, since the start.
        """
        seconds = max(self._seconds, 1e-9)
        values = {
            "tokens_per_second/real": self._real / seconds,
            "tokens_per_second/padded": self._padded / seconds,
            "tokens_per_second/masked": self._masked / seconds,
            "loader_idle_share": self._waited / seconds,
            "memory_peak_bytes": float(memory_peak(self.worker.device)),
        }
        if self.peak is not None:
            values["mfu"] = self._flops / seconds / self.peak
        self._begin()
        return values


def memory_peak(device: torch.device) -> int:
    """Most memory used so far, in bytes: tensors on a GPU, the whole process otherwise."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
