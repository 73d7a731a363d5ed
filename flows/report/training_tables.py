"""What pretraining writes, as the report reads it: results, and what was measured on the way."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pydantic import Field

from flows.report.tables import Row


class LossSum(Row):
    """A sum of cross-entropies, in nats, over so many masked tokens."""

    loss_sum: float
    tokens: int


class LogEntry(Row):
    """One line of the training log."""

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    next_sentence_loss: float | None = None


class Evaluation(Row):
    """Held-out losses after so many steps."""

    step: int
    languages: dict[str, LossSum]


class Metrics(Row):
    """The results of pretraining."""

    rows: int
    steps: int
    tokens_seen: int
    final_loss: float
    log: tuple[LogEntry, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    unigram: dict[str, LossSum] = {}


class SpeedEntry(Row):
    """What was measured between two lines of the log; tokens are of all workers."""

    step: int
    real: float = Field(alias="tokens_per_second/real")
    padded: float = Field(alias="tokens_per_second/padded")
    masked: float = Field(alias="tokens_per_second/masked")
    loader_idle_share: float
    memory_peak_bytes: float
    mfu: float | None = None


class Speed(Row):
    """What pretraining measured: never the same twice."""

    speed: tuple[SpeedEntry, ...] = ()


class SpeedSummary(Row):
    """Medians over the training, and the peak of memory."""

    real: float
    padded: float
    masked: float
    loader_idle_share: float
    memory_peak_bytes: float
    mfu: float | None


def summary_of(lines: Sequence[SpeedEntry]) -> SpeedSummary | None:
    """The medians of lines, each of as many steps; None without a line."""
    if not lines:
        return None
    used = [line.mfu for line in lines if line.mfu is not None]
    return SpeedSummary(
        real=median(line.real for line in lines),
        padded=median(line.padded for line in lines),
        masked=median(line.masked for line in lines),
        loader_idle_share=median(line.loader_idle_share for line in lines),
        memory_peak_bytes=max(line.memory_peak_bytes for line in lines),
        mfu=median(used) if used else None,
    )


def in_words(summary: SpeedSummary) -> str:
    """The summary in one line."""
    used = "" if summary.mfu is None else f"; {summary.mfu:.1%} of the peak (MFU)"
    return (
        f"{summary.real:,.0f} tokens/s, {summary.masked:,.0f} of them masked, and "
        f"{summary.padded:,.0f} of padding{used}; loader idle {summary.loader_idle_share:.1%}; "
        f"memory peak {summary.memory_peak_bytes / 1e9:,.1f} GB"
    )
