from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from model.checkpoint import (
    CheckpointDamaged,
    CheckpointUnreadable,
    agreed,
    latest_complete,
    load,
    read_manifest,
    save,
    step_key,
    steps_present,
    whole_checkpoints,
)
from model.checkpoint.files import TRAINING
from model.checkpoint.files import step_key as folder_of
from model.distributed import Worker
from pipelines.core.manifest import sha256_of
from pipelines.core.store import Store, local_file
from tests.model.checkpoints import FOLDER, file_of, made, same
from tests.model.gloo_workers import run_in_workers

FILES = ["model.safetensors", "optimizer.safetensors", "training.json"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(str(tmp_path))
    for step in (10, 20, 30):
        save(store, FOLDER, made(step))
    return store


def test_what_was_saved_is_loaded(store: Store) -> None:
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(30)) and passed_over == []
    assert same(load(store, step_key(FOLDER, 10)), made(10))


def test_the_manifest_says_what_there_is_and_who_wrote_it(store: Store) -> None:
    manifest = read_manifest(store, step_key(FOLDER, 20))
    assert manifest.step == 20 and manifest.world_size == 1 and manifest.host
    assert [file.name for file in manifest.files] == FILES
    for file in manifest.files:
        path = file_of(store, 20, file.name)
        assert (path.stat().st_size, sha256_of(path)) == (file.bytes, file.sha256)
    assert manifest.bytes == sum(file_of(store, 20, name).stat().st_size for name in FILES)


def test_the_same_content_gives_the_same_bytes_in_any_order(store: Store) -> None:
    before = read_manifest(store, step_key(FOLDER, 30))
    again = made(30)
    turned = {name: again.model[name] for name in reversed(again.model)}
    save(store, FOLDER, type(again)(30, turned, again.optimizer, again.training))
    after = read_manifest(store, step_key(FOLDER, 30))
    assert after.attempt != before.attempt
    assert after.files == before.files


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_or_no_manifest_is_passed_over(store: Store, name: str) -> None:
    path = file_of(store, 30, name)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    Path(store.path(f"{step_key(FOLDER, 20)}/manifest.json")).unlink()
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(10))
    assert len(passed_over) == 2
    assert f"/{name}: not what was written: sha256" in passed_over[0]
    assert "no checkpoint at runs/r/checkpoints/unit/step-00000020" in passed_over[1]
    with pytest.raises(CheckpointDamaged, match=name):
        load(store, step_key(FOLDER, 30))


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_a_missing_one_and_a_broken_manifest_are_passed_over(
    store: Store, name: str
) -> None:
    path = file_of(store, 30, name)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(20))
    assert f"{name}: not what was written: {len(whole) - 1} bytes in place of" in passed_over[0]
    path.unlink()
    with pytest.raises(CheckpointDamaged, match=f"{name}: not there"):
        load(store, step_key(FOLDER, 30))
    Path(store.path(f"{step_key(FOLDER, 20)}/manifest.json")).write_text('{"step": 20')
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(10))
    assert "step-00000020/manifest.json: not a manifest" in passed_over[1]


def test_of_two_attempts_at_a_step_the_whole_one_is_loaded(store: Store) -> None:
    half = Path(store.path(f"{step_key(FOLDER, 30)}/another/model.safetensors"))
    half.parent.mkdir()
    half.write_bytes(file_of(store, 30, "model.safetensors").read_bytes()[:40])
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(30)) and passed_over == []


def test_a_damaged_checkpoint_is_written_anew_beside_it(store: Store) -> None:
    file_of(store, 30, "model.safetensors").write_bytes(b"")
    save(store, FOLDER, made(30))
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(30)) and passed_over == []


def test_a_manifest_without_its_files_is_not_written(store: Store) -> None:
    """A rival that tidies up between the files and the manifest."""

    class Tidied(Store):
        def sizes(self, prefix: str) -> dict[str, int]:
            self.delete(prefix)
            return super().sizes(prefix)

    with pytest.raises(CheckpointDamaged, match=r"model\.safetensors: not there"):
        save(Tidied(store.url), FOLDER, made(40))
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(30))


def test_a_checkpoint_that_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint at runs/r/checkpoints/unit/step-00"):
        load(store, step_key(FOLDER, 40))
    with pytest.raises(FileNotFoundError, match="no checkpoint at runs/r"):
        load(store, "runs/r")


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert latest_complete(Store(str(tmp_path)), FOLDER) == (None, [])


def test_a_store_that_cannot_be_read_is_no_reason_to_begin_anew(store: Store) -> None:
    class Silent(Store):
        def read_bytes(self, key: str, sha256: str | None = None) -> bytes:
            raise TimeoutError("no answer")

    with pytest.raises(CheckpointUnreadable, match="TimeoutError: no answer"):
        latest_complete(Silent(store.url), FOLDER)


def test_it_works_on_an_object_store() -> None:
    store = Store("memory://checkpoints")
    for step in (1, 2, 3):
        save(store, FOLDER, made(step))
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(3))
    assert steps_present(store, FOLDER) == [1, 2, 3]


def test_only_the_wanted_states_are_read(store: Store) -> None:
    whole = made(30)
    found, _ = latest_complete(store, FOLDER, optimizer=False)
    assert found is not None and found.optimizer == {} and found.training == whole.training
    assert torch.equal(found.model["w"], whole.model["w"])
    found, _ = latest_complete(store, FOLDER, optimizer=lambda name: name.endswith("/step"))
    assert found is not None and list(found.optimizer) == ["w/step"]


def test_a_result_without_optimizer_has_no_file_for_it(tmp_path: Path) -> None:
    store, bare = Store(str(tmp_path)), made(7)
    save(store, FOLDER, type(bare)(7, bare.model, {}, bare.training))
    manifest = read_manifest(store, folder_of(FOLDER, 7))
    assert [file.name for file in manifest.files] == ["model.safetensors", TRAINING]
    assert not manifest.resumable
    found, _ = latest_complete(store, FOLDER)
    assert found is not None and found.optimizer == {}


class OwnView(Store):
    """A store on which one worker finds the newest checkpoint damaged, or cannot read at all.

    The file itself stays whole: the other worker has it mapped into memory.
    """

    @contextmanager
    def on_disk(self, key: str) -> Iterator[Path]:
        troubled = "step-00000030" in key and key.endswith("model.safetensors")
        if troubled and self.__dict__["trouble"] == "gone":
            raise ConnectionError("gone")
        if troubled:
            with local_file() as damaged:
                damaged.write_bytes(b"")
                yield damaged
            return
        with super().on_disk(key) as path:
            yield path


TROUBLES = {"none": (30, ""), "damage": (20, "model.safetensors: not"), "gone": (-1, "worker 1: C")}


def _agree(worker: Worker, root: str) -> None:
    for trouble in TROUBLES:
        store = Store(f"{root}/{trouble}")
        if worker.rank == 1 and trouble != "none":
            store = OwnView(store.url)
            store.__dict__["trouble"] = trouble
        try:
            found, passed_over = agreed(store, FOLDER, worker)
            answer = [found.step if found is not None else 0, passed_over]
        except CheckpointUnreadable as error:
            answer = [-1, [str(error)]]
        Path(root, f"{trouble}-{worker.rank}.json").write_text(json.dumps(answer))


def test_workers_agree_on_what_all_of_them_can_load(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for trouble in TROUBLES:
        shutil.copytree(Path(store.url, "runs"), root / trouble / "runs")
    run_in_workers(2, _agree, str(root))
    for trouble, (step, word) in TROUBLES.items():
        files = [root / f"{trouble}-{rank}.json" for rank in (0, 1)]
        first, second = [json.loads(file.read_text()) for file in files]
        assert first == second
        assert first[0] == step and bool(first[1]) == bool(word)
        assert all(word in reason for reason in first[1])


@pytest.mark.parametrize("name", FILES)
def test_a_manifest_that_lacks_a_file_is_passed_over(store: Store, name: str) -> None:
    """It parses, and all that it names is there."""
    path = Path(store.path(f"{step_key(FOLDER, 30)}/manifest.json"))
    manifest = json.loads(path.read_text())
    manifest["files"] = [file for file in manifest["files"] if file["name"] != name]
    path.write_text(json.dumps(manifest))
    found, passed_over = agreed(store, FOLDER, Worker(), resumable=True)
    assert same(found, made(20))
    [reason] = passed_over
    said = "names no file of the optimizer" if "optimizer" in name else f"does not name {name}"
    assert reason.endswith(f"step-00000030/manifest.json: {said}")


def test_a_folder_in_place_of_a_manifest_is_passed_over_and_written_over(store: Store) -> None:
    path = Path(store.path(f"{step_key(FOLDER, 30)}/manifest.json"))
    path.unlink()
    path.mkdir()
    for _ in range(2):
        found, passed_over = latest_complete(store, FOLDER)
        assert same(found, made(20))
        assert passed_over == [f"{step_key(FOLDER, 30)}/manifest.json: is a folder"]
        assert sorted(whole_checkpoints(store, FOLDER)) == [10, 20]
        (path / "file").touch()
    save(store, FOLDER, made(30))
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(30)) and passed_over == []


def test_a_failed_attempt_gives_its_room_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that gets full: half of a file is there."""
    before = store.keys(FOLDER)

    def full(tensors: dict[str, torch.Tensor], path: Path) -> None:
        save_file(tensors, path)
        if path.name == "optimizer.safetensors":
            path.write_bytes(path.read_bytes()[:20])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("model.checkpoint.files.save_file", full)
    for step in (30, 40):  # also beside a whole one of the same step
        with pytest.raises(OSError, match="No space left"):
            save(store, FOLDER, made(step))
        assert store.keys(FOLDER) == before
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(30)) and passed_over == []


def test_an_attempt_that_counts_is_never_removed(store: Store) -> None:
    """The store took the manifest, and its answer was lost."""

    class Forgetful(Store):
        def publish_bytes(self, key: str, content: bytes) -> None:
            super().publish_bytes(key, content)
            raise TimeoutError("no answer")

    with pytest.raises(TimeoutError):
        save(Forgetful(store.url), FOLDER, made(40))
    found, _ = latest_complete(store, FOLDER)
    assert same(found, made(40))


def test_an_attempt_of_which_nobody_can_tell_stays(store: Store) -> None:
    class Silent(Store):
        def publish_bytes(self, key: str, content: bytes) -> None:
            raise TimeoutError("no answer")

        def read_bytes(self, key: str, sha256: str | None = None) -> bytes:
            raise TimeoutError("no answer")

    with pytest.raises(TimeoutError):
        save(Silent(store.url), FOLDER, made(40))
    assert len([key for key in store.keys(FOLDER) if "step-00000040" in key]) == 3
