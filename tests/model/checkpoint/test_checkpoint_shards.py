"""A sharded optimizer: every worker writes its own file, and any number of workers reads them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from model.checkpoint import (
    Checkpoint,
    CheckpointLost,
    CheckpointWriter,
    latest_complete,
    load,
    read_manifest,
    step_key,
)
from model.checkpoint import attempt as checkpoint_attempt
from model.distributed import Worker
from pipelines.core.store import Store
from tests.model.checkpoints import FOLDER, made, same
from tests.model.gloo_workers import run_in_workers


def shard(rank: int, world_size: int) -> dict[str, torch.Tensor]:
    """States of the parameters p0 ... p6 that a worker holds: those with n % world_size = rank."""
    return {f"p{n}/exp_avg": torch.full((4,), float(n)) for n in range(rank, 7, world_size)}


def whole_state() -> dict[str, torch.Tensor]:
    return shard(0, 1)


def _save_sharded(worker: Worker, url: str) -> None:
    store = Store(url)
    with CheckpointWriter(store, FOLDER, worker, 2, say=lambda _: None) as writer:
        writer.save(0, {"w": torch.zeros(2)}, {}, {})  # an optimizer that was not used yet
        for step in (10, 20):
            weights = {"w": torch.full((2,), float(step + 100 * worker.rank))}
            states = shard(worker.rank, worker.world_size)
            writer.save(step, weights, states, {"by": worker.rank})


class Counting(Store):
    """Counts the files that are read whole."""

    def on_disk(self, key: str):  # type: ignore[no-untyped-def]
        self.__dict__.setdefault("read", []).append(key.rpartition("/")[2])
        return super().on_disk(key)


def _save_unsharded(worker: Worker, url: str, others_give: bool) -> None:
    saved = made(10)
    states = saved.optimizer if worker.leads or others_give else {}
    with CheckpointWriter(Store(url), FOLDER, worker, 2) as writer:
        writer.save(10, saved.model, states, saved.training)


class Shardless(Store):
    """A store that loses the record of another worker's shard, as if that worker had died."""

    def publish_bytes(self, key: str, content: bytes) -> None:
        if "/worker-" not in key:
            super().publish_bytes(key, content)


def _lose_a_shard(worker: Worker, url: str) -> None:
    store = Shardless(url)
    checkpoint_attempt.HURRY_SECONDS = 0.3
    writer = CheckpointWriter(store, FOLDER, worker, 2, say=lambda _: None)
    states = shard(worker.rank, worker.world_size)
    writer.save(10, {"w": torch.ones(1)}, states, {})
    if worker.leads:
        with pytest.raises(CheckpointLost, match=r"of 2 workers, \[1\] wrote no shard"):
            writer.wait()
    else:
        writer.wait()


def _write_everything(worker: Worker, root: str) -> None:
    """All that the tests look at, in one group of workers: starting one takes seconds."""
    _save_sharded(worker, f"{root}/sharded")
    if worker.world_size == 2:
        _save_unsharded(worker, f"{root}/all give the same", True)
        _save_unsharded(worker, f"{root}/only the first gives", False)
        _lose_a_shard(worker, f"{root}/a shard is lost")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], Store]:
    roots: dict[int, Path] = {}

    def of(world_size: int, what: str) -> Store:
        if world_size not in roots:
            root = tmp_path_factory.mktemp(f"workers-{world_size}")
            run_in_workers(world_size, _write_everything, str(root))
            roots[world_size] = root
        return Store(str(roots[world_size] / what))

    return of


@pytest.mark.parametrize("world_size", [2, 3])
def test_a_sharded_optimizer_is_written_by_all_and_read_by_any_number(
    written: Callable[[int, str], Store], world_size: int
) -> None:
    store = written(world_size, "sharded")
    found, passed_over = latest_complete(store, FOLDER)
    assert passed_over == []
    assert same(found, Checkpoint(20, {"w": torch.full((2,), 20.0)}, whole_state(), {"by": 0}))
    manifest = read_manifest(store, step_key(FOLDER, 20))
    assert manifest.world_size == world_size and manifest.resumable
    names = [f"optimizer-{n:05d}-of-{world_size:05d}.safetensors" for n in range(world_size)]
    assert sorted(f.name for f in manifest.files if f.name.startswith("opt")) == names
    for readers in (1, world_size, 5):
        merged: dict[str, torch.Tensor] = {}
        for reader in range(readers):
            mine = shard(reader, readers)
            counting = Counting(store.url)
            part = load(counting, step_key(FOLDER, 20), optimizer=mine.__contains__)
            assert part.optimizer.keys() == mine.keys()
            merged |= part.optimizer
            if readers == world_size:  # its own shard, and no other's
                read = [n for n in counting.__dict__["read"] if n.startswith("opt")]
                assert read == [names[reader]]
        assert merged.keys() == whole_state().keys()
        assert all(torch.equal(merged[name], value) for name, value in whole_state().items())


@pytest.mark.parametrize("what", ["all give the same", "only the first gives"])
def test_without_shards_only_the_first_worker_writes(
    written: Callable[[int, str], Store], what: str
) -> None:
    store = written(2, what)
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(10))
    names = {key.rpartition("/")[2] for key in store.keys(FOLDER)}
    assert names == {"manifest.json", "model.safetensors", "optimizer.safetensors", "training.json"}


def test_a_shard_that_is_missing_is_named_and_the_checkpoint_does_not_count(
    written: Callable[[int, str], Store],
) -> None:
    store = written(2, "a shard is lost")
    assert latest_complete(store, FOLDER)[0] is None
    assert list(store.keys(FOLDER)) == [], "nor does it take room"


def test_a_missing_and_a_damaged_shard_are_found(
    written: Callable[[int, str], Store], tmp_path: Path
) -> None:
    shutil.copytree(written(2, "sharded").url, tmp_path / "store")
    store = Store(str(tmp_path / "store"))
    attempts = {step: read_manifest(store, step_key(FOLDER, step)).attempt for step in (10, 20)}
    name = "optimizer-00001-of-00002.safetensors"
    path = Path(store.path(f"{step_key(FOLDER, 20)}/{attempts[20]}/{name}"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\0")
    found, passed_over = latest_complete(store, FOLDER)
    assert found is not None and found.step == 10
    assert f"{name}: not what was written" in passed_over[0]
    path.write_bytes(content)
    assert latest_complete(store, FOLDER)[1] == []
    path.unlink()
    found, passed_over = latest_complete(store, FOLDER)
    assert found is not None and found.step == 10 and f"{name}: not there" in passed_over[0]
