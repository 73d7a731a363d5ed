from __future__ import annotations

from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from pipelines.core import store as store_module
from pipelines.core.config import ConfigError
from pipelines.core.store import DamagedObject, Store


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


def test_a_flipped_bit_in_a_table_is_found_and_the_object_named(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    table = pa.table({"tokens": [list(range(n, n + 90)) for n in range(400)]})
    with store_module.local_file() as path:
        store_module.write_parquet(table, path)
        store.publish_file(path, "ids.parquet")
    whole = store.read_bytes("ids.parquet")
    found = 0
    for position in range(100, len(whole) - 100, 97):
        damaged = bytearray(whole)
        damaged[position] ^= 4
        store.publish_bytes("ids.parquet", bytes(damaged))
        try:
            assert store.read_table("ids.parquet").equals(table), position
        except DamagedObject as error:
            assert "ids.parquet is damaged" in str(error) and "delete it and run" in str(error)
            found += 1
    assert found > 20


def test_what_the_operating_system_says_is_not_taken_for_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Store(str(tmp_path)).read_table("none.parquet")
