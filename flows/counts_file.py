"""Counts by language from any file that holds them: CSV, TSV, JSON, a run's own tables."""

from __future__ import annotations

import csv
import difflib
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.count_values import UNNAMED, integer, meant_as_count, number, short, whole
from pipelines.core.config import ConfigError
from pipelines.core.languages import normalise
from pipelines.rebalance import sizes_by_language

LANGUAGE_NAMES = ("language", "lang", "tag", "code", "locale")
PREFERRED = "sentences"
"""What p counts in XLM-R, taken where a file has several counts and none is asked for."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks."""
LARGEST_FILE = 2**26
"""Bytes; a file of counts by language is a millionth of it."""


@dataclass(frozen=True)
class Counts:
    """Counts of one unit by language."""

    counts: dict[str, int]
    """n by language; 0 is possible."""
    unit: str
    """What is counted, as far as the file or the person says."""
    units: tuple[str, ...]
    """All that the file counts."""


def read_counts(name: str, unit: str | None = None) -> Counts:
    """Read a file of counts; `-` is the standard input.

    Forms: CSV or TSV, with a header or without, the language first or in a column `language`; JSON
    as {"sw": 12}, {"sw": {"sentences": 12}}, [{"language": "sw", "count": 12}], a run's balance
    table or the record of one of its stages.

    A language's tag is read as a run reads it: `EN` is `en`, `swh` is `sw`. What is no tag stays as
    it is.

    Args:
        unit: which count, where the file has several; the name of the count, where it has one.

    Raises:
        ConfigError: the file cannot be read, or a value in it is wrong: file, line and value.
    """
    text = _text(name)
    if not text.strip():
        raise ConfigError(f"{name}: empty; need a language and a count a line, or JSON")
    table = _from_json(name, text) if text.lstrip()[:1] in "{[" else _from_lines(name, text)
    cells = [row.cells for row in table.values()]
    units = tuple(dict.fromkeys(key for row in cells for key, value in row.items() if whole(value)))
    if unit is None:
        _check_columns(table)
    if unit is not None and any(unit in row for row in cells):
        chosen, label = unit, unit
    else:
        chosen, label = _choose(name, units or tuple(cells[0]), unit)
    counts = {}
    for language, row in table.items():
        if chosen not in row.cells:
            raise ConfigError(f"{row.where}: no count of {chosen} for {language!r}")
        counts[language] = number(f"{row.where}: {chosen}", row.cells[chosen])
    return Counts(counts, label, units)


@dataclass(frozen=True)
class _Row:
    where: str
    """File and line, or entry."""
    cells: Mapping[str, Any]
    """Values by column, without the language; those that are no counts too."""


Table = dict[str, _Row]
"""What is said of each language."""


def _text(name: str) -> str:
    try:
        if name == "-" and sys.stdin is None:
            raise ConfigError("-: the standard input is closed")
        if name == "-":
            content = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
    except ConfigError:
        raise
    except ValueError as error:  # a NUL in the name
        raise ConfigError(f"{name!r}: cannot be read: {error}") from None
    if len(content) > LARGEST_FILE:
        raise ConfigError(f"{name}: more than {LARGEST_FILE:,} bytes; need a table of counts")
    halves = [content[odd:200:2] for odd in (0, 1)]
    if content[:2] in UTF_16 or any(half.count(0) * 2 > len(half) for half in halves):
        raise ConfigError(f"{name}: looks like UTF-16 (Excel's Unicode text); save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: byte {error.start} is not UTF-8") from None


def _check_columns(table: Table) -> None:
    """Refuse a column of counts that cannot be read, or another would be taken in its place.

    An empty cell is no such thing, but where it would be taken first.
    """
    for row in table.values():
        for column, value in row.cells.items():
            blank = value in ("", None) and column != PREFERRED
            if not blank and meant_as_count(column, value):
                number(f"{row.where}: {column}", value)


def _choose(name: str, units: tuple[str, ...], unit: str | None) -> tuple[str, str]:
    """The count to take, and what it is called."""
    if len(units) == 1 and units[0] in UNNAMED:
        return units[0], unit or "texts"
    if unit is not None:
        near = difflib.get_close_matches(unit, units, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(units)}"
        raise ConfigError(f"--unit {unit!r}: {name} has no such count; {hint}")
    if len(units) == 1 or PREFERRED in units:
        found = units[0] if len(units) == 1 else PREFERRED
        return found, found
    raise ConfigError(f"{name} has several counts, {', '.join(units)}: choose one with --unit")


def _from_lines(name: str, text: str) -> Table:
    first = text.lstrip().partition("\n")[0]
    # A semicolon goes before a comma: the comma of `de;1,5` belongs to the number.
    delimiter = next((mark for mark in "\t;," if mark in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    header: list[str] = []
    table: Table = {}
    for cells in _lines(name, reader):
        where = f"{name}, line {reader.line_num}"
        row = [cell.strip() for cell in cells]
        if not any(row):
            continue
        if not header:
            names = _header(where, row)
            header = names or ["language", "count"]
            if names:
                continue
        if len(row) != len(header):
            raise ConfigError(f"{where}: {len(row)} columns in {row}; need {', '.join(header)}")
        values = dict(zip(header, row, strict=True))
        language = next(values.pop(key) for key in (*LANGUAGE_NAMES, header[0]) if key in values)
        _add(table, language, where, values)
    if not table:
        raise ConfigError(f"{name}: a header and no line of counts")
    return table


def _lines(name: str, reader: Any) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise ConfigError(f"{name}, line {reader.line_num}: {error}") from None


def _header(where: str, row: list[str]) -> list[str] | None:
    """The names of the columns; None where the first line is a line of counts already."""
    if len(row) < 2:
        raise ConfigError(f"{where}: {row[0]!r}; need a language and a count, separated by a comma")
    names = [cell.lower() for cell in row]
    if not set(names).isdisjoint(LANGUAGE_NAMES) and not any(map(whole, row)):
        if len(set(names)) != len(row):
            raise ConfigError(f"{where}: a column is named twice: {', '.join(row)}")
        return names
    if len(row) > 2:
        raise ConfigError(f"{where}: {len(row)} columns; need a header with a column `language`")
    return None


def _from_json(name: str, text: str) -> Table:
    try:
        content = json.loads(text, object_pairs_hook=_once, parse_int=integer)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}, line {error.lineno}: not JSON: {error.msg}") from None
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{name}: JSON nested too deeply; need counts by language") from None
    table: Table = {}
    for where, language, cells in _entries(name, content):
        _add(table, language, where, cells)
    if not table:
        raise ConfigError(f"{name}: no counts by language in it")
    return table


def _entries(name: str, content: Any) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Where, which language and which values, of each language in a JSON file."""
    if isinstance(content, dict) and isinstance(content.get("counters"), dict):
        for language, sizes in sizes_by_language(content["counters"]).items():
            yield f"{name}, counters", language, sizes
        return
    if isinstance(content, dict) and isinstance(content.get("rows"), list):
        _check_own(name, content, "excluded")
        content = [*content["rows"], *content.get("excluded", [])]
    if isinstance(content, dict):
        _check_own(name, content, "rows", "counters")
        for language, row in content.items():
            yield (
                f"{name}, {language!r}",
                language,
                row if isinstance(row, dict) else {"count": row},
            )
        return
    for place, row in enumerate(content, 1):
        where = f"{name}, entry {place}"
        key = next((k for k in LANGUAGE_NAMES if isinstance(row, dict) and k in row), None)
        if key is None:
            raise ConfigError(f'{where}: {short(row)}; need {{"language": …, "count": …}}')
        yield where, row[key], {unit: row[unit] for unit in row if unit != key}


def _check_own(name: str, content: dict[str, Any], *keys: str) -> None:
    """Refuse keys of this project's own tables with values that these tables never have."""
    for key in keys:
        if key in content and not isinstance(content[key], list):
            wanted = "counters by name" if key == "counters" else "a list of languages"
            raise ConfigError(f"{name}: {key} = {short(content[key])}; need {wanted}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return found


def _add(table: Table, language: Any, where: str, cells: Mapping[str, Any]) -> None:
    if not isinstance(language, str) or not language.strip():
        raise ConfigError(f"{where}: {short(language)} is not a language")
    tag = folded(language)
    if tag in table:
        read = "" if tag == language else f", read as {tag!r},"
        raise ConfigError(f"{where}: {language!r}{read} was there already: {table[tag].where}")
    if not cells:
        raise ConfigError(f"{where}: no count")
    table[tag] = _Row(where, cells)


def folded(language: str) -> str:
    """A language's tag as a run writes it; what is no tag (BCP 47) stays, without outer blanks."""
    language = language.strip()
    with suppress(ValueError):
        return normalise(language)
    return language
