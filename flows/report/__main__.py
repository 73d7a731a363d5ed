"""Build the page of a run:  python -m flows.report --store URL --run RUN"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from flows.report.dropped import dropped
from flows.report.html import page
from flows.report.read import RunView, read_run
from flows.report.totals import funnel, group_losses, verdict
from flows.report.training_tables import summary_of
from pipelines.core.driver import drive
from pipelines.core.manifest import StageRecord
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store, local_file

VERSION = 3
"""Raised whenever the same run would give another page."""


def build_report(store: Store, run: str, *, quiet: bool = False) -> StageRecord:
    """Write runs/RUN/report/index.html and report.json, unless nothing they tell has changed.

    Raises:
        ConfigError: the store has no such run, or a table of it does not read as its kind.
        StageFailed: the page could not be written.
    """
    view = read_run(store, run)
    records = [stage.record for stage in view.stages if stage.record is not None]
    step = Step(
        name="report",
        version=VERSION,
        folder=f"runs/{run}/report",
        config={
            "run": run,
            "config_sha256": view.config_sha256,
            "finished": {record.stage: record.binding_id for record in records},
        },
        work=write_report,
        noun="page",
    )
    inputs = tuple(output.ref for record in records for output in record.outputs)
    return run_step(step, [Unit("page", inputs)], store, run, inline=True, quiet=quiet)


def write_report(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the page and its numbers; counts the finished stages it tells of."""
    view = read_run(attempt.store, config["run"])
    for name, content in (
        ("index.html", page(view)),
        ("report.json", json.dumps(as_json(view), indent=1, ensure_ascii=False) + "\n"),
    ):
        with local_file() as path:
            path.write_text(content, encoding="utf-8")
            attempt.write_file(name, path, part="report")
    attempt.counters["stages"] = sum(stage.record is not None for stage in view.stages)
    attempt.counters["unfinished_stages"] = len(view.unfinished)


def as_json(view: RunView) -> dict[str, Any]:
    """All numbers of the page as plain JSON."""
    summary = summary_of(view.speed.speed) if view.speed else None
    tables = {"balance": view.balance, "vocabulary": view.vocabulary, "pretraining": view.metrics}
    return {
        "run": view.name,
        "title": view.section.title,
        "verdict": verdict(view),
        "config_sha256": view.config_sha256,
        "packages": {name: list(found) for name, found in view.packages.items()},
        "unfinished": list(view.unfinished),
        "outdated": list(view.outdated),
        "stages": [
            {
                "stage": stage.name,
                "units": stage.record.units,
                "reused": stage.record.reused,
                "seconds": stage.record.seconds,
                "work_seconds": round(stage.work_seconds, 3),
                "counters": stage.record.counters,
                "notes": stage.record.notes,
            }
            for stage in view.stages
            if stage.record is not None
        ],
        "funnel": [asdict(row) for row in funnel(view)],
        "dropped": [asdict(row) for row in dropped(view)],
        "loss_by_group": [asdict(row) for row in group_losses(view.metrics)]
        if view.metrics
        else [],
        "speed": summary and summary.model_dump(mode="json"),
        **{name: found and found.model_dump(mode="json") for name, found in tables.items()},
        "scores": [scores.model_dump(mode="json") for scores in view.scores],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the report of a run; returns the exit status."""
    return drive(
        "flows.report",
        __doc__,
        lambda stage, store, run: build_report(store, run),
        ["report"],
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
