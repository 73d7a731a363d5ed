from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoint import (
    CheckpointDamaged,
    delete_older,
    latest_complete,
    load,
    save,
    step_key,
    steps_present,
)
from model.checkpoint.files import MODEL, TRAINING, publish_manifest, write_file
from pipelines.core.store import Store
from tests.model.checkpoints import FOLDER, file_of, made, same


def save_with(store: Store, step: int, loss: float | None, attempt: str = "a") -> None:
    def fill(path: Path) -> None:
        path.write_text(f"{step}")

    folder = f"{step_key(FOLDER, step)}/{attempt}"
    files = [write_file(store, f"{folder}/{name}", fill) for name in (MODEL, TRAINING)]
    publish_manifest(store, FOLDER, step, attempt, files, held_out_loss=loss)


def leave(store: Store, step: int, attempt: str, size: int) -> None:
    store.publish_bytes(f"{step_key(FOLDER, step)}/{attempt}/model.safetensors", b"x" * size)


def test_older_ones_go_and_those_of_a_rival_that_is_ahead_stay(store: Store) -> None:
    for step in (10, 20, 30):
        save(store, FOLDER, made(step))
    assert delete_older(store, FOLDER, keep=1, newest=20).steps == [10]
    assert steps_present(store, FOLDER) == [20, 30]


def test_the_best_one_stays(store: Store) -> None:
    losses = {10: 3.0, 20: 2.0, 30: None, 40: 2.5, 50: float("nan"), 60: None}
    for step, loss in losses.items():
        save_with(store, step, loss)
    assert delete_older(store, FOLDER, keep=2, newest=60).steps == [10, 30, 40]
    assert steps_present(store, FOLDER) == [20, 50, 60]


def test_of_equally_good_ones_the_latest_stays(store: Store) -> None:
    for step in (10, 20, 30, 40):
        save_with(store, step, 1.0 if step < 30 else 2.0)
    delete_older(store, FOLDER, keep=1, newest=40)
    assert steps_present(store, FOLDER) == [20, 40]


@given(
    losses=st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=7),
    keep=st.integers(1, 4),
)
def test_saved_one_by_one_what_stays_is_the_last_and_the_best(
    losses: list[int | None], keep: int
) -> None:
    store = Store("memory://upkeep")
    store.delete(FOLDER)
    best: tuple[int, int] | None = None
    for step, loss in enumerate(losses, 1):
        save_with(store, step, None if loss is None else float(loss))
        delete_older(store, FOLDER, keep=keep, newest=step)
        if loss is not None and (best is None or loss <= best[0]):
            best = (loss, step)
        wanted = set(range(max(1, step - keep + 1), step + 1)) | ({best[1]} if best else set())
        assert set(steps_present(store, FOLDER)) == wanted


def test_leftovers_of_killed_writers_go_once_a_newer_one_is_whole(store: Store) -> None:
    save(store, FOLDER, made(10))
    leave(store, 10, "rival", 100)  # beside a whole one
    leave(store, 15, "killed", 1000)
    save(store, FOLDER, made(20))
    leave(store, 20, "rival", 10_000)  # perhaps still being written
    leave(store, 25, "ahead", 100_000)
    assert delete_older(store, FOLDER, keep=3, newest=15).leftovers == {}  # it is not whole
    done = delete_older(store, FOLDER, keep=3, newest=20)
    assert done.steps == [] and done.leftovers == {10: 100, 15: 1000}
    assert done.sentence == "deleted 1,100 bytes that unfinished checkpoints left (step 10, 15)"
    left = [key for key in store.keys(FOLDER) if "/rival/" in key or "/ahead/" in key]
    assert left == [
        f"{step_key(FOLDER, 20)}/rival/model.safetensors",
        f"{step_key(FOLDER, 25)}/ahead/model.safetensors",
    ]
    store.delete(step_key(FOLDER, 20))
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(10))


def test_what_is_not_whole_is_not_among_the_kept(store: Store) -> None:
    for step in (10, 20, 30):
        save(store, FOLDER, made(step))
    damaged = file_of(store, 20, "model.safetensors")
    damaged.write_bytes(b"")
    done = delete_older(store, FOLDER, keep=2, newest=30)
    assert done.steps == [] and list(done.leftovers) == [20]
    assert steps_present(store, FOLDER) == [10, 30]


def test_the_manifest_goes_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (10, 20):
        save(store, FOLDER, made(step))
    deleted: list[str] = []
    delete = Store.delete

    def recorded(self: Store, key: str) -> None:
        deleted.append(key)
        delete(self, key)

    monkeypatch.setattr(Store, "delete", recorded)
    delete_older(store, FOLDER, keep=1, newest=20)
    key = step_key(FOLDER, 10)
    assert deleted == [f"{key}/manifest.json", key]


def test_a_manifest_of_another_step_is_not_believed(store: Store) -> None:
    save(store, FOLDER, made(10))
    save(store, FOLDER, made(20))
    key = f"{step_key(FOLDER, 10)}/manifest.json"
    store.publish_bytes(key, store.read_bytes(key).replace(b'"step": 10', b'"step": 11'))
    with pytest.raises(CheckpointDamaged, match="is that of step 11"):
        load(store, step_key(FOLDER, 10))
    assert list(delete_older(store, FOLDER, keep=5, newest=20).leftovers) == [10]
