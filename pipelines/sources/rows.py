"""Lines of JSONL files, and whole text files, as pages; what rows of any file have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from pipelines.core.manifest import Counters
from pipelines.sources.archives.damage import FileNotes
from pipelines.sources.base import RawPage, replace_surrogates
from pipelines.sources.file_formats import BOM, DAMAGE, lost_bytes, open_bytes

NOTES_PER_FILE = 10
"""More bad lines are told as a number."""
LINE_FACTOR, LINE_MORE = 2, 1_000_000
"""A line of JSON may have so many times the bytes of the largest page, and so many more."""
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
    """Counts bad lines or rows, and notes the first of them."""

    def __init__(
        self, name: str, counters: Counters, notes: list[str], what: Literal["line", "row"] = "line"
    ) -> None:
        self._counters, self._what = counters, what
        self._notes = FileNotes(name, notes, NOTES_PER_FILE)

    def add(self, number: int, problem: str, reason: str | None = None) -> None:
        """Count one, by its number from 1; as `dropped.bad_line` or `bad_row`, or another."""
        self._counters[f"dropped.{reason or f'bad_{self._what}'}"] += 1
        self._notes.add(f", {self._what} {number}: {problem}")

    def close(self) -> None:
        """Tell how many were not noted."""
        self._notes.close(f"more bad {self._what}s")


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
    number, from 1; so is one that is too long (`dropped.page_too_large`). A file that ends early
    gives what it has (`dropped.truncated_file`, counted as one record).
    """
    bad = BadLines(name, counters, notes)
    limit = LINE_FACTOR * max_page_bytes + LINE_MORE
    with open_bytes(path) as file:
        for number, line in _lines(file, name, counters, notes, limit):
            if line is None:
                counters["records"] += 1
                bad.add(number + 1, f"more than {limit} bytes", "page_too_large")
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
            elif len(found.content) > max_page_bytes:
                problem = f"a text of {len(found.content)} bytes, more than {max_page_bytes}"
                bad.add(number + 1, problem, "page_too_large")
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
            counters["records"] += 1
            counters["dropped.truncated_file"] += 1
            counters["bytes_lost"] += lost_bytes(error)
            notes.append(f"{name}: ends early or is damaged after line {number}: {error}")
            return
        if not line:
            return
        if number == 0:
            line = line.removeprefix(BOM)
        yield number, line if whole else None
        number += 1


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
        counters["bytes_lost"] += lost_bytes(error)
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
