"""No worker waits in a collective while another waits for files, however long a store takes.

The groups of these tests give up a collective after IMPATIENT, and files take longer than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import model.checkpoint
from model import distributed, pretrain
from model.checkpoint import (
    Checkpoint,
    CheckpointLost,
    CheckpointWriter,
    latest_complete,
    whole_checkpoints,
)
from model.checkpoint import attempt as checkpoint_attempt
from model.checkpoint.files import MODEL
from model.distributed import Worker
from model.plan import RunInputs, pretraining_job
from model.pretraining_job import PretrainingJob
from pipelines.core.config import merge
from pipelines.core.store import Store

from .checkpoint.test_checkpoint_shards import shard, whole_state
from .checkpoints import FOLDER, made, same
from .gloo_workers import IMPATIENT, run_in_workers
from .tiny import build, tiny_config

LONG = IMPATIENT.total_seconds() + 2
WRITE_FILE = checkpoint_attempt.write_file


def slow(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after a long time; of `write_file`, only once a checkpoint."""

    def later(*args: Any, **named: Any) -> Any:
        key = args[1] if plain is WRITE_FILE else MODEL
        if key.endswith(MODEL) or "/optimizer-00001" in key:
            time.sleep(LONG)
        return plain(*args, **named)

    return later


def total(worker: Worker) -> float:
    return float(worker.sum(torch.tensor(worker.rank + 1.0)))


def blocks(worker: Worker) -> None:
    distributed.FIRST_WORD_SECONDS = 1.0
    said: list[str] = []
    distributed._say = said.append  # type: ignore[assignment]
    with worker.own_pace("reading"):
        if worker.rank == 1:
            time.sleep(LONG)
    assert total(worker) == 3.0
    assert bool(said) == worker.leads
    assert all("of 2 workers not done: [1]" in line for line in said)
    # One's error goes on as itself; the others hear of it once they are done.
    fails = worker.rank == 1
    wanted = "my own" if fails else r"reading: of 2 workers, \[1\] ended in an error of their own"
    with pytest.raises(RuntimeError, match=wanted), worker.own_pace("reading"):
        if fails:
            raise RuntimeError("my own")
    assert total(worker) == 3.0, "nobody is in a round that the others have left"
    with pytest.raises(ValueError, match="of all"), worker.own_pace("reading"):
        raise ValueError("of all")
    assert total(worker) == 3.0


def upload(worker: Worker, url: str) -> None:
    """The first worker's uploads take long: one that a save waits for, and the last one."""
    checkpoint_attempt.write_file = slow(checkpoint_attempt.write_file)
    with CheckpointWriter(Store(url), FOLDER, worker, 3) as writer:
        for step in (10, 20):
            saved = made(step)
            writer.save(step, saved.model, saved.optimizer, saved.training)
        writer.wait()
        assert sorted(whole_checkpoints(Store(url), FOLDER)) == [10, 20], "on every worker"


def shard_upload(worker: Worker, url: str) -> None:
    """Another worker's shard takes long, and far longer than the first would hurry."""
    checkpoint_attempt.HURRY_SECONDS = 0.1
    if not worker.leads:
        checkpoint_attempt.write_file = slow(checkpoint_attempt.write_file)
    with CheckpointWriter(Store(url), FOLDER, worker, 3) as writer:
        writer.save(10, {"w": torch.ones(2)}, shard(worker.rank, 2), {})


def lost_shard(worker: Worker, url: str) -> None:
    """The store refuses another worker's shard of one checkpoint, and takes that of the next."""
    plain, said = checkpoint_attempt.write_file, list[str]()

    def refused(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    if not worker.leads:
        checkpoint_attempt.write_file = refused
    with CheckpointWriter(Store(url), FOLDER, worker, 3, say=said.append) as writer:
        for step in (10, 20):
            writer.save(step, {"w": torch.ones(2)}, shard(worker.rank, 2), {})
            with pytest.raises(CheckpointLost) if step == 10 else nullcontext():
                writer.wait()
            checkpoint_attempt.write_file = plain
    [lost, *rest] = said
    assert "checkpoint of step 10 lost" in lost and "No space left on device" in lost
    assert ("worker 1 lost its shard of the optimizer: OSError" in lost) == worker.leads
    assert not any("lost" in line for line in rest)


def all_of_them(worker: Worker, root: str) -> None:
    blocks(worker)
    plain = checkpoint_attempt.write_file
    for work in (lost_shard, shard_upload, upload):
        work(worker, f"{root}/{work.__name__}")
        checkpoint_attempt.write_file = plain


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores of all the functions above; one group of workers, because each takes seconds."""
    root = tmp_path_factory.mktemp("paces")
    run_in_workers(2, all_of_them, str(root), patience=IMPATIENT)
    return root


def test_an_upload_longer_than_the_groups_timeout(written: Path) -> None:
    found, passed_over = latest_complete(Store(str(written / "upload")), FOLDER)
    assert same(found, made(20)) and passed_over == []


@pytest.mark.parametrize(("what", "step"), [("shard_upload", 10), ("lost_shard", 20)])
def test_a_slow_shard_counts_and_a_lost_one_costs_one_checkpoint(
    written: Path, what: str, step: int
) -> None:
    store = Store(str(written / what))
    found, _ = latest_complete(store, FOLDER)
    assert same(found, Checkpoint(step, {"w": torch.ones(2)}, whole_state(), {}))
    assert sorted(whole_checkpoints(store, FOLDER)) == [step]


def train_twice(worker: Worker, job: PretrainingJob, url: str, folder: str, cache: str) -> None:
    """The second worker brings packed files and reads the checkpoint slowly, the first writes it
    slowly."""
    arguments = (job, Store(url), folder, worker, Path(cache))
    plain = pretrain.TrainingData
    if worker.leads:
        checkpoint_attempt.write_file = slow(checkpoint_attempt.write_file)
    else:
        pretrain.TrainingData = slow(plain)  # type: ignore[assignment, misc]
    pretrain.pretrain(*arguments)
    pretrain.TrainingData = plain  # type: ignore[misc]
    if not worker.leads:
        model.checkpoint.read_files = slow(model.checkpoint.read_files)
    pretrain.pretrain(*arguments)


def test_pretraining_with_a_store_slower_than_the_groups_timeout(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    build(store, tiny_config())
    base = pretraining_job(RunInputs(store, "tiny")).model_dump(mode="json")
    recipe = {"steps": 2, "warmup_steps": 1, "checkpoint_every_steps": 2}
    job = PretrainingJob.model_validate(merge(base, {"pretraining": recipe}))
    folder, cache = "runs/tiny/checkpoints/slow", str(tmp_path / "cache")
    run_in_workers(2, train_twice, job, store.url, folder, cache, patience=IMPATIENT)
    found, passed_over = latest_complete(store, folder)
    assert found is not None and found.step == 2 and passed_over == []
