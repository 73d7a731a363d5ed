"""A run that has a checkpoint of its own does not need the one that it began with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from model import checkpoint
from model.distributed import Worker
from model.origin import FILE, Origin, check_resume, recorded_resume
from model.plan import RunInputs, pretraining_binding, pretraining_job
from model.pretrain import pretrain
from model.pretraining_job import PretrainingJob
from pipelines.core.config import ConfigError
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store

from .checkpoints import made
from .tiny import build, tiny_config

OLD, NEW = "runs/old/checkpoints/0123", "runs/new/checkpoints/4567"
RECIPE = {"steps": 6, "checkpoint_every_steps": 2, "keep_checkpoints": 1}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def planned(store: Store, **pretraining: Any) -> PretrainingJob:
    """Build the run `new` (nothing is done twice) and plan its training."""
    build(store, tiny_config(run={"name": "new"}, pretraining={**RECIPE, **pretraining}))
    return pretraining_job(RunInputs(store, "new"))


def train(store: Store, job: PretrainingJob, place: str, cache: Path) -> checkpoint.Checkpoint:
    pretrain(job, store, place, Worker(), cache)
    found, _ = checkpoint.latest_complete(store, place)
    assert found is not None
    return found


@pytest.fixture
def old(store: Store, tmp_path: Path) -> Store:
    """A store with a run `old` that has a checkpoint of step 4, and will delete it at step 6."""
    build(store, tiny_config(run={"name": "old"}, pretraining=RECIPE))
    job = pretraining_job(RunInputs(store, "old"))
    train(store, job, OLD, tmp_path / "old")
    store.delete(checkpoint.step_key(OLD, 6))
    train(store, job, f"{OLD}-other", tmp_path / "old")  # only a rival, with step 6 alone
    return store


def go_on_with_old(store: Store, tmp_path: Path) -> None:
    train(store, pretraining_job(RunInputs(store, "old")), OLD, tmp_path / "old")
    assert list(checkpoint.steps_present(store, OLD)) == [6]


@pytest.mark.parametrize("setting", ["resume_from", "start_from"])
def test_a_fork_is_planned_again_after_its_origin_is_deleted(
    store: Store, tmp_path: Path, setting: str
) -> None:
    keep = {"keep_checkpoints": 3}
    build(store, tiny_config(run={"name": "old"}, pretraining=RECIPE | keep))
    train(store, pretraining_job(RunInputs(store, "old")), OLD, tmp_path / "old")
    begin = {setting: "old@4", "learning_rate": 1e-3}
    job = planned(store, **begin)
    ended = train(store, job, NEW, tmp_path / "new")
    store.delete(checkpoint.step_key(NEW, 6))  # as if it had been killed after step 4 + ...
    checkpoint.save(store, NEW, checkpoint.Checkpoint(5, ended.model, ended.optimizer, {}))
    checkpoint.delete_older(store, OLD, keep=1, newest=6)
    assert checkpoint.run_checkpoints(store, "old").keys() == {OLD}
    with pytest.raises(ConfigError, match="no whole checkpoint of step 4; there are: old@6"):
        checkpoint.named(store, "old@4")

    for name in ("old@4", "old/0123@4"):
        assert planned(store, **begin | {setting: name}) == planned(store, **begin)
    again = planned(store, **begin)
    assert again.model_dump(exclude={"pretraining"}) == job.model_dump(exclude={"pretraining"})
    assert again.resume == job.resume and again.start == job.start
    if setting == "resume_from":
        check_resume(again, store, NEW)
        with pytest.raises(ConfigError, match="no whole checkpoint of step 4"):
            check_resume(again, store, "runs/new/checkpoints/of-other-settings")
    for wrong in ("old@5", "old/9999@4", "odl@4"):
        with pytest.raises(ConfigError, match="there are: "):
            planned(store, **begin | {setting: wrong})
    for step in checkpoint.steps_present(store, NEW):
        store.delete(checkpoint.step_key(NEW, step))
    with pytest.raises(ConfigError, match="no whole checkpoint of step 4"):
        planned(store, **begin)
