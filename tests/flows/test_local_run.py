from __future__ import annotations

import os
from pathlib import Path

import pytest

from flows.config import resolve
from flows.local_run import StageEnded, ray_cluster, run_driver
from flows.services import Services
from flows.stages import STAGES, Stage

SCRIPT = str(Path(__file__).resolve().parent / "tiny_stage.py")


def test_a_failed_driver_ends_the_run_with_the_stages_name(tmp_path: Path) -> None:
    config = resolve("demo", settings={"store.url": str(tmp_path), "run.name": "r"})
    run_driver(Stage("first", (SCRIPT, "first", "ok"), ""), config, os.environ)
    assert (tmp_path / "runs/r/stages/first.json").exists()
    (tmp_path / "third-is-broken").touch()
    with pytest.raises(StageEnded, match="'second' failed"):
        run_driver(Stage("second", (SCRIPT, "second", "fragile"), ""), config, os.environ)


def test_a_cluster_the_person_named_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with ray_cluster(lambda _: None, Services(tmp_path, tmp_path, {})) as environment:
        assert environment == {}
    assert list(tmp_path.iterdir()) == []


def test_the_stages_of_a_run_in_their_order() -> None:
    assert [stage.name for stage in STAGES] == [
        "extract",
        "filter",
        "deduplicate",
        "perplexity",
        "balance",
        "vocabulary",
        "pack",
        "pretrain",
        "export",
        "finetune",
        "report",
    ]
    assert STAGES[0].arguments("s3://b", "r")[1:] == [
        "-m",
        "pipelines.run_stage",
        "extract",
        "--store",
        "s3://b",
        "--run",
        "r",
    ]
