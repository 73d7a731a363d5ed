"""What a whole pretraining takes on GPUs: its phases, memory, time and disk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from model.config import EncoderSection, LengthPhase, PretrainingSection
from model.cost import (
    Gpu,
    Parameters,
    parameters_by_part,
    tokens_per_second,
    training_flops_per_token,
)
from model.memory import USABLE_SHARE, Memory, largest_micro_batch, training_memory
from model.step_plan import step_plan_of


@dataclass(frozen=True)
class Rate:
    """A masking rate, and the share of the training at which it ends."""

    until: float
    rate: float


@dataclass(frozen=True)
class PhaseCost:
    """A part of training in which neither the rows' length nor the masking rate changes."""

    until: float
    """Share of the training at which it ends."""
    length: int
    masking_rate: float
    tokens: float
    flops_per_token: float


@dataclass(frozen=True)
class RunCost:
    """What a training takes."""

    parameters: Parameters
    phases: tuple[PhaseCost, ...]
    memory: Memory
    usable_bytes: float
    largest_micro_batch: int
    """Most sequences_per_micro_batch that fit and keep all GPUs busy; 0 when not even one fits."""
    steps: int
    tokens: int
    tokens_per_second: float
    """Of all GPUs, averaged over the phases; those that wait for the busiest one are counted in."""
    busy_share: float
    """Work of a GPU on average over that of the busiest, from 0 to 1; see `busy_share_of`."""
    checkpoint_bytes: float
    """Weights and AdamW's two moments, float32."""

    @property
    def fits(self) -> bool:
        """Whether the micro-batch fits into a GPU."""
        return self.memory.total <= self.usable_bytes

    @property
    def flops(self) -> float:
        """Matmul FLOPs of the whole training."""
        return sum(phase.tokens * phase.flops_per_token for phase in self.phases)

    @property
    def seconds(self) -> float:
        """Time of the steps; evaluation and checkpoints come on top."""
        return self.tokens / self.tokens_per_second


def phases_of(
    lengths: Sequence[LengthPhase], rates: Sequence[Rate], length: int, rate: float, tokens: int
) -> list[tuple[float, int, float, float]]:
    """Cut a training where a length or a rate ends: (until, length, rate, tokens) of each part.

    Args:
        lengths: phases of [[pretraining.lengths]].
        rates: phases of [[masking.phases]].
        length: after the last phase of lengths.
        rate: where there is no phase of rates.
    """
    ends = sorted({1.0, *(p.until for p in lengths), *(p.until for p in rates)})
    parts, begin = [], 0.0
    for end in ends:
        own_length = next((p.length for p in lengths if begin < p.until), length)
        own_rate = next((p.rate for p in rates if begin < p.until), rate)
        parts.append((end, own_length, own_rate, (end - begin) * tokens))
        begin = end
    return parts


def busy_share_of(settings: PretrainingSection, gpus: int) -> float:
    """Work of a GPU on average over that of the busiest, in a step of full batch size.

    All wait for the busiest one, which has the rounded-up number of micro-batches: 512 on 300 GPUs
    are 2 against 1.71 on average.
    """
    batch, size = settings.sequences_per_step, settings.sequences_per_micro_batch
    busiest = min(batch, math.ceil(math.ceil(batch / size) / gpus) * size)
    return min(1.0, batch / (busiest * gpus))


def run_cost(
    encoder: EncoderSection,
    settings: PretrainingSection,
    *,
    rows: int,
    length: int,
    rates: Sequence[Rate],
    gpu: Gpu,
    gpus: int,
    mfu: float,
) -> RunCost:
    """What a training takes on GPUs of one kind.

    Args:
        rows: of the vocabulary.
        length: packing.length.
        rates: the masking rates in order; the last one ends at 1.
        mfu: model FLOP utilisation, from 0 to 1: the share of the GPU's peak that is reached.
    """
    plan = step_plan_of(settings, length)
    tokens = plan.samples * length
    phases = tuple(
        PhaseCost(end, own, rate, count, training_flops_per_token(encoder, rows, own, rate))
        for end, own, rate, count in phases_of(
            settings.lengths, rates, length, rates[-1].rate, tokens
        )
    )
    busy = busy_share_of(settings, gpus)
    seconds = sum(
        p.tokens / busy / (gpus * tokens_per_second(p.flops_per_token, gpu.bf16_flops, mfu))
        for p in phases
    )
    # Folded rows hold the same tokens, so the length of a phase does not change what is kept.
    share = max(phase.masking_rate for phase in phases)
    parts = parameters_by_part(encoder, rows, length)
    return RunCost(
        parameters=parts,
        phases=phases,
        memory=training_memory(encoder, rows, length, settings, masked_share=share, workers=gpus),
        usable_bytes=USABLE_SHARE * gpu.memory_bytes,
        largest_micro_batch=largest_micro_batch(
            encoder,
            rows,
            length,
            settings,
            masked_share=share,
            workers=gpus,
            memory_bytes=gpu.memory_bytes,
        ),
        steps=plan.steps,
        tokens=tokens,
        tokens_per_second=tokens / seconds,
        busy_share=busy,
        checkpoint_bytes=12.0 * parts.total,
    )


def packed_bytes(rows: int, length: int, rate: float, views: int) -> float:
    """Bytes of one packed sequence on a node's disk: ids, and positions and ids of stored masks.

    On the store, Parquet is compressed and takes less.
    """
    ids = 2 if rows <= 2**16 else 4
    return length * ids + views * rate * length * (2 + ids)
