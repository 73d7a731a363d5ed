from __future__ import annotations

import multiprocessing
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from model.data import packed_files
from model.data.packed_dataset import PackedSequences
from model.data.packed_files import FileCache, facts_of
from pipelines.core.store import DamagedObject, Store
from tests.model.packed import ROWS, damage, make_row, packing, table_of, write

MADE = packing()


def files(store: Store, scratch: Path, count: int, rows: int = 400) -> list[str]:
    return [
        write(
            store,
            f"packed/en/{n}.parquet",
            [make_row(f"{n}-{i}", 9 + (n + i) % 50) for i in range(rows)],
            MADE,
            scratch,
        )
        for n in range(count)
    ]


def cached(cache: FileCache) -> list[Path]:
    return sorted(cache.folder.glob("*.arrow"))


def size_of(cache: FileCache, key: str) -> int:
    with cache.held(key) as path:
        return path.stat().st_size


def room_for_two(store: Store, tmp_path: Path, keys: list[str]) -> int:
    """A bound that two files fit and three do not: room is made for what a footer tells."""
    whole = FileCache(store, tmp_path / "whole", MADE)
    return max(size_of(whole, key) + whole.facts(key).cached_bytes for key in keys)


def test_a_file_is_brought_once_a_node(store: Store, tmp_path: Path) -> None:
    [key] = files(store, tmp_path, 1)
    first, second = (FileCache(store, tmp_path / "cache", MADE) for _ in range(2))
    assert size_of(first, key) == size_of(second, key)
    assert (first.brought, second.brought) == (1, 0)


def test_damage_is_named(store: Store, tmp_path: Path) -> None:
    [key] = files(store, tmp_path, 1)
    damage(Path(store.path(key)))
    cache = FileCache(store, tmp_path / "cache", MADE)
    with pytest.raises(DamagedObject, match=r"packed/en/0\.parquet is damaged"), cache.held(key):
        pass
    assert not cached(cache)


def test_what_was_made_with_another_vocabulary_is_refused(store: Store, tmp_path: Path) -> None:
    [key] = files(store, tmp_path, 1)
    for change, words in (
        ({"vocabulary": "b" * 64}, r"0\.parquet: .*a{64}.*b{64}"),
        ({"rows": 61}, r"0\.parquet: .*60 rows.*61 rows"),
        ({"length": 32}, r"0\.parquet: .*packing\.length = 64, the run's is 32"),
        ({"mode": "document"}, r"0\.parquet: .*packing\.mode = stream, the run's is document"),
    ):
        cache = FileCache(store, tmp_path / "cache", replace(MADE, **change))
        with pytest.raises(ValueError, match=words), cache.held(key):
            pass
        with pytest.raises(ValueError, match=words):
            cache.facts(key)


def test_what_no_packed_file_may_hold_is_refused(store: Store, tmp_path: Path) -> None:
    def with_(name: str, value: object) -> str:
        table = table_of([make_row("a", 20), make_row("b", 12)], "en", MADE)
        rows = table[name].to_pylist()
        rows[1] = value
        index = table.schema.get_field_index(name)
        column = packed_files.pa.array(rows, table.schema.field(name).type)
        path = tmp_path / "odd.parquet"
        packed_files.pq.write_table(table.set_column(index, table.schema.field(name), column), path)
        store.publish_file(path, f"odd/{name}.parquet")
        return f"odd/{name}.parquet"

    for name, value, words in (
        ("tokens", [0, ROWS, 2], r"odd/tokens\.parquet, column tokens: id 60 is not below"),
        ("mask_positions", [[12], [0]], r"column mask_positions: position 12 in .* 12 tokens"),
        ("document_starts", [1, 12], r"column document_starts: position 12 in .* 12 tokens"),
        ("mask_tokens", [[5, 5, 5, 5], [5]], r"mask_tokens are of different lengths"),
    ):
        key = with_(name, value)
        with (
            pytest.raises(ValueError, match=words),
            FileCache(store, tmp_path / "cache", MADE).held(key),
        ):
            pass


def test_the_least_recently_used_file_makes_room(store: Store, tmp_path: Path) -> None:
    keys = files(store, tmp_path, 3)
    cache = FileCache(store, tmp_path / "cache", MADE, bound=room_for_two(store, tmp_path, keys))
    for key in (keys[0], keys[1], keys[0], keys[2]):
        size_of(cache, key)
        time.sleep(0.02)
    assert len(cached(cache)) == 2 and cache.brought == 3
    size_of(cache, keys[0])
    assert cache.brought == 3, "it was used after the second one, and stayed"
    size_of(cache, keys[1])
    assert cache.brought == 4


def test_a_file_that_is_read_does_not_make_room(store: Store, tmp_path: Path) -> None:
    keys = files(store, tmp_path, 3)
    cache = FileCache(store, tmp_path / "cache", MADE, bound=room_for_two(store, tmp_path, keys))
    size_of(cache, keys[1])
    with cache.held(keys[0]) as oldest:
        time.sleep(0.02)
        size_of(FileCache(store, tmp_path / "cache", MADE), keys[1])  # used after the held one
        other = threading.Thread(target=size_of, args=(cache, keys[2]))
        other.start()
        other.join()
        assert oldest.exists() and len(cached(cache)) == 2
    size_of(cache, keys[0])
    assert cache.brought == 3


def test_who_finds_no_room_waits_until_a_reader_is_done(store: Store, tmp_path: Path) -> None:
    keys = files(store, tmp_path, 2)
    size = max(FileCache(store, tmp_path, MADE).facts(key).cached_bytes for key in keys)
    cache = FileCache(store, tmp_path / "cache", MADE, bound=size)
    other = threading.Thread(target=size_of, args=(cache, keys[1]))
    with cache.held(keys[0]) as path:
        other.start()
        other.join(timeout=0.3)
        assert other.is_alive() and path.exists()
    other.join(timeout=30)
    assert not other.is_alive() and not path.exists()


def test_a_bound_below_one_file_is_refused_with_the_numbers(store: Store, tmp_path: Path) -> None:
    keys = files(store, tmp_path, 2)
    cache = FileCache(store, tmp_path / "cache", MADE, bound=10_000)
    words = (
        r"pretraining\.cache_gb = 1e-05 is smaller than one file: packed/en/0.* takes up to 0\.0"
    )
    with pytest.raises(ValueError, match=words):
        PackedSequences(cache, {"en": keys})


def test_what_a_killed_worker_left_is_no_obstacle(store: Store, tmp_path: Path) -> None:
    [key] = files(store, tmp_path, 1)
    for bound in (None, 10**6):
        cache = FileCache(store, tmp_path / f"cache-{bound}", MADE, bound=bound)
        wanted = size_of(cache, key)
        [path] = cached(cache)
        path.rename(path.with_suffix(".attempt"))
        path.with_suffix(".attempt").write_bytes(b"half")
        if bound is not None:  # what takes room has to go, whichever file it was to be
            (cache.folder / "another.attempt").write_bytes(b"half")
        assert size_of(cache, key) == wanted
        assert not list(cache.folder.glob("*.attempt"))


def test_footers_tell_rows_and_no_less_than_what_a_file_takes(store: Store, tmp_path: Path) -> None:
    for mode, views, rows in (("stream", 1, 3000), ("document", 0, 1), ("pairs", 4, 500)):
        for vocabulary in (ROWS, 250_002):
            made = packing(64, mode, vocabulary)
            lines = [make_row(f"{i}", 8 + i % 57, views) for i in range(rows)]
            key = write(store, f"{mode}-{vocabulary}.parquet", lines, made, tmp_path)
            cache = FileCache(store, tmp_path / "cache", made)
            facts = facts_of(cache, [key])[key]
            assert facts.rows == rows
            assert size_of(cache, key) <= facts.cached_bytes <= 2 * size_of(cache, key) + 2**17


def bytes_in(folder: Path) -> int:
    """What a folder holds; 0 where another worker changed it meanwhile."""
    before = sorted(folder.glob("*.arrow"))
    with suppress(FileNotFoundError):
        total = sum(path.stat().st_size for path in before)
        return total if sorted(folder.glob("*.arrow")) == before else 0
    return 0


def reads(url: str, folder: str, keys: list[str], bound: int, seed: int, found: str) -> None:
    cache = FileCache(Store(url), Path(folder), MADE, bound)
    packed = PackedSequences(cache, {"en": keys})
    total, most = packed.counts["en"], 0
    rng = np.random.default_rng(seed)
    for _ in range(15):
        rows = rng.integers(0, total, 6)
        taken = packed.take(rows, np.zeros(6, np.int64))
        wanted = [f"{row // 400}-{row % 400}" for row in rows.tolist()]
        assert taken.ids == wanted
        most = max(most, bytes_in(Path(folder)))
    Path(found).write_text(str(most))


def test_workers_of_a_node_share_a_small_cache(store: Store, tmp_path: Path) -> None:
    keys = files(store, tmp_path, 5)
    folder, bound = tmp_path / "cache", room_for_two(store, tmp_path, keys)
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(
            target=reads,
            args=(store.url, str(folder), keys, bound, seed, str(tmp_path / f"most-{seed}")),
        )
        for seed in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=120)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert all(0 < int((tmp_path / f"most-{seed}").read_text()) <= bound for seed in range(3))
