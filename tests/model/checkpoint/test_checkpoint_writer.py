from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from model.checkpoint import (
    Checkpoint,
    CheckpointLost,
    CheckpointWriter,
    latest_complete,
    load,
    read_manifest,
    step_key,
    steps_present,
)
from model.checkpoint.attempt import Content, write_shard
from model.checkpoint.copy import HostCopy
from model.distributed import Worker
from pipelines.core.store import Store
from tests.model.checkpoints import FOLDER, made, same


class Gate:
    """Holds the background thread at the first file that it writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

        def held(*args: Any) -> None:
            self.reached.set()
            assert self.open.wait(60)
            save_file(*args)

        monkeypatch.setattr("model.checkpoint.files.save_file", held)


class Broken(Store):
    """A store that takes nothing while it is told so."""

    def publish_bytes(self, key: str, content: bytes) -> None:
        if self.__dict__.get("broken"):
            raise ConnectionError("gone")
        super().publish_bytes(key, content)


def give(writer: CheckpointWriter, saved: Checkpoint, loss: float | None = None) -> None:
    writer.save(saved.step, saved.model, saved.optimizer, saved.training, loss)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def writer_of(said: list[str]) -> Callable[..., CheckpointWriter]:
    def make(store: Store, keep: int = 3) -> CheckpointWriter:
        return CheckpointWriter(store, FOLDER, Worker(), keep, say=said.append)

    return make


Make = Callable[..., CheckpointWriter]


def test_what_was_saved_is_loaded_and_reported(store: Store, writer_of: Make) -> None:
    with writer_of(store) as writer:
        give(writer, made(10), 2.5)
        give(writer, made(20))
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(20)) and passed_over == []
    manifest = read_manifest(store, step_key(FOLDER, 10))
    assert manifest.held_out_loss == 2.5
    done = writer.finished()
    assert [saved.step for saved in done] == [10, 20]
    assert done[0].bytes == manifest.bytes
    assert all(saved.seconds >= saved.blocked_seconds > 0 for saved in done)
    assert writer.finished() == [] and writer.notes == []
    assert writer.counters["checkpoints/saved"] == 2


def test_save_returns_before_anything_is_written_and_training_may_go_on(
    store: Store, writer_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, live = Gate(monkeypatch), made(10)
    with writer_of(store) as writer:
        give(writer, live)
        assert gate.reached.wait(60)
        assert steps_present(store, FOLDER) == [] and writer.finished() == []
        # The next update changes everything in place while the thread has written nothing.
        live.model["w"].fill_(-1.0)
        live.model["b"].add_(1000.0)
        live.optimizer["w/step"].add_(1.0)
        live.training["log"].append("later")
        gate.open.set()
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(10))


def test_a_second_save_waits_for_the_first_and_leaves_its_copy_alone(
    store: Store, writer_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    with writer_of(store) as writer:
        give(writer, made(10))
        assert gate.reached.wait(60)
        second = threading.Thread(target=give, args=(writer, made(20)))
        second.start()
        second.join(0.2)
        assert second.is_alive()
        gate.open.set()
        second.join(60)
    assert same(load(store, step_key(FOLDER, 10)), made(10))
    assert same(load(store, step_key(FOLDER, 20)), made(20))


def test_the_same_memory_is_used_again() -> None:
    copy, live = HostCopy(), {"a": torch.arange(6.0).view(2, 3).t(), "n": torch.tensor(3)}
    first = copy.take(live)
    assert torch.equal(first["a"], live["a"]) and first["a"].is_contiguous()
    assert first["n"].dtype == torch.int64
    where = first["a"].data_ptr()
    live["a"].add_(1.0)
    assert float(first["a"][0, 0]) == 0.0
    again = copy.take({"a": live["a"]})
    assert list(again) == ["a"] and again["a"].data_ptr() == where
    assert torch.equal(again["a"], live["a"])
    copy.free()
    assert copy.take({"a": torch.ones(5)})["a"].shape == (5,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_is_on_a_gpu_is_copied_before_it_changes() -> None:
    live = {"a": torch.ones(50_000_000, device="cuda"), "n": torch.tensor(3.0, device="cuda")}
    copied = HostCopy().take(live)
    live["a"].fill_(2.0)
    assert copied["a"].is_pinned() and copied["a"].device.type == "cpu"
    assert bool((copied["a"] == 1.0).all()) and float(copied["n"]) == 3.0


def test_one_lost_checkpoint_does_not_end_training(
    tmp_path: Path, writer_of: Make, said: list[str]
) -> None:
    store = Broken(str(tmp_path))
    with writer_of(store) as writer:
        give(writer, made(10))
        writer.wait()
        store.__dict__["broken"] = True
        give(writer, made(20))
        while not writer.notes:
            threading.Event().wait(0.01)
        assert "checkpoint of step 20 lost: ConnectionError: gone" in said[0]
        store.__dict__["broken"] = False
        give(writer, made(30))
        writer.wait()
        assert writer.notes[:1] == said[:1]
        assert writer.new_notes() == writer.notes
        assert writer.new_notes() == []
        assert dict(writer.counters)["checkpoints/lost"] == 1
        assert [saved.step for saved in writer.finished()] == [10, 30]
        store.__dict__["broken"] = True
        give(writer, made(40))  # one that was written between: the count begins anew
        while writer.counters["checkpoints/lost"] < 2:
            threading.Event().wait(0.01)
        store.__dict__["broken"] = False
        give(writer, made(50))
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(50))
    assert steps_present(store, FOLDER) == [10, 30, 50]


def test_a_full_disk_gets_its_room_back_before_the_loss_is_noted(
    store: Store, writer_of: Make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer_of(store) as writer:
        give(writer, made(10))
        writer.wait()
        whole, left = store.keys(FOLDER), []

        def full(tensors: dict[str, torch.Tensor], path: Path) -> None:
            save_file(tensors, path)
            if path.name.startswith("optimizer"):
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("model.checkpoint.files.save_file", full)
        monkeypatch.setattr(writer, "_say", lambda text: left.append((text, store.keys(FOLDER))))
        give(writer, made(20))
        with pytest.raises(CheckpointLost, match="No space left"):
            writer.wait()
        [(text, keys)] = left
        assert "step 20 lost: OSError" in text and keys == whole
        with pytest.raises(OSError, match="No space left"):
            write_shard(store, FOLDER, Content(30, "a", {}, made(30).optimizer, b""), Worker(1, 2))
        assert not any("optimizer-" in key for key in store.keys(FOLDER)), "of another worker"


def test_the_second_lost_one_in_a_row_ends_training(tmp_path: Path, writer_of: Make) -> None:
    store = Broken(str(tmp_path))
    store.__dict__["broken"] = True
    writer = writer_of(store)
    give(writer, made(10))
    give(writer, made(20))
    with pytest.raises(CheckpointLost, match=r"step 20 lost: ConnectionError: gone.*2 in a row"):
        give(writer, made(30))


@pytest.mark.parametrize("end", ["wait", "close", "block"])
def test_one_that_is_waited_for_must_not_be_lost(tmp_path: Path, writer_of: Make, end: str) -> None:
    store = Broken(str(tmp_path))
    store.__dict__["broken"] = True
    writer = writer_of(store)
    with pytest.raises(CheckpointLost, match="step 10 lost: ConnectionError: gone"), writer:
        give(writer, made(10))
        if end == "wait":
            writer.wait()
        elif end == "close":
            writer.close()
    writer.close()  # it was said once


def test_an_error_of_training_is_not_hidden_and_the_checkpoint_under_way_is_finished(
    store: Store, tmp_path: Path, writer_of: Make
) -> None:
    with pytest.raises(ZeroDivisionError), writer_of(store) as writer:
        give(writer, made(10))
        raise ZeroDivisionError
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(10))
    broken = Broken(str(tmp_path / "broken"))
    broken.__dict__["broken"] = True
    with pytest.raises(ZeroDivisionError), writer_of(broken) as writer:
        give(writer, made(10))
        raise ZeroDivisionError


def test_old_ones_go_the_best_stays_and_leftovers_are_said(
    store: Store, writer_of: Make, said: list[str]
) -> None:
    store.publish_bytes(f"{step_key(FOLDER, 5)}/killed/model.safetensors", b"x" * 12345)
    with writer_of(store, keep=2) as writer:
        for step, loss in ((10, 1.0), (20, 3.0), (30, None), (40, 2.0)):
            give(writer, made(step), loss)
    assert steps_present(store, FOLDER) == [10, 30, 40]
    sentence = f"{FOLDER}: deleted 12,345 bytes that unfinished checkpoints left (step 5)"
    assert said == writer.notes == [sentence]
    assert writer.counters["bytes/leftovers"] == 12345


def test_a_folder_that_cannot_be_tidied_costs_no_checkpoint(
    store: Store, writer_of: Make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Store, key: str) -> None:
        raise PermissionError(key)

    with writer_of(store, keep=1) as writer:
        give(writer, made(10))
        writer.wait()
        monkeypatch.setattr(Store, "delete", refused)
        give(writer, made(20))
        writer.wait()
    assert said == [
        f"older checkpoints not deleted: PermissionError: {step_key(FOLDER, 10)}/manifest.json"
    ]
    assert steps_present(store, FOLDER) == [10, 20]


def test_a_step_saved_twice_is_two_attempts(store: Store, writer_of: Make) -> None:
    with writer_of(store) as writer:
        give(writer, made(10))
        give(writer, made(10))
    assert len(writer.finished()) == 2
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(10))


def test_two_trainings_of_one_folder_do_no_harm_to_its_checkpoints(
    store: Store, writer_of: Make
) -> None:
    """Such as an old group that still lives; whose checkpoint of a step counts does not matter."""
    ends: list[str] = []

    def train(pause: float) -> None:
        try:
            with writer_of(store, keep=1) as writer:
                for step in range(1, 9):
                    time.sleep(pause)
                    give(writer, made(step))
            ends.append("done")
        except CheckpointLost:  # the other one, ahead, swept what this one was writing
            ends.append("lost")

    trainings = [threading.Thread(target=train, args=(pause,)) for pause in (0.0, 0.001, 0.02)]
    for thread in trainings:
        thread.start()
    for thread in trainings:
        thread.join(120)
    assert len(ends) == 3 and "done" in ends
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(8))
