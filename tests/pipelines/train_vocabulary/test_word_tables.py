from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core.store import DamagedObject, Store
from pipelines.train_vocabulary import word_tables
from pipelines.train_vocabulary.word_tables import (
    HASHES,
    hashed,
    merged,
    parts_for,
    ranges,
    read_range,
    read_range_of,
    summed,
    word_hashes,
    write_words,
)

counters = st.dictionaries(
    st.text(st.sampled_from("abкไ漢\U0001f600"), max_size=6), st.integers(1, 2**40), max_size=60
)


def table(counts: dict[str, int]) -> pa.Table:
    words, values = pa.array(list(counts), pa.string()), pa.array(list(counts.values()), pa.int64())
    return hashed(pa.table({"word": words, "count": values}))


def counts_of(*tables: pa.Table) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in tables:
        for word, count in zip(one["word"].to_pylist(), one["count"].to_pylist(), strict=True):
            found[word] += count
    return found


def hash_of(word: str) -> int:
    """The definition, word by word, in Python's integers."""
    value = sum(
        (byte + 1) * pow(0x9E3779B97F4A7C15, place + 1, 2**64)
        for place, byte in enumerate(word.encode())
    )
    value %= 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


@settings(deadline=None)
@given(st.lists(st.text(max_size=8), max_size=30), st.integers(0, 5))
def test_hashes_are_those_of_the_definition_wherever_a_word_stands(
    words: list[str], skipped: int
) -> None:
    found = word_hashes(pa.array(words, pa.string()).slice(skipped))
    assert found.tolist() == [hash_of(word) for word in words[skipped:]]


def test_hashes_spread_evenly() -> None:
    found = word_hashes(pa.array([f"word{n}" for n in range(20_000)], pa.string()))
    share = np.bincount((found >> np.uint64(60)).astype(np.int64), minlength=16) / len(found)
    assert abs(share - 1 / 16).max() < 0.006  # 3.5 sigma


@settings(deadline=None)
@given(st.lists(counters, min_size=1, max_size=4))
def test_a_sum_of_tables_is_the_sum_of_counters_and_sorted(parts: list[dict[str, int]]) -> None:
    whole = summed([table(part) for part in parts])

    expected: Counter[str] = Counter()
    for part in parts:
        expected.update(part)
    assert counts_of(whole) == expected
    assert whole["word"].to_pylist() == sorted(expected, key=lambda word: (hash_of(word), word))
    assert whole.equals(summed([table(part) for part in reversed(parts)]))


def test_words_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        word_tables, "word_hashes", lambda words: np.zeros(len(words), dtype=np.uint64)
    )
    parts = [{"b": 1, "a": 2}, {"c": 5, "a": 3}, {"b": 7}]
    whole = summed([table(part) for part in parts])
    assert whole["word"].to_pylist() == ["a", "b", "c"]
    assert whole["count"].to_pylist() == [5, 8, 5]


def test_ranges_cut_all_hashes_without_a_gap() -> None:
    for parts in (1, 2, 8, 1024):
        found = ranges(parts)
        assert (found[0][0], found[-1][1], len(found)) == (0, HASHES, parts)
        assert all(left[1] == right[0] for left, right in zip(found, found[1:], strict=False))
    assert [parts_for(rows, 100) for rows in (0, 100, 101, 250, 800)] == [1, 1, 2, 4, 8]


@pytest.mark.parametrize("parts", [1, 2, 16])
def test_every_row_is_in_one_range(
    tmp_path: Path, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_tables, "ROWS_PER_GROUP", 50)
    whole = table({f"word{n}": n + 1 for n in range(1000)})
    path = tmp_path / "words.parquet"
    assert write_words(path, [whole.slice(0, 300), whole.slice(300)]) == 1000
    found = [read_range(path, low, high) for low, high in ranges(parts)]
    assert pa.concat_tables(found).equals(whole)
    for row in (0, 49, 50, 51, 299, 300, 500, 999):  # a row group's first and last among them
        one = whole["hash"][row].as_py()
        assert read_range(path, one, one + 1)["hash"].to_pylist() == [one]
    assert read_range(path, 0, 1).num_rows == 0


def test_files_are_merged_range_by_range(tmp_path: Path) -> None:
    parts = [{f"word{n}": n for n in range(start, 900, 3)} for start in (1, 2, 3)] * 2
    files = [tmp_path / f"{number}.parquet" for number in range(len(parts))]
    for path, part in zip(files, parts, strict=True):
        write_words(path, [table(part)])
    found = list(merged(files, rows=1800, rows_at_once=200))
    assert len(found) == 16
    assert counts_of(*found) == {f"word{n}": 2 * n for n in range(1, 900)}


def test_damage_is_named(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    write_words(path, [table({f"word{n}": n + 1 for n in range(1000)})])
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    store.publish_bytes("words.parquet", bytes(content))
    with pytest.raises(DamagedObject, match=r"words\.parquet is damaged"):
        read_range_of(store, "words.parquet", 0, HASHES)
