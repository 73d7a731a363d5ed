from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from pipelines.core import store as store_module
from pipelines.core.config import ConfigError
from pipelines.core.store import Store


@pytest.fixture(params=["folder", "memory"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return Store(str(tmp_path / "deep" / "store"))
    return Store(f"memory://{tmp_path.name}")


def test_what_is_published_reads_back(any_store: Store, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 100)
    any_store.publish_file(source, "a/b.bin")
    any_store.publish_bytes("a/c.bin", b"yy")

    assert any_store.read_bytes("a/b.bin") == b"x" * 100
    assert (any_store.size("a/b.bin"), any_store.size("a/none")) == (100, None)
    assert any_store.keys("a") == ["a/b.bin", "a/c.bin"]
    any_store.delete("a/b.bin")
    assert not any_store.exists("a/b.bin")


def test_a_writer_that_dies_in_the_middle_publishes_nothing(
    any_store: Store, tmp_path: Path
) -> None:
    class Interrupted(Exception):
        pass

    with pytest.raises(Interrupted), store_module.local_file() as path, path.open("wb") as file:
        file.write(b"three of ten records")
        raise Interrupted
    assert not any_store.exists("shard")
    # Why the detour over a local file is needed: the plain way does publish the half.
    with pytest.raises(Interrupted), fsspec.open(f"memory://{tmp_path.name}/half", "wb") as file:
        file.write(b"three of ten records")
        raise Interrupted
    assert Store(f"memory://{tmp_path.name}").exists("half")


def test_a_failed_copy_leaves_the_old_object_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Store(str(tmp_path / "store"))
    target.publish_bytes("key", b"old")

    def full_disk(source: str, copy: str) -> None:
        Path(copy).write_bytes(b"ne")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module.shutil, "copyfile", full_disk)
    with pytest.raises(OSError, match="No space"):
        target.publish_bytes("key", b"new")

    assert target.read_bytes("key") == b"old"
    assert target.keys("") == ["key"]


def test_a_store_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(ConfigError, match=r"store\.url = .*file/store"):
        Store(str(tmp_path / "file" / "store")).probe()


def test_an_unknown_protocol_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"store\.url = 'nosuch://x'"):
        Store("nosuch://x").probe()


def test_a_probe_leaves_nothing_behind(any_store: Store) -> None:
    any_store.probe()

    assert any_store.keys("") == []
