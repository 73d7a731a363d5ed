"""How far a pretraining is, by the checkpoints that are whole."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from flows.status import runs_table
from flows.training_progress import last_step
from model.checkpoint import Checkpoint, save
from pipelines.core.store import Store

UNIT = "runs/tiny/checkpoints/0123456789abcdef"


@pytest.fixture
def store(untrained: Store, tmp_path: Path) -> Store:
    """A run in training, with checkpoints of steps 4 and 8 of 12."""
    store = Store(str(shutil.copytree(untrained.path(""), tmp_path / "store")))
    stages = Path(store.path("runs/tiny/stages"))
    for stage in ("extract", "filter"):  # of which the tiny run knows nothing
        shutil.copy(stages / "deduplicate.json", stages / f"{stage}.json")
    for step in (4, 8):
        tensors = {"bias": torch.zeros(3)}
        save(store, UNIT, Checkpoint(step, tensors, {"bias.step": torch.ones(1)}, {"log": []}))
    return store


def shown(store: Store) -> str:
    page = StringIO()
    Console(file=page, width=300).print(runs_table(store))
    return page.getvalue()


def manifest_of(store: Store, step: int) -> dict[str, object]:
    content = store.read_bytes(f"{UNIT}/step-{step:08d}/manifest.json")
    found: dict[str, object] = json.loads(content)
    return found


def write_manifest(store: Store, unit: str, step: int, content: object) -> None:
    key = f"{unit}/step-{step:08d}/manifest.json"
    store.publish_bytes(key, json.dumps(content).encode("utf-8"))


def test_status_shows_the_step_of_the_last_checkpoint(store: Store) -> None:
    assert last_step(store, "tiny") == 8
    assert "pretrain, step 8 of 12" in shown(store)
    shutil.rmtree(store.path(UNIT))
    assert last_step(store, "tiny") is None
    assert "│ pretrain │" in shown(store)


def test_a_finished_pretraining_has_no_step(store: Store) -> None:
    stages = Path(store.path("runs/tiny/stages"))
    shutil.copy(stages / "deduplicate.json", stages / "pretrain.json")
    assert "export" in shown(store) and "step 8" not in shown(store)


def test_a_checkpoint_that_is_not_whole_does_not_count(store: Store) -> None:
    store.publish_bytes(f"{UNIT}/step-00000010/attempt/model.safetensors", b"half")
    assert last_step(store, "tiny") == 8
    for damaged in ({}, [], None, {"files": [{}], "written": "2999"}, {"files": 5}):
        write_manifest(store, UNIT, 10, damaged)
        assert last_step(store, "tiny") == 8
    store.publish_bytes(f"{UNIT}/step-00000010/manifest.json", b"{")
    assert last_step(store, "tiny") == 8


def test_of_several_configurations_the_one_trained_last_counts(store: Store) -> None:
    later = manifest_of(store, 4) | {"step": 2, "written": "2999-01-01T00:00:00+00:00"}
    write_manifest(store, "runs/tiny/checkpoints/fedcba9876543210", 2, later)
    assert last_step(store, "tiny") == 2
    tuned = later | {"files": [{"name": "model.safetensors", "bytes": 1, "sha256": "0" * 64}]}
    write_manifest(store, "runs/tiny/checkpoints/fedcba9876543210", 2, tuned)
    assert last_step(store, "tiny") == 8  # fine-tuning keeps no optimizer's state


def test_settings_of_another_version_hide_the_total_only(store: Store) -> None:
    key = "runs/tiny/config.toml"
    content = store.read_bytes(key).decode("utf-8")
    store.publish_bytes(key, content.replace("[pretraining]", "[pretraining]\nnew = 1").encode())
    assert "pretrain, step 8 " in shown(store) and "step 8 of" not in shown(store)
