"""Random access to packed sequences: row numbers in, ragged arrays out.

Rows are numbered through all languages, and in a language through its files in the record's order,
so where one file ends and the next begins changes no row's number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from model.data.packed_files import FileCache, facts_of

Int64s = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Sequences one after the other, in the order they were asked for.

    n sequences with `total` tokens; `viewed` of them come with a stored mask.
    """

    ids: list[str]
    """Sequence ids, n."""
    tokens: Array
    """Original ids, uint16 or uint32, shape (total,); not shared with the file."""
    offsets: Int64s
    """Where each sequence begins in `tokens`, and the end, shape (n + 1,)."""
    stored: npt.NDArray[np.bool_]
    """Whether the wanted view of the sequence is stored, shape (n,)."""
    positions: npt.NDArray[np.uint16]
    """Masked positions inside their sequences, of the stored views one after the other."""
    replacements: Array
    """The ids to put there."""
    masked: Int64s
    """Masked positions of each sequence, 0 where its view is not stored, shape (n,)."""
    starts: npt.NDArray[np.int32]
    """Positions inside the sequences at which documents begin."""
    start_counts: Int64s
    """How many of them each sequence has, shape (n,)."""
    segments: npt.NDArray[np.uint8] | None
    """Only mode pairs: the segment of each token, shape (total,)."""
    is_next: npt.NDArray[np.bool_] | None
    """Only mode pairs: whether the second segment follows the first, shape (n,)."""


class _Block:
    """One record batch as flat arrays; looking up an offset in a memoryview is cheapest."""

    __slots__ = (
        "id_bytes",
        "id_offsets",
        "is_next",
        "mask_tokens",
        "positions",
        "rows",
        "segments",
        "start_offsets",
        "starts",
        "token_offsets",
        "tokens",
        "value_offsets",
        "view_offsets",
    )

    def __init__(self, batch: pa.RecordBatch) -> None:
        ids, tokens, starts, positions, mask_tokens = batch.columns[:5]
        self.rows = batch.num_rows
        _, offsets, content = ids.buffers()
        self.id_offsets = np.frombuffer(offsets, np.int32, self.rows + 1).data
        self.id_bytes = memoryview(content) if content is not None else memoryview(b"")
        self.token_offsets, self.tokens = _flat(tokens)
        self.start_offsets, self.starts = _flat(starts)
        self.view_offsets: memoryview = positions.offsets.to_numpy().data
        self.value_offsets, self.positions = _flat(positions.values)
        self.mask_tokens = mask_tokens.values.values.to_numpy()
        self.segments: Array | None = None
        self.is_next: Array | None = None
        if batch.num_columns > 5:
            self.segments = batch.column("segments").values.to_numpy()
            self.is_next = batch.column("is_next").to_numpy(zero_copy_only=False)


def _flat(lists: pa.ListArray) -> tuple[memoryview, Array]:
    """Offsets and values of a column of lists."""
    return lists.offsets.to_numpy().data, lists.values.to_numpy()


class _Taken:
    """Sequences taken one by one, as views of their blocks; lists hold one entry a sequence."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.tokens: list[Array] = []
        self.stored: list[bool] = []
        self.positions: list[Array] = []
        self.replacements: list[Array] = []
        self.starts: list[Array] = []
        self.segments: list[Array] = []
        self.is_next: list[bool] = []

    def add(self, blocks: Sequence[_Block], first: Int64s, rows: Int64s, views: Int64s) -> None:
        """Take rows; `first` has the number of each block's first row, and the end.

        The only loop over sequences on the way to a batch, and so written for speed.
        """
        numbers = np.searchsorted(first, rows, side="right") - 1
        inside = rows - first[numbers]
        for number, row, view in zip(
            numbers.tolist(), inside.tolist(), views.tolist(), strict=True
        ):
            block, after = blocks[number], row + 1
            offsets = block.id_offsets
            self.ids.append(str(block.id_bytes[offsets[row] : offsets[after]], "utf-8"))
            offsets = block.token_offsets
            begin, end = offsets[row], offsets[after]
            self.tokens.append(block.tokens[begin:end])
            offsets = block.start_offsets
            self.starts.append(block.starts[offsets[row] : offsets[after]])
            offsets = block.view_offsets
            view += offsets[row]
            stored = offsets[row] <= view < offsets[after]
            self.stored.append(stored)
            if stored:
                offsets = block.value_offsets
                values = slice(offsets[view], offsets[view + 1])
                self.positions.append(block.positions[values])
                self.replacements.append(block.mask_tokens[values])
            if block.segments is not None and block.is_next is not None:
                self.segments.append(block.segments[begin:end])
                self.is_next.append(block.is_next[row])

    def laid_out(self) -> Rows:
        """All of them, copied from their blocks."""
        stored = np.array(self.stored, dtype=np.bool_)
        masked = np.zeros(len(stored), dtype=np.int64)
        masked[stored] = _lengths(self.positions)
        return Rows(
            ids=self.ids,
            tokens=np.concatenate(self.tokens),
            offsets=np.concatenate([[0], np.cumsum(_lengths(self.tokens))]),
            stored=stored,
            positions=_joined(self.positions, np.uint16),
            replacements=_joined(self.replacements, self.tokens[0].dtype),
            masked=masked,
            starts=np.concatenate(self.starts),
            start_counts=_lengths(self.starts),
            segments=np.concatenate(self.segments) if self.segments else None,
            is_next=np.array(self.is_next, dtype=np.bool_) if self.is_next else None,
        )


def _lengths(arrays: list[Array]) -> Int64s:
    return np.fromiter(map(len, arrays), np.int64, len(arrays))


def _joined(arrays: list[Array], dtype: Any) -> Array:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def _blocks(path: Path) -> list[_Block]:
    """The record batches of a file, mapped; the descriptor is closed, the mapping stays."""
    with pa.memory_map(str(path), "r") as file:
        reader = pa.ipc.open_file(file)
        return [_Block(reader.get_batch(i)) for i in range(reader.num_record_batches)]


class PackedSequences:
    """The packed sequences of one part (train or held-out), of all languages.

    Without a bound on the cache all files are brought and mapped at once. With one, a file is
    brought whenever rows of it are taken and it is not there.

    Args:
        files: keys by language, in the record's order.

    Raises:
        DamagedObject: a file is damaged.
        ValueError: a file was made with another vocabulary, or does not fit the cache.
    """

    def __init__(self, cache: FileCache, files: Mapping[str, Sequence[str]]) -> None:
        self._cache = cache
        self._keys = [key for language in sorted(files) for key in files[language]]
        self._open: list[_Block] | None = None
        self.cached_bytes = 0
        """Most bytes of all files on the node's disk; 0 where there is no bound."""
        if cache.bound is None:
            by_file = [self._mapped(key) for key in self._keys]
            sizes = [sum(block.rows for block in blocks) for blocks in by_file]
            self._open = [block for blocks in by_file for block in blocks]
            self._block_starts = _starts([block.rows for block in self._open])
        else:
            facts = facts_of(cache, self._keys)
            sizes = [facts[key].rows for key in self._keys]
            self.cached_bytes = sum(one.cached_bytes for one in facts.values())
        self._file_starts = _starts(sizes)
        by_key = dict(zip(self._keys, sizes, strict=True))
        self.counts = {name: sum(by_key[key] for key in files[name]) for name in sorted(files)}
        """Sequences by language."""
        self.first = _starts(list(self.counts.values()))
        """Number of each language's first row, and of all rows, shape (languages + 1,)."""

    def _mapped(self, key: str) -> list[_Block]:
        with self._cache.held(key) as path:
            return _blocks(path)

    def rows_of(self, language: str) -> range:
        """The numbers of a language's rows."""
        number = list(self.counts).index(language)
        return range(int(self.first[number]), int(self.first[number + 1]))

    def take(self, rows: Int64s, views: Int64s) -> Rows:
        """Take sequences, in any order.

        Args:
            rows: row numbers, shape (n,).
            views: the stored mask wanted of each, shape (n,); -1 for none.

        Raises:
            IndexError: there is no such row.
        """
        total = int(self._file_starts[-1])
        if not len(rows) or rows.min() < 0 or rows.max() >= total:
            raise IndexError(f"rows {rows.tolist()[:8]} are not all inside 0 ... {total - 1}")
        if self._open is not None:
            taken = _Taken()
            taken.add(self._open, self._block_starts, rows, views)
            return taken.laid_out()
        # One file after the other, so that at most one is held.
        files = np.searchsorted(self._file_starts, rows, side="right") - 1
        parts, places = [], []
        for file in np.unique(files):
            here = np.flatnonzero(files == file)
            taken = _Taken()
            with self._cache.held(self._keys[file]) as path:
                blocks = _blocks(path)
                starts = _starts([block.rows for block in blocks])
                taken.add(blocks, starts, rows[here] - self._file_starts[file], views[here])
                parts.append(taken.laid_out())
            places.append(here)
        return joined(parts, np.argsort(np.concatenate(places)))


def joined(parts: Sequence[Rows], order: Int64s) -> Rows:
    """Several takes as one, its sequences in the given order of them all, shape (n,)."""

    def all_of(name: str) -> Array:
        return np.concatenate([getattr(part, name) for part in parts])

    def ragged(values: Array, counts: Int64s) -> Array:
        """Values of sequences of so many values each, in the new order."""
        ends, wanted = np.cumsum(counts), counts[order]
        shift = (ends - counts)[order] - (np.cumsum(wanted) - wanted)
        found: Array = values[np.arange(len(values)) + np.repeat(shift, wanted)]
        return found

    ids = [name for part in parts for name in part.ids]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    masked, start_counts = all_of("masked"), all_of("start_counts")
    pairs = parts[0].segments is not None
    return Rows(
        ids=[ids[i] for i in order.tolist()],
        tokens=ragged(all_of("tokens"), lengths),
        offsets=np.concatenate([[0], np.cumsum(lengths[order])]),
        stored=all_of("stored")[order],
        positions=ragged(all_of("positions"), masked),
        replacements=ragged(all_of("replacements"), masked),
        masked=masked[order],
        starts=ragged(all_of("starts"), start_counts),
        start_counts=start_counts[order],
        segments=ragged(all_of("segments"), lengths) if pairs else None,
        is_next=all_of("is_next")[order] if pairs else None,
    )


def _starts(sizes: Sequence[int]) -> Int64s:
    """Where each of several parts begins, and the end, shape (parts + 1,)."""
    return np.cumsum([0, *sizes], dtype=np.int64)
