"""Checkpoints on a real S3-compatible server that fails one request in ten, or that is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest
import torch

from model.checkpoint import (
    Checkpoint,
    CheckpointLost,
    CheckpointUnreadable,
    CheckpointWriter,
    latest_complete,
    load,
    named,
    save,
    step_key,
    steps_present,
)
from model.distributed import Worker
from model.notices import StopNotice, request
from pipelines.core.store import Store
from tests.flaky_proxy import FAILURES, flaky_store
from tests.model.checkpoint.test_checkpoint_shards import shard, whole_state
from tests.model.checkpoints import made, same
from tests.model.gloo_workers import run_in_workers
from tests.model.test_notices import until
from tests.object_store import free_ports


@pytest.fixture(scope="module")
def flaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Counter[str]]]:
    with flaky_store(tmp_path_factory.mktemp("s3") / "server") as found:
        yield found


def _sharded(worker: Worker, url: str, folder: str) -> None:
    with CheckpointWriter(Store(url), folder, worker, 2) as writer:
        for step in (10, 20, 30):
            states = shard(worker.rank, worker.world_size)
            writer.save(step, {"w": torch.full((2,), float(step))}, states, {"by": worker.rank})


def test_one_request_in_ten_fails_and_no_checkpoint_is_lost(
    flaky: tuple[Store, Counter[str]],
) -> None:
    store, done = flaky
    folder, said = "runs/flaky/checkpoints/u", list[str]()
    large = made(70, size=1_500_000)  # 12 MB
    with CheckpointWriter(store, folder, Worker(), keep=2, say=said.append) as writer:
        for step in range(10, 70, 10):
            saved = made(step)
            loss = 1.0 if step == 20 else 2.0
            writer.save(step, saved.model, saved.optimizer, saved.training, loss)
        writer.save(70, large.model, large.optimizer, large.training)
    assert said == writer.notes == []
    assert [saved.step for saved in writer.finished()] == [10, 20, 30, 40, 50, 60, 70]
    assert steps_present(store, folder) == [20, 60, 70]
    found, passed_over = latest_complete(store, folder)
    assert same(found, large) and passed_over == []
    for _ in range(3):
        assert same(named(store, "flaky@20"), made(20))

    folder = "runs/shards/checkpoints/u"
    run_in_workers(2, _sharded, store.url, folder)
    wanted = Checkpoint(30, {"w": torch.full((2,), 30.0)}, whole_state(), {"by": 0})
    found, passed_over = latest_complete(store, folder)
    assert same(found, wanted) and passed_over == []
    for rank in range(3):
        mine = shard(rank, 3)
        part = load(store, step_key(folder, 20), optimizer=mine.__contains__)
        assert part.optimizer.keys() == mine.keys()

    with StopNotice() as notice:
        notice.watch(store, "runs/flaky/notice.json", seconds=0.01)
        until(lambda: notice.counters["polls/done"] > 20)
        request(store, "runs/flaky/notice.json", "stop", "enough")
        until(notice.asked)
        assert notice.asked() == ("stop", "enough")
    assert all(done[failure] >= 3 for failure in FAILURES), done


def test_when_the_store_is_gone_the_first_lost_one_is_said_and_the_last_one_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipelines.core.store.TRIES", 2)
    monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 1)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    [port] = free_ports(1)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    fsspec.filesystem("s3").clear_instance_cache()
    store, said = Store("s3://corpora/gone"), list[str]()
    folder, saved = "runs/r/checkpoints/u", made(10)
    with (
        pytest.raises(CheckpointLost, match=r"step 10 lost: .*s3://corpora/gone"),
        CheckpointWriter(store, folder, Worker(), keep=2, say=said.append) as writer,
    ):
        writer.save(10, saved.model, saved.optimizer, saved.training)
    assert len(said) == 1 and "checkpoint of step 10 lost" in said[0]
    with pytest.raises(CheckpointUnreadable, match="s3://corpora/gone"):
        latest_complete(store, folder)
    fsspec.filesystem("s3").clear_instance_cache()


def test_a_bad_transfer_is_made_once_more(tmp_path: Path) -> None:
    class Twisted(Store):
        """A store that hands the first copy of each file over with a wrong byte."""

        def on_disk(self, key: str):  # type: ignore[no-untyped-def]
            @contextmanager
            def copy() -> Iterator[Path]:
                times = self.__dict__.setdefault("times", Counter[str]())
                times[key] += 1
                content = bytearray(self.read_bytes(key))
                content[-1] ^= times[key] == 1
                path = tmp_path / "copy"
                path.write_bytes(content)
                yield path

            return copy()

    store = Store("memory://twisted")
    save(store, "runs/r/checkpoints/u", made(10))
    twisted = Twisted(store.url)
    found, passed_over = latest_complete(twisted, "runs/r/checkpoints/u")
    assert same(found, made(10)) and passed_over == []
    assert set(twisted.__dict__["times"].values()) == {2}
