from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core.store import DamagedObject, Store
from pipelines.deduplicate import sorted_output, sorted_records
from pipelines.deduplicate.sorted_records import (
    RECORD,
    Records,
    RecordsFile,
    read_between,
    save_records,
    sort_records,
)


def records(keys: list[int]) -> Records:
    found = np.zeros(len(keys), RECORD)
    found["key"] = keys
    found["low"] = np.arange(len(keys)) % 7
    found["row"] = np.arange(len(keys))
    return sort_records(found)


def saved(store: Store, found: Records, name: str = "x.records") -> RecordsFile:
    path = Path(store.url)
    path.mkdir(parents=True, exist_ok=True)
    save_records(path / name, [found], len(found))
    return RecordsFile(store, name)


EDGES = [0, 1, 2**63, 2**64 - 1]


@given(
    st.lists(st.sampled_from([*EDGES, 5, 6, 7]) | st.integers(0, 2**64 - 1), max_size=60),
    st.lists(st.sampled_from([*EDGES, 5, 6, 7, 2**64]), min_size=2, max_size=2),
    st.integers(1, 9),
)
@settings(max_examples=300, deadline=None)
def test_a_range_is_what_a_filter_gives(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], ends: list[int], block: int
) -> None:
    store = Store(str(tmp_path_factory.mktemp("store")))
    low, high = sorted(ends)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.deduplicate.sorted_records.BLOCK", block)
        file = saved(store, records(keys))
        found = file.between(low, high)

    assert found["key"].tolist() == sorted(key for key in keys if low <= key < high)
    expected = [r for r in records(keys).tolist() if low <= r[0] < high]
    assert found.tolist() == expected


@given(
    st.lists(st.lists(st.integers(0, 40) | st.sampled_from(EDGES), max_size=30), max_size=12),
    st.integers(1, 20),
    st.integers(1, 3),
)
@settings(max_examples=200, deadline=None)
def test_runs_on_disk_give_the_file_of_one_sort(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], limit: int, sample: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    everything = np.zeros(sum(map(len, batches)), RECORD)
    everything["key"] = [key for batch in batches for key in batch]
    everything["low"] = everything["key"] % np.uint64(2)
    everything["row"] = np.arange(len(everything))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_output, "RECORDS_IN_MEMORY", limit)
        patch.setattr(sorted_output, "_SAMPLE", sample)
        patch.setattr(sorted_records, "BLOCK", 4)
        sorter = sorted_output.RecordSorter(folder)
        at = 0
        for batch in batches:
            sorter.add(everything[at : at + len(batch)])
            at += len(batch)
        assert bool(sorter.runs) == (len(everything) >= limit)
        sorter.save(folder / "runs")
        ordered = everything[np.lexsort((everything["low"], everything["key"]))]
        save_records(folder / "once", [ordered], len(everything))

    assert (folder / "runs").read_bytes() == (folder / "once").read_bytes()


def test_a_large_file_is_read_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.random.default_rng(3).integers(0, 2**64, 300_000, dtype=np.uint64)
    file = saved(store, records(keys.tolist()))
    read: list[int] = []
    original = Store.read_range

    def counted(self: Store, key: str, start: int, stop: int) -> bytes:
        content = original(self, key, start, stop)
        read.append(len(content))
        return content

    monkeypatch.setattr(Store, "read_range", counted)
    parts = [file.between(n * 2**58, (n + 1) * 2**58) for n in range(64)]

    assert np.concatenate(parts)["key"].tolist() == sorted(keys.tolist())
    assert max(read) < 300_000 * 24 / 64 + 4 * 512 * 24
    assert len(read) == 64


@pytest.mark.parametrize("place", [0, 9, 17, 30, 3000, 100_000, 299_999])
def test_a_flipped_bit_is_found_wherever_it_is(store: Store, place: int) -> None:
    saved(store, records(list(range(0, 13_000 * 5, 5))))
    path = Path(store.url) / "x.records"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)

    with pytest.raises(DamagedObject, match="x.records is damaged"):
        RecordsFile(store, "x.records").all()


@pytest.mark.parametrize("size", [0, 10, 30, 400, 5000, 70_000])
def test_a_cut_file_is_found(store: Store, size: int) -> None:
    saved(store, records(list(range(13_000))))
    path = Path(store.url) / "x.records"
    path.write_bytes(path.read_bytes()[:size])

    with pytest.raises(DamagedObject, match="x.records is damaged"):
        RecordsFile(store, "x.records").all()


def test_no_files_give_no_records() -> None:
    assert read_between([], 0, 2**64).dtype == RECORD


def test_it_reads_from_an_object_store(tmp_path: Path) -> None:
    store = Store("memory://sorted-records")
    save_records(tmp_path / "x", [records(list(range(5000)))], 5000)
    store.publish_file(tmp_path / "x", "x.records")

    found = RecordsFile(store, "x.records").between(1000, 4000)

    assert found["key"].tolist() == [*range(1000, 4000)]
