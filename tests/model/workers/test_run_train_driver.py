"""The driver's watch over a training: words to stop, grace, a cluster that is too small."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from model import checkpoint
from model.config import ClusterSection
from model.notices import StopNotice
from model.workers import train_driver
from model.workers.failures import DriverStopped, TrainingFailed
from model.workers.run_lease import RunLease
from model.workers.train_driver import Follow, InThread
from pipelines.core.store import Store

FOLDER, KEY = "runs/tiny/checkpoints/unit", "runs/tiny/checkpoints/unit/stop.json"


class Training:
    """A training that goes on until it is let go."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.result: dict[str, Any] = {}

    def __call__(self) -> dict[str, Any]:
        self.over.wait(60)
        return self.result


@pytest.fixture
def training() -> Iterator[Training]:
    made = Training()
    yield made
    made.over.set()


@pytest.fixture
def lack(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the cluster lacks: nothing, until a test puts something in."""
    lacks: list[str] = []
    monkeypatch.setattr(train_driver, "shortage", lambda _: lacks[0] if lacks else None)
    monkeypatch.setattr(train_driver, "COUNT_SECONDS", 0.1)
    return lacks


def follow(
    store: Store, training: Training, notice: StopNotice, loop: str = "pretrain", **settings: Any
) -> tuple[dict[str, Any], Follow]:
    cluster = ClusterSection(**settings)
    watch = Follow(loop, store, FOLDER, KEY, cluster, notice)
    with RunLease(store, f"{FOLDER}/driver.json", renew_seconds=0.2) as lease:
        return watch.until_the_end(InThread(training), lease), watch


def test_a_signal_asks_the_workers_to_stop_and_their_answer_comes_back(
    store: Store, training: Training, lack: list[str]
) -> None:
    training.result = {"step": 7, "why": "signal SIGTERM"}

    def workers() -> None:  # what the first worker of a real group does
        with StopNotice() as theirs:
            theirs.watch(store, KEY, 0.05)
            while theirs.asked() != ("stop", "signal SIGTERM"):
                time.sleep(0.01)
        training.over.set()

    thread = threading.Thread(target=workers)
    thread.start()
    with StopNotice() as notice:
        assert notice.on_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        result, watch = follow(store, training, notice)
    thread.join()
    assert result == {"step": 7, "why": "signal SIGTERM"}
    assert watch.signal == signal.SIGTERM


def test_after_the_grace_the_driver_leaves_and_says_what_there_is(
    store: Store, training: Training, lack: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = checkpoint.Checkpoint(20, {"a": torch.zeros(2)}, {}, {})
    checkpoint.save(store, FOLDER, whole)
    store.publish_bytes(f"{checkpoint.step_key(FOLDER, 30)}/x/model.safetensors", b"half")
    with StopNotice() as notice, pytest.raises(DriverStopped) as stopped:
        notice.on_signals()
        signal.raise_signal(signal.SIGINT)
        follow(store, training, notice, grace_seconds=1)
    assert stopped.value.code == 130
    said = capsys.readouterr().out
    assert "SIGINT: saving before the end, 1 s at most (cluster.grace_seconds)" in said
    assert "stopped without saving; the last checkpoint is of step 20; run again to go on" in said


def test_fine_tuning_is_stopped_at_once(
    store: Store, training: Training, lack: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with StopNotice() as notice, pytest.raises(DriverStopped) as stopped:
        notice.on_signals()
        signal.raise_signal(signal.SIGTERM)
        follow(store, training, notice, loop="finetune")
    assert stopped.value.code == 143
    assert "nothing is saved, run again to begin anew" in capsys.readouterr().out
    assert not store.exists(KEY)


def test_a_cluster_that_stays_too_small_ends_training(
    store: Store, training: Training, lack: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lack.append("the workers need 2 CPUs, the cluster has 1")
    with pytest.raises(TrainingFailed, match=r"has 1, since .*pending_timeout_seconds = 1\)"):
        follow(store, training, StopNotice(), pending_timeout_seconds=1)
    assert capsys.readouterr().out.count("waiting for more, 1 s at most") == 1


def test_a_driver_that_was_followed_leaves(
    store: Store, training: Training, lack: list[str]
) -> None:
    def takes_over() -> None:
        time.sleep(1.0)
        other = b'{"holder": "other", "host": "elsewhere", "pid": 5, "since": "now"}'
        store.publish_bytes(f"{FOLDER}/driver.json", other)

    thread = threading.Thread(target=takes_over)
    thread.start()
    with pytest.raises(TrainingFailed, match="process 5 on elsewhere"):
        follow(store, training, StopNotice())
    thread.join()


def test_an_error_of_training_is_raised(store: Store, lack: list[str]) -> None:
    def fails() -> dict[str, Any]:
        raise TrainingFailed("at step 3")

    work = InThread(fails)
    assert work.ended(10)
    with pytest.raises(TrainingFailed, match="at step 3"):
        work.result()
