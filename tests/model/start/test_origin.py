"""A run that has a checkpoint of its own does not need the one that it began with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from model import checkpoint
from model.checkpoint.upkeep import delete_older
from model.distributed import Worker
from model.plan import RunInputs, pretraining_binding, pretraining_job
from model.pretrain import pretrain
from model.pretraining_job import PretrainingJob
from model.start.origin import check_resume, recorded_resume, recorded_start
from pipelines.core.config import ConfigError
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store
from tests.model.checkpoints import made
from tests.model.tiny import build, tiny_config, write_config

OLD, NEW, OTHER = "runs/old/checkpoints/0123", "runs/new/checkpoints/4567", "runs/new/checkpoints/9"
RECIPE = {"steps": 6, "checkpoint_every_steps": 2}
BEGIN = {"learning_rate": 1e-3, "log_every_steps": 1}


class Crash(Exception):
    """The end of a process."""


class CrashAt:
    """Ends training at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        if kind == "train" and step == self.step:
            raise Crash

    def close(self) -> None:
        pass


@pytest.fixture
def old(store: Store, tmp_path: Path) -> Store:
    """A store with a run `old` that has checkpoints of the steps 2, 4 and 6, and a run `new`."""
    keep = {"keep_checkpoints": 3}
    build(store, tiny_config(run={"name": "old"}, pretraining=RECIPE | keep))
    train(store, pretraining_job(RunInputs(store, "old")), OLD, tmp_path)
    build(store, tiny_config(run={"name": "new"}, pretraining=RECIPE | BEGIN))
    return store


def planned(store: Store, **pretraining: Any) -> PretrainingJob:
    config = tiny_config(run={"name": "new"}, pretraining={**RECIPE, **BEGIN, **pretraining})
    write_config(store, config)
    return pretraining_job(RunInputs(store, "new"))


def train(
    store: Store, job: PretrainingJob, place: str, cache: Path, crash_at: int | None = None
) -> checkpoint.Checkpoint:
    sinks = [] if crash_at is None else [CrashAt(crash_at)]
    pretrain(job, store, place, Worker(), cache / "cache", sinks=sinks)
    found, _ = checkpoint.latest_complete(store, place)
    assert found is not None
    return found


@pytest.mark.parametrize("setting", ["resume_from", "start_from"])
def test_a_fork_goes_on_after_its_origin_was_deleted(
    old: Store, tmp_path: Path, setting: str
) -> None:
    begin = {setting: "old@2"}
    job = planned(old, **begin)
    wanted = train(old, job, "runs/undisturbed/checkpoints/unit", tmp_path)
    with pytest.raises(Crash):
        train(old, job, NEW, tmp_path, crash_at=5)
    assert 4 in checkpoint.steps_present(old, NEW)
    delete_older(old, OLD, keep=1, newest=6)
    with pytest.raises(ConfigError, match="no whole checkpoint of step 2; there are: .*old@6"):
        checkpoint.named(old, "old@2")

    again = planned(old, **begin)
    assert again == job, "so the result is bound as before"
    check_resume(again, old, NEW)
    found = train(old, again, NEW, tmp_path)
    assert found.step == 6 and found.training["log"] == wanted.training["log"]
    assert all(torch.equal(found.model[name], tensor) for name, tensor in wanted.model.items())

    for wrong in ("old@3", "old/9999@2", "odl@2"):
        with pytest.raises(ConfigError, match="there are: "):
            planned(old, **{setting: wrong})
    for step in checkpoint.steps_present(old, NEW):
        old.delete(checkpoint.step_key(NEW, step))
    with pytest.raises(ConfigError, match="no whole checkpoint of step 2"):
        planned(old, **begin)


def test_a_start_without_a_checkpoint_of_its_own_needs_the_origin(
    old: Store, tmp_path: Path
) -> None:
    job = planned(old, resume_from="old@2")
    check_resume(job, old, OTHER)
    train(old, job, NEW, tmp_path)
    old.delete(checkpoint.step_key(OLD, 2))
    # With other settings it would begin anew, in another folder.
    other = planned(old, resume_from="old@2", learning_rate=2e-3)
    assert other.resume == job.resume
    with pytest.raises(ConfigError, match="resume_from = 'old/0123@2': no whole checkpoint of st"):
        check_resume(other, old, OTHER)
    with pytest.raises(ConfigError, match="no whole checkpoint of step 2"):
        train(old, other, OTHER, tmp_path)
    assert not old.keys(OTHER)
    with pytest.raises(ConfigError, match="is at step 2, and training ends at step 2"):
        planned(old, resume_from="old@2", steps=2, warmup_steps=1)


def publish(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    attempt.write_bytes(f"{attempt.unit_id}/model", b"weights", part="model")


def test_a_finished_run_needs_neither_its_origin_nor_its_checkpoints(
    old: Store, tmp_path: Path
) -> None:
    """Export and fine-tuning plan the training again."""
    job = planned(old, resume_from="old@2")
    read, unit = pretraining_binding(RunInputs(old, "new"), job)
    step = Step("pretrain", 1, "runs/new/pretrained", read, publish)
    run_step(step, [unit], old, "new", inline=True, quiet=True)
    old.delete(checkpoint.step_key(OLD, 2))
    assert planned(old, resume_from="old@2") == job
    assert recorded_resume(old, "new", "old@2") == job.resume
    assert recorded_start(old, "new", "old@2") is None
    assert recorded_resume(old, "old", "old@2") is None, "another run's"


def test_a_named_checkpoint_that_is_there_stands_above_the_record(
    old: Store, tmp_path: Path
) -> None:
    """Its content binds: one that was trained anew is another beginning."""
    job = planned(old, resume_from="old@2")
    train(old, job, NEW, tmp_path)
    found, _ = checkpoint.latest_complete(old, OLD)
    assert found is not None
    said = {"made_with": found.training["made_with"]}
    old.delete(checkpoint.step_key(OLD, 2))
    checkpoint.save(old, OLD, checkpoint.Checkpoint(2, found.model, found.optimizer, said))
    other = planned(old, resume_from="old@2")
    assert other.resume is not None and other.resume != job.resume


def test_a_checkpoint_after_the_last_step_is_another_trainings(
    store: Store, tmp_path: Path
) -> None:
    build(store, tiny_config(run={"name": "new"}, pretraining=RECIPE))
    job = pretraining_job(RunInputs(store, "new"))
    checkpoint.save(store, NEW, made(6))
    check_resume(job, store, NEW)
    checkpoint.save(store, NEW, made(60))
    said = r"has a checkpoint of step 60, and this training ends at step 6: .*step-00000060"
    with pytest.raises(ConfigError, match=said):
        check_resume(job, store, NEW)
    with pytest.raises(ConfigError, match=said):
        pretrain(job, store, NEW, Worker(), tmp_path / "cache")
