"""Sorted count tables in files, and their merge in memory that does not grow with them.

A run is a Parquet file with columns `order`, `token`, `w1` ... `wn`, `count`, sorted by order and
words. Rows of order 1 come first and are the file's own vocabulary: `token` is set there, and `w1`
counts up from 0. Ids are given in the order of the tokens, so that ids of a joint vocabulary keep
every file sorted, and files can be merged as they stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core.store import local_file, parquet_writer
from pipelines.ngrams.count import Counts
from pipelines.ngrams.tables import SPECIALS, Ints, Tables, lookup, vocabulary_from

FAN_IN = 64
"""Files that are open at once in a merge; more are merged in several rounds."""
ROWS_AT_ONCE = 1 << 20
"""Rows held in memory in a merge, over all files."""
ROWS_PER_GROUP = 1 << 16
ORDER_BITS = 4


@dataclass
class Block:
    """Some rows of a run: words beyond an n-gram's order are 0."""

    orders: npt.NDArray[np.int8]
    words: npt.NDArray[np.int32]
    """Shape (rows, n)."""
    counts: Ints

    def rows(self, chosen: Any) -> Block:
        """The chosen rows."""
        return Block(self.orders[chosen], self.words[chosen], self.counts[chosen])


def blocks_of(counts: Counts) -> Iterator[Block]:
    """Counts as blocks, one an order."""
    tables = counts.tables
    for order in range(1, tables.order + 1):
        words = np.zeros((len(tables.keys[order - 1]), tables.order), dtype=np.int32)
        words[:, :order] = tables.words(order)
        orders = np.full(len(words), order, dtype=np.int8)
        yield Block(orders, words, counts.counts[order - 1])


def write_run(path: Path, vocabulary: Sequence[str], order: int, blocks: Iterable[Block]) -> int:
    """Write sorted blocks as a run.

    Returns:
        Rows written.
    """
    columns = [f"w{number}" for number in range(1, order + 1)]
    schema = pa.schema(
        [("order", pa.int8()), ("token", pa.string())]
        + [(name, pa.int32()) for name in columns]
        + [("count", pa.int64())]
    )
    rows = 0
    with parquet_writer(path, schema) as writer:
        for block in blocks:
            unigrams = block.orders == 1
            tokens = [vocabulary[word] for word in block.words[unigrams, 0].tolist()]
            table = pa.Table.from_arrays(
                [
                    pa.array(block.orders),
                    pa.array(tokens + [None] * int((~unigrams).sum()), pa.string()),
                    *(pa.array(block.words[:, number]) for number in range(order)),
                    pa.array(block.counts),
                ],
                schema=schema,
            )
            writer.write_table(table, row_group_size=ROWS_PER_GROUP)
            rows += len(block.counts)
    return rows


def run_vocabulary(source: Path) -> list[str]:
    """The vocabulary of a run."""
    tokens: list[str] = []
    for batch in pq.ParquetFile(source, page_checksum_verification=True).iter_batches(
        columns=["order", "token"]
    ):
        found = [token for token in batch.column("token").to_pylist() if token is not None]
        tokens += found
        if len(found) < batch.num_rows:
            break
    return tokens


@dataclass
class _Stream:
    """One run on its way through a merge, in ids of the joint vocabulary."""

    batches: Iterator[Any]
    moved: Ints
    bits: int
    block: Block = field(init=False)
    keys: list[Ints] = field(init=False)
    more: bool = True

    def fill(self) -> None:
        """Read the next rows; with `more` false there are none."""
        batch = next(self.batches, None)
        if batch is None:
            self.more = False
            self.keys = [np.zeros(0, dtype=np.int64)]
            return
        orders = batch.column("order").to_numpy()
        columns = [
            np.where(number < orders, self.moved[column.to_numpy()], 0)
            for number, column in enumerate(batch.columns[2:-1])
        ]
        self.block = Block(
            orders, np.stack(columns, axis=1).astype(np.int32), batch.columns[-1].to_numpy()
        )
        self.keys = _pack(self.block, self.bits)

    def split(self, bound: tuple[int, ...] | None) -> tuple[Block, list[Ints]]:
        """Take the rows up to a bound, all without one."""
        size = len(self.keys[0])
        taken = size if bound is None else int(_at_most(self.keys, bound).sum())
        result = self.block.rows(slice(0, taken)), [key[:taken] for key in self.keys]
        self.block = self.block.rows(slice(taken, size))
        self.keys = [key[taken:] for key in self.keys]
        return result


def _pack(block: Block, bits: int) -> list[Ints]:
    """Order and words as few 63-bit numbers that compare as they do."""
    keys, used = [block.orders.astype(np.int64)], ORDER_BITS
    for column in block.words.T:
        if used + bits > 63:
            keys.append(np.zeros(len(column), dtype=np.int64))
            used = 0
        keys[-1] = (keys[-1] << bits) | column
        used += bits
    return keys


def _at_most(keys: list[Ints], bound: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    below = np.ones(len(keys[0]), dtype=np.bool_)
    for key, limit in zip(keys[::-1], bound[::-1], strict=True):
        below = (key < limit) | ((key == limit) & below)
    return below


def merge_runs(
    sources: Sequence[Path], rows_at_once: int = ROWS_AT_ONCE
) -> tuple[list[str], Iterator[Block]]:
    """Merge at most FAN_IN runs; equal n-grams become one row with the sum of their counts.

    Returns:
        The joint vocabulary, and the merged rows as sorted blocks that are read as they are used.
    """
    own = [run_vocabulary(source) for source in sources]
    vocabulary = vocabulary_from([token for tokens in own for token in tokens])
    ids = {token: number for number, token in enumerate(vocabulary)}
    bits = max(len(vocabulary) - 1, 1).bit_length()
    size = max(1, rows_at_once // len(sources))
    streams = [
        _Stream(
            pq.ParquetFile(source, page_checksum_verification=True).iter_batches(batch_size=size),
            np.array([ids[token] for token in tokens], dtype=np.int64),
            bits,
        )
        for source, tokens in zip(sources, own, strict=True)
    ]
    return vocabulary, _merge(streams)


def _merge(streams: list[_Stream]) -> Iterator[Block]:
    for stream in streams:
        stream.fill()
    streams = [stream for stream in streams if stream.more]
    while streams:
        bound = min(tuple(int(key[-1]) for key in stream.keys) for stream in streams)
        parts = [stream.split(bound) for stream in streams]
        yield _sum_equal([block for block, _ in parts], [keys for _, keys in parts])
        for stream in streams:
            if not len(stream.keys[0]):
                stream.fill()
        streams = [stream for stream in streams if stream.more]


def _sum_equal(blocks: list[Block], parts: list[list[Ints]]) -> Block:
    keys = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.lexsort(keys[::-1])
    keys = [key[order] for key in keys]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    starts = np.flatnonzero(new)
    first = order[starts]
    counts = np.concatenate([block.counts for block in blocks])[order]
    return Block(
        np.concatenate([block.orders for block in blocks])[first],
        np.concatenate([block.words for block in blocks])[first],
        np.add.reduceat(counts, starts),
    )


def local_run(path: Path) -> AbstractContextManager[Path]:
    """A run that lies on this machine, as a source of `merge_in_rounds`."""
    return nullcontext(path)


def merge_in_rounds(
    sources: Sequence[Callable[[], AbstractContextManager[Path]]], order: int, stack: ExitStack
) -> tuple[list[str], Iterator[Block]]:
    """Merge any number of runs, FAN_IN at a time; what lies between is on the local disk.

    Args:
        sources: each opens one run as a local file.
        stack: keeps files open; close it after the blocks were used.
    """
    waiting = list(sources)
    while len(waiting) > FAN_IN:
        merged: list[Callable[[], AbstractContextManager[Path]]] = []
        for begin in range(0, len(waiting), FAN_IN):
            target = stack.enter_context(local_file(".parquet"))
            with ExitStack() as group:
                opened = [group.enter_context(s()) for s in waiting[begin : begin + FAN_IN]]
                vocabulary, blocks = merge_runs(opened)
                write_run(target, vocabulary, order, blocks)
            merged.append(partial(local_run, target))
        waiting = merged
    return merge_runs([stack.enter_context(source()) for source in waiting])


def counts_from(vocabulary: list[str], order: int, blocks: Iterable[Block]) -> Counts:
    """Lay merged blocks out as the counts of one language, in memory."""
    assert tuple(vocabulary[: len(SPECIALS)]) == SPECIALS
    tables = Tables(vocabulary, [])
    parts: list[tuple[list[Ints], list[Ints]]] = [([], []) for _ in range(order)]

    def close(length: int) -> None:
        while len(tables.keys) < length:
            keys = parts[len(tables.keys)][0]
            tables.keys.append(np.concatenate([*keys, np.zeros(0, dtype=np.int64)]))
            keys.clear()

    for block in blocks:
        for length in np.unique(block.orders).tolist():
            close(length - 1)
            rows = block.rows(block.orders == length)
            keys = rows.words[:, 0].astype(np.int64)
            for number in range(1, length):
                keys = keys * tables.size + rows.words[:, number]
                if number < length - 1:
                    keys = lookup(tables.keys[number], keys)
            parts[length - 1][0].append(keys)
            parts[length - 1][1].append(rows.counts)
    close(order)
    return Counts(
        tables, [np.concatenate([*counts, np.zeros(0, dtype=np.int64)]) for _, counts in parts]
    )
