from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from model.checkpoint import (
    Checkpoint,
    CheckpointDamaged,
    agreed,
    delete_older,
    latest_complete,
    load,
    save,
    step_key,
    steps_present,
)
from model.distributed import Worker
from pipelines.core.store import Store

FOLDER = "runs/r/checkpoints/unit"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(str(tmp_path))
    for step in (10, 20, 30):
        save(store, FOLDER, made(step))
    return store


def made(step: int) -> Checkpoint:
    weights = {"w": torch.full((3, 2), float(step)), "b": torch.arange(4.0)}
    return Checkpoint(step, weights, {"w/step": torch.tensor(float(step))}, {"log": [step]})


def test_what_was_saved_is_loaded(store: Store) -> None:
    found, passed_over = latest_complete(store, FOLDER)
    assert found is not None and passed_over == []
    assert found.step == 30 and found.training == {"log": [30]}
    assert torch.equal(found.model["w"], torch.full((3, 2), 30.0))
    assert float(found.optimizer["w/step"]) == 30.0


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "training.json"])
def test_a_damaged_or_unfinished_checkpoint_is_passed_over(store: Store, name: str) -> None:
    changed = store.path(f"{step_key(FOLDER, 30)}/{name}")
    content = bytearray(Path(changed).read_bytes())
    content[-1] ^= 1
    Path(changed).write_bytes(bytes(content))
    Path(store.path(f"{step_key(FOLDER, 20)}/manifest.json")).unlink()
    found, passed_over = latest_complete(store, FOLDER)
    assert found is not None and found.step == 10
    assert len(passed_over) == 2
    assert f"step-00000030/{name}: not what was written" in passed_over[0]
    with pytest.raises(CheckpointDamaged, match=name):
        load(store, step_key(FOLDER, 30))


def test_truncated_file_and_broken_manifest_are_passed_over(store: Store) -> None:
    model = Path(store.path(f"{step_key(FOLDER, 30)}/model.safetensors"))
    model.write_bytes(model.read_bytes()[:20])
    Path(store.path(f"{step_key(FOLDER, 20)}/manifest.json")).write_text('{"step": 20')
    found, _ = latest_complete(store, FOLDER)
    assert found is not None and found.step == 10


def test_a_named_checkpoint_that_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint at runs/r/checkpoints/unit/step-00"):
        load(store, step_key(FOLDER, 40))
    with pytest.raises(FileNotFoundError, match="no checkpoint at runs/r"):
        load(store, "runs/r")


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert latest_complete(Store(str(tmp_path)), FOLDER) == (None, [])


def test_older_ones_go_and_those_of_a_rival_that_is_ahead_stay(store: Store) -> None:
    delete_older(store, FOLDER, keep=1, newest=20)
    assert steps_present(store, FOLDER) == [20, 30]


def test_all_workers_go_on_from_the_checkpoint_that_the_first_one_found(store: Store) -> None:
    class Second(Worker):
        """A worker that is told the first one's choice; gathering itself is torch's affair."""

        def gather(self, value: Any) -> list[Any]:
            return [20, value]

    found, _ = agreed(store, FOLDER, Second(rank=1, world_size=2))
    assert found is not None and found.step == 20  # though 30 is there by now
    found, _ = agreed(store, FOLDER, Worker())
    assert found is not None and found.step == 30


def test_it_works_on_an_object_store() -> None:
    store = Store("memory://checkpoints")
    for step in (1, 2, 3):
        save(store, FOLDER, made(step))
    delete_older(store, FOLDER, keep=2, newest=3)
    found, _ = latest_complete(store, FOLDER)
    assert found is not None and found.step == 3
    assert steps_present(store, FOLDER) == [2, 3]
