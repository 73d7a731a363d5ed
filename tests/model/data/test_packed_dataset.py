from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.data import packed_files
from model.data.packed_dataset import PackedSequences, Rows
from model.data.packed_files import FileCache
from pipelines.core.store import Store
from tests.model.packed import Row, make_row, packing, write


def rows_of(language: str, count: int, views: int = 2) -> list[Row]:
    return [make_row(f"{language}:{i}", 8 + (i * 13) % 57, views) for i in range(count)]


def check(found: Rows, wanted: list[Row], views: list[int]) -> None:
    """Hold what was taken against the rows themselves, one by one."""
    assert found.ids == [row.id for row in wanted]
    ends = np.cumsum(found.masked).tolist()
    starts_ends = np.cumsum(found.start_counts).tolist()
    for i, (row, view) in enumerate(zip(wanted, views, strict=True)):
        begin, end = found.offsets[i], found.offsets[i + 1]
        assert found.tokens[begin:end].tolist() == row.tokens
        begin = starts_ends[i] - int(found.start_counts[i])
        assert found.starts[begin : starts_ends[i]].tolist() == row.starts
        assert found.stored[i] == (0 <= view < row.views)
        part = slice(ends[i] - int(found.masked[i]), ends[i])
        mask = row.mask(view) if found.stored[i] else ([], [])
        assert (found.positions[part].tolist(), found.replacements[part].tolist()) == mask


@pytest.mark.parametrize("bound", [None, 10**7])
def test_rows_are_those_of_the_files_in_their_order(
    store: Store, tmp_path: Path, bound: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_files, "BATCH_BYTES", 100_000)  # several record batches a file
    made = packing()
    languages = {"fi": rows_of("fi", 30), "en": rows_of("en", 5000), "sw": rows_of("sw", 1, 0)}
    # The names do not sort as the record has them.
    cuts = {"en": [(0, 4200, "z"), (4200, 4200, "y"), (4200, 5000, "a")], "fi": [(0, 30, "b")]}
    cuts["sw"] = [(0, 1, "c")]
    files = {
        language: [
            write(store, f"{language}/{name}.parquet", rows[a:b], made, tmp_path)
            for a, b, name in cuts[language]
            if a < b
        ]
        for language, rows in languages.items()
    }
    packed = PackedSequences(FileCache(store, tmp_path / "cache", made, bound), files)
    assert packed.counts == {"en": 5000, "fi": 30, "sw": 1}
    assert packed.rows_of("fi") == range(5000, 5030)
    everything = [*languages["en"], *languages["fi"], *languages["sw"]]
    rng = np.random.default_rng(0)
    for rows in (
        [0, 2047, 2048, 4199, 4200, 4999, 5000, 5029, 5030],
        [5030, 0, 5030, 4999],
        rng.integers(0, 5031, 64).tolist(),
    ):
        views = rng.integers(-1, 4, len(rows)).tolist()
        found = packed.take(np.array(rows), np.array(views))
        check(found, [everything[row] for row in rows], views)
    for rows in ([5031], [-1], []):
        with pytest.raises(IndexError, match=r"inside 0 \.\.\. 5030"):
            packed.take(np.array(rows, dtype=np.int64), np.zeros(len(rows), np.int64))


@pytest.mark.parametrize("bound", [None, 10**7])
def test_pairs_have_segments_and_labels(store: Store, tmp_path: Path, bound: int | None) -> None:
    made = packing(mode="pairs", rows=250_002)
    rows = rows_of("en", 40)
    keys = [write(store, f"{i}.parquet", rows[i : i + 20], made, tmp_path) for i in (0, 20)]
    packed = PackedSequences(FileCache(store, tmp_path / "cache", made, bound), {"en": keys})
    wanted = [rows[i] for i in (27, 3, 39)]
    found = packed.take(np.array([27, 3, 39]), np.array([0, 1, 2]))
    check(found, wanted, [0, 1, 2])
    assert found.tokens.dtype == np.uint32
    assert found.segments is not None and found.is_next is not None
    assert found.segments.tolist() == [s for row in wanted for s in row.segments]
    assert found.is_next.tolist() == [row.is_next for row in wanted]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.integers(0, 2**32))
def test_where_files_end_changes_no_row(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("layout")
    store, made, rows = Store(str(folder / "store")), packing(), rows_of("en", 60)
    ends = [0, *sorted(cuts), 60]
    keys = [
        write(store, f"{number}.parquet", rows[a:b], made, folder)
        for number, (a, b) in enumerate(zip(ends[:-1], ends[1:], strict=True))
        if a < b
    ]
    packed = PackedSequences(FileCache(store, folder / "cache", made), {"en": keys})
    chosen = np.random.default_rng(seed).integers(0, 60, 12)
    check(packed.take(chosen, np.ones(12, np.int64)), [rows[i] for i in chosen], [1] * 12)


def test_no_descriptor_stays_open(store: Store, tmp_path: Path) -> None:
    made, descriptors = packing(), Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("this system does not list open files")
    keys = [write(store, f"{i}.parquet", [make_row(f"{i}", 20)], made, tmp_path) for i in range(30)]
    before = len(list(descriptors.iterdir()))
    packed = PackedSequences(FileCache(store, tmp_path / "cache", made), {"en": keys})
    assert len(list(descriptors.iterdir())) < before + 10
    assert packed.take(np.arange(30), np.zeros(30, np.int64)).ids == [str(i) for i in range(30)]
