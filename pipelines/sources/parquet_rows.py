"""Rows of Parquet files as pages, so that damage costs a row or a row group and not the file.

Strings are taken as the bytes that they are and decoded row by row: one that is no UTF-8 is that
row's fault alone. They are read by their dictionary where the file has one, so that a text that
stands in a million rows is held once; batches are bounded by bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.core.manifest import Counters
from pipelines.sources.base import RawPage
from pipelines.sources.fetching.fetch import FetchError
from pipelines.sources.rows import BadLines, Columns, page_of_row

MAX_BATCH_ROWS = 256
BATCH_BYTES = 2**25
"""About so much is decoded at once, by the size that the file gives for a row group."""
UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError)
"""What pyarrow raises on damage; its memory errors are among them."""


class _Bad(Exception):
    """A value that cannot be given; (what is wrong, the reason it is counted as)."""


Cell = Callable[[int], Any]
"""The value in a row of a batch."""


@dataclass(frozen=True)
class _Reading:
    file: pq.ParquetFile
    columns: Columns
    wanted: list[str]
    limit: int


def read_parquet_rows(
    path: Path,
    name: str,
    columns: Columns,
    counters: Counters,
    notes: list[str],
    max_page_bytes: int,
) -> Iterator[RawPage]:
    """One page a row; the row's number, from 0, is the offset.

    Counts `dropped.bad_row` (no text, not UTF-8, or in a row group that is damaged) and
    `dropped.page_too_large`, both noted with the row's number, from 1; `bytes_lost` (compressed
    bytes of damaged row groups).

    Raises:
        FetchError: the file is no Parquet file (its end is missing, say), or has no such column.
    """
    bad = BadLines(name, counters, notes, "row")
    try:
        file = _open(path, columns)
    except UNREADABLE as error:
        raise FetchError(name, f"is not a whole Parquet file: {error}") from error
    with file:
        fields = file.schema_arrow.names
        if columns.text not in fields:
            raise FetchError(
                name, f"has no column {columns.text!r}; its columns: {', '.join(fields)}"
            )
        reading = _Reading(file, columns, columns.among(fields), max_page_bytes)
        first = 0
        for group in range(file.metadata.num_row_groups):
            rows = max(file.metadata.row_group(group).num_rows, 0)
            number = first
            try:
                for found in _pages_of_group(reading, group, first, counters):
                    counters["records"] += 1
                    number += 1
                    if isinstance(found, RawPage):
                        yield found
                    else:
                        bad.add(number, *found)
            except UNREADABLE as error:
                lost = max(first + rows - number, 1)
                counters["records"] += lost
                counters["dropped.bad_row"] += lost
                counters["bytes_lost"] += _sizes(reading, group)[0]
                notes.append(
                    f"{name}: row group {group + 1} is damaged; rows {number + 1} to "
                    f"{number + lost} are lost: {error}"
                )
            first += rows
    bad.close()


def _open(path: Path, columns: Columns) -> pq.ParquetFile:
    with pq.ParquetFile(path) as file:
        strings = [
            field.name for field in file.schema_arrow if _is_text(field.type) and field.name != ""
        ]
    return pq.ParquetFile(
        path, read_dictionary=columns.among(strings), page_checksum_verification=True
    )


def _sizes(reading: _Reading, group: int) -> tuple[int, int]:
    """(compressed, unpacked) bytes of a row group's columns that are read."""
    metadata = reading.file.metadata.row_group(group)
    chunks = [metadata.column(index) for index in range(metadata.num_columns)]
    read = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in reading.wanted]
    return (
        sum(max(chunk.total_compressed_size, 0) for chunk in read),
        sum(max(chunk.total_uncompressed_size, 0) for chunk in read),
    )


def _pages_of_group(
    reading: _Reading, group: int, first: int, counters: Counters
) -> Iterator[RawPage | tuple[str, str | None]]:
    """Pages of a row group, or what is wrong with a row and what it is counted as."""
    rows = max(reading.file.metadata.row_group(group).num_rows, 1)
    bytes_a_row = max(_sizes(reading, group)[1] // rows, 1)
    batch_rows = max(1, min(MAX_BATCH_ROWS, BATCH_BYTES // bytes_a_row))
    number = first
    for batch in reading.file.iter_batches(
        batch_size=batch_rows, row_groups=[group], columns=reading.wanted, use_threads=False
    ):
        cells: dict[str, Cell] = {}
        for field, array in zip(batch.schema.names, batch.columns, strict=True):
            cells.setdefault(field, _cell(array, reading.limit))
        for row in range(batch.num_rows):
            yield _page(reading, cells, row, number, counters)
            number += 1


def _page(
    reading: _Reading, cells: dict[str, Cell], row: int, number: int, counters: Counters
) -> RawPage | tuple[str, str | None]:
    values: dict[str, Any] = {}
    for field, cell in cells.items():
        try:
            values[field] = cell(row)
        except _Bad as problem:
            what, reason = problem.args
            return f"{field!r} {what}", reason
        except UNREADABLE as error:
            return f"{field!r} cannot be read: {error}", None
    found = page_of_row(values, number, reading.columns, counters)
    return (found, None) if isinstance(found, str) else found


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are strings, or bytes: old writers do not mark what is a string."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _cell(array: pa.Array, limit: int) -> Cell:
    """How to take a value out of a column of a batch; a text that is too long is not made."""
    if not _is_text(array.type):
        return lambda row: array[row].as_py()
    if pa.types.is_dictionary(array.type):
        indices, values = array.indices, _as_bytes(array.dictionary)
    else:
        indices, values = None, _as_bytes(array)
    sizes = pc.binary_length(values)

    def text(row: int) -> str | None:
        place: int | None = row if indices is None else indices[row].as_py()
        size = None if place is None else sizes[place].as_py()
        if size is None:
            return None
        if size > limit:
            raise _Bad(f"has {size} bytes, more than {limit}", "page_too_large")
        try:
            return str(values[place].as_py(), "utf-8")
        except UnicodeDecodeError as error:
            raise _Bad(f"is not UTF-8 at its byte {error.start}", None) from error

    return text


def _as_bytes(array: pa.Array) -> pa.Array:
    """The same values, not taken for strings."""
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    return array.view(pa.large_binary() if large else pa.binary())
