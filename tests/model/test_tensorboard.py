"""TensorBoard's own reader finds what was written, over restarts and a store that fails."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from model import tensorboard
from model.tensorboard import TensorBoardSink
from pipelines.core.store import Store

FOLDER = "runs/r/tensorboard"


def read(store: Store) -> dict[str, list[tuple[int, float]]]:
    found = EventAccumulator(store.path(FOLDER), size_guidance={"scalars": 0})
    found.Reload()
    return {
        tag: [(event.step, event.value) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def test_every_value_is_read_back_at_its_step(store: Store) -> None:
    sink = TensorBoardSink(store, FOLDER)
    sink.write("train", 1, {"loss": 9.5, "tokens_per_second/real": 1234.0})
    sink.write("train", 2, {"loss": 8.25, "tokens_per_second/real": 1300.0})
    sink.write("evaluation", 2, {"held_out_loss/zh-Hans": 7.5})
    sink.close()
    sink.close()

    assert read(store) == {
        "train/loss": [(1, 9.5), (2, 8.25)],
        "train/tokens_per_second/real": [(1, 1234.0), (2, 1300.0)],
        "evaluation/held_out_loss/zh-Hans": [(2, 7.5)],
    }
    assert sink.notes == []
    with pytest.raises(ValueError, match="closed"):
        sink.write("train", 3, {"loss": 1.0})


def test_a_loss_that_is_no_number_is_kept(store: Store) -> None:
    sink = TensorBoardSink(store, FOLDER)
    sink.write("train", 1, {"loss": math.nan})
    sink.close()
    [(step, value)] = read(store)["train/loss"]
    assert step == 1 and math.isnan(value)


def test_steps_done_again_after_a_restart_count_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first session dies after step 5 with its file copied; the second resumes from 3."""
    clock = iter([1_000_000_000.0 + 10 * n for n in range(100)])
    monkeypatch.setattr("time.time", lambda: next(clock))
    dead = TensorBoardSink(store, FOLDER)
    for step in range(1, 6):
        dead.write("train", step, {"loss": 10.0 - step})
    dead.publish()
    resumed = TensorBoardSink(store, FOLDER)
    for step in range(4, 8):
        resumed.write("train", step, {"loss": 20.0 - step})
    resumed.close()

    assert len(store.keys(FOLDER)) == 2
    assert read(store)["train/loss"] == [
        (1, 9.0), (2, 8.0), (3, 7.0), (4, 16.0), (5, 15.0), (6, 14.0), (7, 13.0),
    ]  # fmt: skip
    dead.close()


def test_a_long_file_is_followed_by_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "MAX_FILE_BYTES", 400)
    sink = TensorBoardSink(store, FOLDER)
    for step in range(50):
        sink.write("train", step, {"loss": float(step)})
    sink.close()

    sizes = store.sizes(FOLDER)
    assert len(sizes) > 3 and max(sizes.values()) < 500
    assert read(store)["train/loss"] == [(step, float(step)) for step in range(50)]


def test_a_store_that_fails_ends_nothing_and_gets_it_all_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = Store.publish_bytes, []

    def fails(self: Store, key: str, content: bytes) -> Any:
        calls.append(key)
        if len(calls) < 4:
            raise OSError("no route to the store")
        return whole(self, key, content)

    monkeypatch.setattr(Store, "publish_bytes", fails)
    sink = TensorBoardSink(store, FOLDER)
    sink.write("train", 1, {"loss": 2.0})
    for _ in range(3):
        sink.publish()
    sink.write("train", 2, {"loss": 1.0})
    sink.close()

    assert len(calls) == 4
    [note] = sink.notes
    assert note.endswith("OSError: no route to the store")
    assert read(store)["train/loss"] == [(1, 2.0), (2, 1.0)]


def test_the_store_has_the_file_while_training_goes_on(store: Store) -> None:
    import time

    sink = TensorBoardSink(store, FOLDER, seconds_between=0.01)
    sink.write("train", 1, {"loss": 2.0})
    while not store.keys(FOLDER):
        time.sleep(0.01)
    first = {key: store.read_bytes(key) for key in store.keys(FOLDER)}
    sink.write("train", 2, {"loss": 1.0})
    sink.close()

    [(key, begun)] = first.items()
    assert store.read_bytes(key).startswith(begun)
    assert read(store)["train/loss"][-1] == (2, 1.0)
