"""What a run shows on its Prefect page beside its log: a table a stage, and a progress bar."""

from __future__ import annotations

import re
import time
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.check import CheckResult
from flows.training_page import training_artifacts
from pipelines.core.manifest import StageRecord
from pipelines.core.store import Store

MAX_ROWS = 200
SECONDS_BETWEEN = 5.0
PROGRESS_LINE = re.compile(r"^\[[a-z][a-z0-9 -]*\] (?:step )?(\d+)/(\d+) ")


def progress_of(line: str) -> float | None:
    """Percent done that a line of pipelines.core.progress tells, else None."""
    match = PROGRESS_LINE.match(line)
    return None if match is None else 100.0 * int(match[1]) / max(int(match[2]), 1)


class ProgressBar:
    """The progress artifact of one stage, fed with the stage's own lines."""

    def __init__(self, stage: str) -> None:
        created: Any = create_progress_artifact(
            progress=0.0, key=f"{stage}-progress", description=f"Progress of stage {stage}"
        )
        self.artifact_id: UUID = created
        self._sent_at = time.monotonic()

    def read(self, line: str) -> None:
        """Move the bar if the line tells progress, at most once in a few seconds."""
        percent = progress_of(line)
        if percent is None or time.monotonic() - self._sent_at < SECONDS_BETWEEN:
            return
        self._sent_at = time.monotonic()
        update_progress_artifact(artifact_id=self.artifact_id, progress=percent)

    def finish(self) -> None:
        """Fill the bar: the stage succeeded."""
        update_progress_artifact(artifact_id=self.artifact_id, progress=100.0)


def show_sources(result: CheckResult) -> None:
    """A table of what the run will read."""
    create_table_artifact(
        key="sources",
        table=[
            {"source": line.source, "shards": line.shards, "bytes": line.size}
            for line in result.sources
        ],
        description="What the run reads",
    )


def show_stage(record: StageRecord) -> None:
    """A table of a finished stage: its time, its units, its counters, its notes."""
    counters = sorted(record.counters.items())
    rows: list[dict[str, Any]] = [
        {"what": "seconds", "value": record.seconds},
        {"what": "units", "value": record.units},
        {"what": "units already finished", "value": record.reused},
    ]
    rows += [{"what": name, "value": count} for name, count in counters[:MAX_ROWS]]
    if len(counters) > MAX_ROWS:
        rows.append({"what": "more counters, in the store", "value": len(counters) - MAX_ROWS})
    rows += [{"what": "note", "value": note} for note in record.notes[:20]]
    if len(record.notes) > 20:
        rows.append({"what": "more notes, in the store", "value": len(record.notes) - 20})
    create_table_artifact(
        key=f"{record.stage}-stage", table=rows, description=f"Stage {record.stage}"
    )


def show_training(store: Store, run: str, record: StageRecord) -> None:
    """Pages of a finished pretraining: losses by language, checkpoints, speed."""
    for key, markdown in training_artifacts(store, run, record).items():
        create_markdown_artifact(key=key, markdown=markdown, description=key.replace("-", ": "))
