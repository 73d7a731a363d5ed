"""Tables of words and counts, sorted by a stable hash, of which any range of hashes is read alone.

A table has the columns `hash`, `word`, `count`, and is sorted by hash, then word; no word comes
twice. A reducer reads the row groups that hold its range, of every file: so S files and P reducers
need no S x P files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.core.hashing import finalise64
from pipelines.core.store import Store, damage_named, parquet_writer

HASHES = 2**64
ROWS_PER_GROUP = 1 << 15
WORDS_AT_ONCE = 1 << 16
"""Words that are hashed in one go; it bounds the memory that this takes."""

SCHEMA = pa.schema(
    [
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("word", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)

Hashes = npt.NDArray[np.uint64]

_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, HASHES))


def word_hashes(words: pa.Array) -> Hashes:
    """A stable 64-bit hash of each word's UTF-8 bytes, shape (words,).

    sum of (byte_i + 1) x B^(i + 1) modulo 2^64, through SplitMix64's finaliser. It depends on the
    word alone.

    Args:
        words: a string array without nulls.
    """
    parts = [
        _hashes(words.slice(start, WORDS_AT_ONCE)) for start in range(0, len(words), WORDS_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


def _hashes(words: pa.Array) -> Hashes:
    _, places, content = words.buffers()
    offsets = np.frombuffer(places, np.int32)[words.offset : words.offset + len(words) + 1]
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    codes = np.frombuffer(content or b"", np.uint8)[first : first + size].astype(np.uint64)
    sums = np.zeros(size + 1, dtype=np.uint64)
    np.cumsum((codes + np.uint64(1)) * _powers(_BASE, size)[1:], out=sums[1:])
    starts, ends = offsets[:-1] - first, offsets[1:] - first
    # The prefix sums give B^start times what the word alone would have.
    return finalise64((sums[ends] - sums[starts]) * _powers(_INVERSE, size)[starts])


def _powers(base: np.uint64, most: int) -> Hashes:
    """base^0 ... base^most modulo 2^64."""
    powers = np.full(most + 1, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


def hashed(counts: pa.Table) -> pa.Table:
    """Words and counts (columns `word`, `count`, no word twice) as a sorted table."""
    counts = counts.combine_chunks()
    words = _one_array(counts["word"])
    columns = [pa.array(word_hashes(words)), words, _one_array(counts["count"])]
    table = pa.Table.from_arrays(columns, schema=SCHEMA)
    return table.take(order_of(table))


def order_of(table: pa.Table) -> pa.Array:
    """The order of a table's rows by hash, then word; equal ones stay as they are."""
    hashes = table["hash"].to_numpy()
    order = np.argsort(hashes, kind="stable")
    words = table["word"].take(pa.array(order))
    same = hashes[order][1:] == hashes[order][:-1]
    if not np.any(same & starts_of(words)[1:]):
        return pa.array(order)
    # Two words have one hash: rows of the one may lie between rows of the other.
    rows = table.select(["hash", "word"]).append_column("row", pa.array(np.arange(len(hashes))))
    return pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.column_names])


def starts_of(words: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Which of sorted words are not equal to the one before, shape (words,); the first is not."""
    words = _one_array(words)
    new = np.ones(len(words), dtype=np.bool_)
    if len(words) > 1:
        new[1:] = pc.not_equal(words[1:], words[:-1]).to_numpy(zero_copy_only=False)
    return new


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def summed(tables: Sequence[pa.Table]) -> pa.Table:
    """One sorted table of several: equal words become one row with the sum of their counts."""
    if len(tables) == 1:
        return tables[0]
    whole = pa.concat_tables([SCHEMA.empty_table(), *tables]).combine_chunks()
    whole = whole.take(order_of(whole)).combine_chunks()
    starts = np.flatnonzero(starts_of(whole["word"])) if len(whole) else np.zeros(0, np.int64)
    counts = whole["count"].to_numpy()
    total = np.add.reduceat(counts, starts) if len(whole) else counts
    first = whole.take(pa.array(starts))
    return first.set_column(2, SCHEMA.field("count"), pa.array(total, pa.int64()))


def write_words(path: Path, parts: Iterable[pa.Table]) -> int:
    """Write sorted tables that follow one another as one file; returns its rows."""
    rows = 0
    with parquet_writer(path, SCHEMA) as writer:
        for part in parts:
            writer.write_table(part, row_group_size=ROWS_PER_GROUP)
            rows += part.num_rows
    return rows


def read_range(file: Path | IO[bytes], low: int, high: int) -> pa.Table:
    """The rows of a file with low <= hash < high, in order; `high` may be 2^64."""
    with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
        chosen = []
        for number in range(parquet.num_row_groups):
            found = parquet.metadata.row_group(number).column(0).statistics
            if found is None or not found.has_min_max or (found.min < high and found.max >= low):
                chosen.append(number)
        table = parquet.read_row_groups(chosen) if chosen else parquet.schema_arrow.empty_table()
    hashes = table["hash"].to_numpy()
    begin = int(np.searchsorted(hashes, np.uint64(low), "left"))
    end = int(np.searchsorted(hashes, np.uint64(high - 1), "right"))
    return table.slice(begin, end - begin)


def read_range_of(store: Store, key: str, low: int, high: int) -> pa.Table:
    """The rows of a file of the store with low <= hash < high.

    Raises:
        DamagedObject: its bytes are not those that were written.
    """
    with damage_named(key), store.open(key) as file:
        return read_range(file, low, high)


def ranges(parts: int) -> list[tuple[int, int]]:
    """The hashes cut into equal ranges [low, high)."""
    cuts = [HASHES * number // parts for number in range(parts + 1)]
    return list(pairwise(cuts))


def parts_for(rows: int, rows_at_once: int) -> int:
    """The smallest power of two of ranges that hold at most so many rows, on average."""
    parts = 1
    while rows > parts * rows_at_once:
        parts *= 2
    return parts


def merged(files: Sequence[Path], rows: int, rows_at_once: int) -> Iterator[pa.Table]:
    """Merge files of words that lie on this machine, range by range.

    Args:
        rows: rows of all files together.
        rows_at_once: rows that are in memory at a time, about.
    """
    for low, high in ranges(parts_for(rows, rows_at_once)):
        yield summed([read_range(file, low, high) for file in files])
