"""Packed files of the store as Arrow IPC files on the node's disk, within a bound if there is one.

A file is brought once a node and checked while it is turned over; workers map it into memory, so a
random row costs no RAM and no decompression. Parquet itself can only be read by row group: one row
of it would cost the decompression of thousands.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core.hashing import digest
from pipelines.core.records import check_packed, check_widths
from pipelines.core.store import ROWS_PER_GROUP, Store, damage_named
from pipelines.core.vocabulary import check_ids

COLUMNS = ("sequence_id", "tokens", "document_starts", "mask_positions", "mask_tokens")
PAIR_COLUMNS = ("segments", "is_next")
"""Only in files of mode pairs."""
BATCH_BYTES = 2**26
"""Bytes of one Arrow record batch; what turning a file over holds in memory."""
LAYOUT = 2
"""Part of the names in the cache: raised whenever the files would look different."""
PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Packing:
    """What packed files must have been made with."""

    rows: int
    """Rows of the vocabulary."""
    length: int
    """packing.length"""
    mode: str = "stream"
    """packing.mode"""
    vocabulary: str | None = None
    """SHA-256 of the vocabulary's file; None: not compared."""

    def check(self, schema: pa.Schema, key: str) -> None:
        """Compare with what a file says of itself.

        Raises:
            ValueError: another vocabulary, width of ids, length or mode; or it is no packed file.
        """
        found = check_packed(schema.metadata, self.rows, key, self.vocabulary)
        check_widths(schema.empty_table(), found, key)
        for name in ("length", "mode"):
            said, wanted = getattr(found, name), getattr(self, name)
            if said != wanted:
                raise ValueError(
                    f"{key}: packed with packing.{name} = {said}, the run's is {wanted}"
                )
        lacking = [name for name in self.columns if name not in schema.names]
        if lacking:
            raise ValueError(f"{key}: it has no column {', '.join(lacking)}")

    @property
    def columns(self) -> list[str]:
        """What is read of a file."""
        return [*COLUMNS, *(PAIR_COLUMNS if self.mode == "pairs" else ())]


@dataclass(frozen=True)
class FileFacts:
    """What a packed file's footer tells."""

    rows: int
    cached_bytes: int
    """Most bytes it takes on the node's disk."""


class FileCache:
    """Packed files on the node's disk, shared by its workers through file locks.

    Args:
        folder: on the local disk.
        bound: most bytes of all files there; the least recently used ones make room, never one
            that somebody reads. None: every file stays.
    """

    def __init__(
        self, store: Store, folder: Path, packing: Packing, bound: int | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.store, self.folder, self.packing, self.bound = store, folder, packing, bound
        self.brought = 0
        """Files that this object turned over; a figure for people."""

    def facts(self, key: str) -> FileFacts:
        """Read a file's footer, which is all that an object store has to send for it.

        Raises:
            DamagedObject: the footer cannot be read.
            ValueError: the file was made with another vocabulary, or does not fit the bound.
        """
        with self.store.open(key) as file, damage_named(key), pq.ParquetFile(file) as parquet:
            schema, metadata = parquet.schema_arrow, parquet.metadata
        self.packing.check(schema, key)
        facts = FileFacts(metadata.num_rows, _cached_bytes(schema, metadata))
        if self.bound is not None and facts.cached_bytes > self.bound:
            raise ValueError(
                f"pretraining.cache_gb = {self.bound / 1e9:g} is smaller than one file: {key} "
                f"takes up to {facts.cached_bytes / 1e9:.3g} GB"
            )
        return facts

    @contextmanager
    def held(self, key: str) -> Iterator[Path]:
        """The file on the disk, which stays there until the block ends.

        A thread that holds a file must not ask for a second one: with a bound, two that wait for
        each other's room would wait for ever.

        Raises:
            DamagedObject: the file on the store is damaged.
            ValueError: it was made with another vocabulary, or holds what no packed file may.
        """
        target = self.folder / f"{digest(self.store.url, key, self.packing.rows, LAYOUT)}.arrow"
        with _lock_of(target).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not target.exists():
                fcntl.flock(lock, fcntl.LOCK_UN)
                self._bring(key, target, lock)
            os.utime(target)  # the time of the last use, by which files make room
            yield target

    def _bring(self, key: str, target: Path, lock: IO[str]) -> None:
        """Turn a file over; the lock on it is shared afterwards.

        With a bound, one file is brought at a time on a node, so that its room is known; and the
        lock is shared again before anybody else can look for room.
        """
        if self.bound is None:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._turn_over_unless_there(key, target)
            fcntl.flock(lock, fcntl.LOCK_SH)
            return
        with (self.folder / "room.lock").open("w") as room:
            fcntl.flock(room, fcntl.LOCK_EX)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not target.exists():
                self._make_room(self.facts(key).cached_bytes)
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._turn_over_unless_there(key, target)
                fcntl.flock(lock, fcntl.LOCK_SH)

    def _turn_over_unless_there(self, key: str, target: Path) -> None:
        if not target.exists():
            attempt = target.with_suffix(".attempt")
            turn_over(self.store, key, attempt, self.packing)
            os.replace(attempt, target)
            self.brought += 1

    def _make_room(self, size: int) -> None:
        """Delete the least recently used files until `size` more bytes fit; wait for readers.

        Only called under room.lock, so an attempt that lies there is of a killed worker.
        """
        assert self.bound is not None
        for leftover in self.folder.glob("*.attempt"):
            leftover.unlink()
        while True:
            files = {path: path.stat() for path in self.folder.glob("*.arrow")}
            used = sum(found.st_size for found in files.values())
            for path in sorted(files, key=lambda path: (files[path].st_mtime_ns, path.name)):
                if used + size <= self.bound:
                    return
                with _lock_of(path).open("w") as lock:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue  # somebody reads it
                    path.unlink()
                    used -= files[path].st_size
            if used + size <= self.bound:
                return
            time.sleep(PAUSE_SECONDS)


def _lock_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.lock")


def turn_over(store: Store, key: str, target: Path, packing: Packing) -> None:
    """Write a packed Parquet file as Arrow IPC, in memory that does not grow with the file.

    Raises:
        DamagedObject: a page's checksum is wrong, or the file is none.
        ValueError: another vocabulary; ids outside it; a mask outside its sequence.
    """
    with store.open(key) as file, damage_named(key):
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        packing.check(parquet.schema_arrow, key)
        names = packing.columns
        schema = pa.schema([parquet.schema_arrow.field(name) for name in names])
        with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            parts: list[pa.RecordBatch] = []
            for batch in parquet.iter_batches(ROWS_PER_GROUP, columns=names):
                parts.append(batch.select(names))
                if sum(part.nbytes for part in parts) >= BATCH_BYTES:
                    _write(writer, parts, packing.rows, key)
                    parts = []
            if parts:
                _write(writer, parts, packing.rows, key)


def _write(writer: Any, parts: list[pa.RecordBatch], rows: int, key: str) -> None:
    """Check rows and write them as one record batch."""
    [batch] = pa.Table.from_batches(parts).combine_chunks().to_batches()
    tokens, starts = batch.column("tokens"), batch.column("document_starts")
    positions, replacements = batch.column("mask_positions"), batch.column("mask_tokens")
    views = positions.flatten()
    check_ids(_numbers(tokens.flatten()), rows, f"{key}, column tokens")
    check_ids(_numbers(replacements.flatten().flatten()), rows, f"{key}, column mask_tokens")
    if not (
        positions.value_lengths().equals(replacements.value_lengths())
        and views.value_lengths().equals(replacements.flatten().value_lengths())
    ):
        raise ValueError(f"{key}: mask_positions and mask_tokens are of different lengths")
    lengths = _numbers(tokens.value_lengths())
    view_lengths = np.repeat(lengths, _numbers(positions.value_lengths()))
    _check_inside(views, view_lengths, f"{key}, column mask_positions")
    _check_inside(starts, lengths, f"{key}, column document_starts")
    for name in {"segments"} & {*batch.schema.names}:
        if not batch.column(name).value_lengths().equals(tokens.value_lengths()):
            raise ValueError(f"{key}: {name} and tokens are of different lengths")
    writer.write_batch(batch)


def _check_inside(lists: pa.ListArray, lengths: Any, where: str) -> None:
    """Refuse a position that is not below its sequence's length."""
    positions = _numbers(lists.flatten())
    limits = np.repeat(lengths, _numbers(lists.value_lengths()))
    wrong = np.flatnonzero(positions >= limits)
    if len(wrong):
        raise ValueError(
            f"{where}: position {positions[wrong[0]]} in a sequence of {limits[wrong[0]]} tokens"
        )


def _numbers(array: pa.Array) -> Any:
    """Integers of an Arrow array, shape (length,)."""
    return array.to_numpy(zero_copy_only=False)


def _cached_bytes(schema: pa.Schema, metadata: Any) -> int:
    """Most bytes of the Arrow file of a Parquet file, from its footer alone.

    Numbers take their width; offsets of the innermost lists are taken as if each value had a list
    of its own, which no file reaches.
    """
    names = {*COLUMNS, *PAIR_COLUMNS}
    total, rows = 2**16, metadata.num_rows  # schema, footer, and the ends of offsets
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name, *nested = column.path_in_schema.split(".")
            if name not in names:
                continue
            leaf = schema.field(name).type
            while pa.types.is_list(leaf):
                leaf = leaf.value_type
            if pa.types.is_string(leaf):
                total += column.total_uncompressed_size
            else:
                total += column.num_values * ((leaf.bit_width + 7) // 8)
            if nested and nested.count("list") > 1:
                total += 4 * column.num_values
    return int(total + rows * 4 * len(names))


def facts_of(cache: FileCache, keys: Iterable[str]) -> dict[str, FileFacts]:
    """The footers of many files, several at a time, by key."""
    wanted = list(keys)
    with ThreadPoolExecutor(16) as threads:
        return dict(zip(wanted, threads.map(cache.facts, wanted), strict=True))
