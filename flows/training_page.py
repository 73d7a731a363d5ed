"""What a finished pretraining shows on its Prefect page: losses, checkpoints, speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flows.report.read import mean_loss
from flows.report.tables import Row
from flows.report.training_tables import Metrics, Speed, summary_of
from pipelines.core.manifest import StageRecord, read_verified
from pipelines.core.store import Store

ALL = "all"
T = TypeVar("T", bound=Row)


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint that is kept."""

    name: str
    """As start_from and resume_from take it."""
    bytes: int
    written: str
    held_out_loss: float | None


def training_artifacts(store: Store, run: str, record: StageRecord) -> dict[str, str]:
    """Markdown by the artifact's key: pretrain-losses, pretrain-checkpoints, pretrain-speed.

    Args:
        record: of the stage pretrain. What it did not write is left out.
    """
    pages = {}
    if (metrics := _table(store, record, "metrics", Metrics)) is not None:
        pages["pretrain-losses"] = losses_markdown(metrics)
    pages["pretrain-checkpoints"] = checkpoints_markdown(kept_checkpoints(store, run))
    if (speed := _table(store, record, "speed", Speed)) is not None:
        pages["pretrain-speed"] = speed_markdown(speed)
    return pages


def _table(store: Store, record: StageRecord, part: str, kind: type[T]) -> T | None:
    found = record.outputs_of(part=part)
    return kind.model_validate_json(read_verified(store, found[0])) if found else None


def kept_checkpoints(store: Store, run: str) -> list[CheckpointRow]:
    """The whole checkpoints of a run, in the order of their steps."""
    from model.checkpoint.names import run_checkpoints  # heavy

    found = run_checkpoints(store, run)
    named = {
        f"{run}@{step}" if len(found) == 1 else f"{run}/{folder.rpartition('/')[2]}@{step}": own
        for folder, manifests in found.items()
        for step, own in manifests.items()
    }
    rows = [
        CheckpointRow(name, manifest.bytes, manifest.written, manifest.held_out_loss)
        for name, manifest in named.items()
    ]
    return sorted(rows, key=lambda row: row.written)


def losses_markdown(metrics: Metrics) -> str:
    """Held-out loss of each language at the first and the last evaluation, beside unigram."""
    lead = f"{metrics.steps:,} steps, {metrics.tokens_seen:,} tokens."
    if not metrics.evaluations:
        return f"{lead} Nothing was held out."
    first, last = metrics.evaluations[0], metrics.evaluations[-1]
    rows = []
    for tag in sorted(last.languages):
        tables = (first.languages, last.languages, metrics.unigram)
        before, after, unigram = (mean_loss(table.get(tag)) for table in tables)
        gain = None if after is None or unigram is None else after - unigram
        rows.append([tag, f"{last.languages[tag].tokens:,}", *map(_nats, (before, after, unigram)),
                     "-" if gain is None else f"{gain:+.3f}"])  # fmt: skip
    titles = ["language", "masked tokens", f"step {first.step:,}", f"step {last.step:,}",
              "unigram", "against unigram"]  # fmt: skip
    return f"{lead} Held-out loss, nats per masked token.\n\n{_markdown(titles, rows)}"


def checkpoints_markdown(rows: Sequence[CheckpointRow]) -> str:
    """The checkpoints that are kept; one is the best by held-out loss."""
    if not rows:
        return "No checkpoint is kept."
    losses = [row.held_out_loss for row in rows if row.held_out_loss is not None]
    best = min(losses, default=None)
    cells = [
        [f"`{row.name}`", f"{row.bytes / 1e6:,.1f} MB", row.written,
         _nats(row.held_out_loss) + (" (best)" if row.held_out_loss == best is not None else "")]
        for row in rows
    ]  # fmt: skip
    return _markdown(["checkpoint", "size", "written", "held-out loss"], cells)


def speed_markdown(speed: Speed) -> str:
    """Medians of what was measured."""
    found = summary_of(speed.speed)
    if found is None:
        return "Nothing was measured."
    values: Mapping[str, str] = {
        "real tokens per second": f"{found.real:,.0f}",
        "masked tokens per second": f"{found.masked:,.0f}",
        "padded tokens per second": f"{found.padded:,.0f}",
        "MFU": "peak of the device not known" if found.mfu is None else f"{found.mfu:.1%}",
        "loader idle": f"{found.loader_idle_share:.2%}",
        "memory peak of the first worker": f"{found.memory_peak_bytes / 1e9:,.2f} GB",
    }
    rows = [[name, value] for name, value in values.items()]
    return _markdown(["median over the log", "of all workers"], rows)


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
