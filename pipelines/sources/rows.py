"""Rows of JSONL and Parquet files, and whole text files, as pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core.manifest import Counters
from pipelines.sources.base import RawPage, replace_surrogates
from pipelines.sources.fetch import FetchError
from pipelines.sources.file_formats import BOM, DAMAGE, open_bytes

NOTES_PER_FILE = 10
"""More bad lines are told as a number."""
LINE_BYTES = 8
"""A line of JSON may be so many times longer than the largest page (\\uXXXX escapes)."""
ROWS_PER_BATCH = 256
KEPT_FIELDS = ("id", "title", "date", "timestamp")


@dataclass(frozen=True)
class Columns:
    """Which fields of a row hold what."""

    text: str
    url: str | None = None

    def among(self, fields: list[str]) -> list[str]:
        """The fields to read, of those that are there."""
        wanted = {self.text, self.url, *KEPT_FIELDS}
        return [field for field in fields if field in wanted]


class BadLines:
    """Counts bad lines and notes the first of them."""

    def __init__(self, name: str, counters: Counters, notes: list[str]) -> None:
        self._name, self._counters, self._notes = name, counters, notes
        self._bad = 0

    def add(self, line: int, problem: str) -> None:
        """Count one, by its number from 1."""
        self._counters["dropped.bad_line"] += 1
        self._bad += 1
        if self._bad <= NOTES_PER_FILE:
            self._notes.append(f"{self._name}, line {line}: {problem}")

    def close(self) -> None:
        """Tell how many were not noted."""
        if self._bad > NOTES_PER_FILE:
            self._notes.append(f"{self._name}: {self._bad - NOTES_PER_FILE} more bad lines")


def page_of_row(
    row: Mapping[str, Any], number: int, columns: Columns, counters: Counters
) -> RawPage | str:
    """The page of a row, or what is wrong with the row.

    `title`, `date` (or `timestamp`) and `id` are kept where there are such fields.
    """
    text = row.get(columns.text)
    if not isinstance(text, str):
        if columns.text in row:
            return f"{columns.text!r} is {type(text).__name__} and should be a string"
        there = ", ".join(repr(field) for field in list(row)[:20]) or "none"
        return f"there is no field {columns.text!r}; there are: {there}"
    url = row.get(columns.url) if columns.url else None
    date = row.get("date", row.get("timestamp"))
    title = row.get("title")
    page = RawPage(
        url=url if isinstance(url, str) else "",
        offset=number,
        content=replace_surrogates(text, counters).encode("utf-8"),
        content_kind="paragraphs",
        title=title if isinstance(title, str) else None,
        date=replace_surrogates(str(date), counters) if date is not None else None,
    )
    if isinstance(row.get("id"), str | int):
        page.metadata["row_id"] = replace_surrogates(str(row["id"]), counters)
    return page


def read_jsonl_rows(
    path: Path,
    name: str,
    columns: Columns,
    counters: Counters,
    notes: list[str],
    max_page_bytes: int,
) -> Iterator[RawPage]:
    """One page a line; the line's number, from 0, is the offset. Blank lines are passed over.

    A line that is no JSON object with a text is counted (`dropped.bad_line`) and noted with its
    number, from 1. A file that ends early gives what it has (`dropped.truncated_file`).
    """
    bad = BadLines(name, counters, notes)
    with open_bytes(path) as file:
        for number, line in _lines(file, name, counters, notes, LINE_BYTES * max_page_bytes):
            if line is None:
                counters["records"] += 1
                counters["dropped.page_too_large"] += 1
                continue
            if not line.strip():
                continue
            counters["records"] += 1
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                bad.add(number + 1, f"not JSON: {error or 'nested too deep'}")
                continue
            found = (
                page_of_row(row, number, columns, counters)
                if isinstance(row, dict)
                else f"a JSON {type(row).__name__}, not an object"
            )
            if isinstance(found, str):
                bad.add(number + 1, found)
            else:
                yield found
    bad.close()


def _lines(
    file: IO[bytes], name: str, counters: Counters, notes: list[str], limit: int
) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None for one that is longer than `limit`, which is never held whole."""
    number = 0
    while True:
        try:
            line = file.readline(limit + 1)
            whole = len(line) <= limit
            rest = line
            while not whole and rest and not rest.endswith(b"\n"):
                rest = file.readline(2**20)
        except DAMAGE as error:
            counters["dropped.truncated_file"] += 1
            notes.append(f"{name}: ends early or is damaged after line {number}: {error}")
            return
        if not line:
            return
        if number == 0:
            line = line.removeprefix(BOM)
        yield number, line if whole else None
        number += 1


def read_parquet_rows(
    path: Path,
    name: str,
    columns: Columns,
    counters: Counters,
    notes: list[str],
    max_page_bytes: int,
) -> Iterator[RawPage]:
    """One page a row; the row's number is the offset. Rows without text count as bad lines.

    Raises:
        FetchError: the file is no Parquet file (its end is missing, say), or has no such column.
    """
    bad = BadLines(name, counters, notes)
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            fields = file.schema_arrow.names
            if columns.text not in fields:
                raise FetchError(
                    name, f"has no column {columns.text!r}; its columns: {', '.join(fields)}"
                )
            wanted = columns.among(fields)
            for batch in file.iter_batches(batch_size=ROWS_PER_BATCH, columns=wanted):
                for row in batch.to_pylist():
                    counters["records"] += 1
                    found = page_of_row(row, number, columns, counters)
                    number += 1
                    if isinstance(found, str):
                        bad.add(number, found)
                    elif len(found.content) > max_page_bytes:
                        counters["dropped.page_too_large"] += 1
                    else:
                        yield found
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FetchError):
            raise
        if not number:
            raise FetchError(name, f"is not a whole Parquet file: {error}") from error
        counters["dropped.truncated_file"] += 1
        notes.append(f"{name}: damaged after row {number}: {error}")
    bad.close()


def read_whole(
    path: Path,
    name: str,
    url: str,
    kind: Literal["html", "paragraphs"],
    counters: Counters,
    notes: list[str],
    max_page_bytes: int,
) -> Iterator[RawPage]:
    """A file as one page; one that is larger than a page may be is counted and noted."""
    counters["records"] += 1
    try:
        with open_bytes(path) as file:
            content = file.read(max_page_bytes + 1)
    except DAMAGE as error:
        counters["dropped.truncated_file"] += 1
        notes.append(f"{name}: ends early or is damaged: {error}")
        return
    if len(content) > max_page_bytes:
        counters["dropped.page_too_large"] += 1
        notes.append(
            f"{name}: more than extraction.max_page_bytes = {max_page_bytes}; a file is one page "
            '(one document a line: source hugging_face, dataset = "text")'
        )
        return
    yield RawPage(url=url, offset=0, content=content, content_kind=kind)
