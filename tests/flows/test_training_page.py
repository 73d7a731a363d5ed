"""What Prefect's page and the report tell of a pretraining."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from flows.report.html import page
from flows.report.read import read_run
from flows.report.training_plots import MOST_LANGUAGES, shown_languages
from flows.report.training_tables import Metrics, Speed, summary_of
from flows.training_page import training_artifacts
from model.checkpoint import Checkpoint, save
from pipelines.core.manifest import read_stage
from pipelines.core.store import Store
from tests.flows.report_runs import METRICS, SPEED, build_run, printed, stage


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(str(tmp_path_factory.mktemp("page")))
    build_run(store)
    for step in (200, 400):
        tensors = {"bias": torch.zeros(10)}
        save(store, "runs/r/checkpoints/0123", Checkpoint(step, tensors, tensors, {"log": []}))
    return store


def rows_of(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_losses_stand_beside_the_unigram_model(store: Store) -> None:
    pages = training_artifacts(store, "r", read_stage(store, "r", "pretrain"))

    rows = {row[0]: row for row in rows_of(pages["pretrain-losses"])}
    assert rows["language"][2:] == ["step 0", "step 400", "unigram", "against unigram"]
    assert rows["en"] == ["en", "60,000", "9.300", "5.000", "6.400", "-1.400"]
    assert rows["sw"][1:] == ["60", "9.380", "5.800", "7.200", "-1.400"]
    assert pages["pretrain-losses"].startswith("400 steps, 3,276,800 tokens.")


def test_checkpoints_are_named_as_settings_take_them(store: Store) -> None:
    pages = training_artifacts(store, "r", read_stage(store, "r", "pretrain"))
    assert [row[0] for row in rows_of(pages["pretrain-checkpoints"])[2:]] == ["`r@200`", "`r@400`"]


def test_speed_is_the_median(store: Store) -> None:
    pages = training_artifacts(store, "r", read_stage(store, "r", "pretrain"))
    rows = dict(rows_of(pages["pretrain-speed"])[2:])
    assert rows["real tokens per second"] == "8,323"
    assert (rows["MFU"], rows["loader idle"]) == ("41.0%", "0.40%")


def test_a_run_without_checkpoints_and_speed_has_pages(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ())
    record = stage(store, "pretrain", ({"part": "metrics"}, {**METRICS, "evaluations": []}))
    pages = training_artifacts(store, "r", record)
    assert "Nothing was held out" in pages["pretrain-losses"]
    assert pages["pretrain-checkpoints"] == "No checkpoint is kept."
    assert "pretrain-speed" not in pages
    assert "Speed was not recorded" in page(read_run(store, "r"))


def test_the_summary_is_of_medians_and_the_largest_peak() -> None:
    def line(step: int, real: float, memory: float, **more: Any) -> dict[str, Any]:
        return {"step": step, "tokens_per_second/real": real, "tokens_per_second/padded": 0.0,
                "tokens_per_second/masked": real / 10, "loader_idle_share": 0.0,
                "memory_peak_bytes": memory, **more}  # fmt: skip

    lines = [line(1, 10.0, 5.0), line(2, 30.0, 9.0, mfu=0.5), line(3, 20.0, 7.0)]
    found = summary_of(Speed.model_validate({"speed": lines}).speed)
    assert found is not None
    assert (found.real, found.masked, found.memory_peak_bytes, found.mfu) == (20.0, 2.0, 9.0, 0.5)
    assert summary_of(()) is None


def test_the_picture_of_curves_shows_both_ends_of_many_languages() -> None:
    many = {f"l{n:02}": {"loss_sum": 1.0 * n, "tokens": 1} for n in range(60)}
    metrics = Metrics.model_validate(
        {**METRICS, "unigram": {}, "evaluations": [{"step": 5, "languages": many}]}
    )
    shown = shown_languages(metrics)
    half = MOST_LANGUAGES // 2
    assert shown == [f"l{n:02}" for n in [*range(half), *range(60 - half, 60)]]
    assert shown_languages(metrics, most=100) == sorted(many)


def test_the_report_and_the_terminal_tell_the_speed(store: Store) -> None:
    text = page(read_run(store, "r"))
    assert "8,323 tokens/s" in text and "41.0% of the peak (MFU)" in text
    assert "<td>8,523</td>" in text, "the log's table has the speed of each line"
    assert "8,323 tokens/s" in " ".join(printed(store, 100).split())
    assert SPEED["speed"][-1]["tokens_per_second/real"] == 8523.4
