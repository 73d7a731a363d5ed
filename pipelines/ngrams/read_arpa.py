"""Read ARPA files; whatever is wrong in them is named with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, NoReturn

import numpy as np
import numpy.typing as npt

from pipelines.ngrams.arpa import LogModel, compressed
from pipelines.ngrams.tables import BOS, EOS, SPECIALS, UNK, Ints, Tables, lookup

MISSING_UNK = -100.0
"""Log10 of <unk> in a file without it; kenlm's."""
LINES_AT_ONCE = 1 << 16

Fields = list[bytes]


class ArpaError(ValueError):
    """A file is not ARPA; the message names file and line."""


class _Lines:
    """The lines of a file with their numbers, for errors."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.number = path, 0
        self._lines = iter(file)

    def next(self) -> bytes:
        """The next line without its end; an error at the end of the file."""
        found = self.take(1)
        if not found:
            raise self.error("the file ends before \\end\\", self.number + 1)
        return found[0]

    def take(self, size: int) -> list[bytes]:
        """At most so many next lines, without their ends."""
        found = [line.rstrip(b"\r\n") for line in islice(self._lines, size)]
        self.number += len(found)
        return found

    def next_filled(self) -> bytes:
        """The next line that is not blank."""
        while not (line := self.next()).strip():
            pass
        return line

    def error(self, what: str, number: int | None = None) -> ArpaError:
        """An error at a line, the last one that was read where none is given."""
        return ArpaError(f"{self.path}, line {number or self.number}: {what}")


@dataclass
class _Rows:
    """The n-grams of one order as they stand in the file, from line `first` on."""

    first: int
    words: npt.NDArray[np.int64]
    """Shape (rows, order). For order 1 these number the lines."""
    probabilities: npt.NDArray[np.float64]
    backoffs: npt.NDArray[np.float64]


def read_arpa(path: Path) -> LogModel:
    """Read an ARPA file (`.gz`: compressed), in any order of lines.

    A file without <unk> gets it with log10 -100, as in kenlm.

    Raises:
        ArpaError: the file is not ARPA, a count of the header is wrong, an n-gram comes twice or
            without its prefix, or <s> or </s> is missing; with the line.
    """
    with path.open("rb") as raw:
        lines = _Lines(path, compressed(raw, path, "rb"))
        sizes = _read_header(lines)
        model = _read_unigrams(lines, sizes[0], last=len(sizes) == 1)
        ids = {token.encode(): number for token, number in model.tables.ids.items()}
        for order, size in enumerate(sizes[1:], start=2):
            rows = _read_section(lines, order, size, order == len(sizes), ids)
            _add_order(lines, model, order, rows)
        if lines.next_filled() != b"\\end\\":
            raise lines.error("\\end\\ is expected here")
    return model


def _read_header(lines: _Lines) -> list[int]:
    while lines.next() != b"\\data\\":
        pass  # what stands before is comment
    sizes: list[int] = []
    while (line := lines.next()).strip():
        name, _, size = line.partition(b"=")
        if name.split() != [b"ngram", b"%d" % (len(sizes) + 1)] or not size.strip().isdigit():
            raise lines.error(f"{_shown(line)} should be 'ngram {len(sizes) + 1}=' and a number")
        sizes.append(int(size))
    if not sizes:
        raise lines.error("the header names no order")
    return sizes


def _shown(line: bytes) -> str:
    return repr(line.decode("utf-8", errors="backslashreplace"))


def _section_lines(lines: _Lines, order: int, size: int) -> Iterator[list[Fields]]:
    """The fields of an order's lines, many at a time."""
    if lines.next_filled() != b"\\%d-grams:" % order:
        raise lines.error(f"\\{order}-grams: is expected here")
    seen = 0
    while seen < size:
        chunk = lines.take(min(LINES_AT_ONCE, size - seen))
        for number, line in enumerate(chunk):
            if not line or line[0] == 92 or line.isspace():  # 92 is a backslash
                what = f"{size} n-grams of order {order} are announced, {seen + number} are here"
                raise lines.error(what, lines.number - len(chunk) + 1 + number)
        if not chunk:
            raise lines.error(f"the file ends, {size - seen} n-grams of order {order} missing")
        yield [line.replace(b"\t", b" ").split(b" ") for line in chunk]
        seen += len(chunk)
    if lines.next().strip():
        raise lines.error(f"more than the {size} n-grams of order {order} that are announced")


def _numbers(
    lines: _Lines, order: int, last: bool, chunk: Sequence[Fields]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Probabilities and backoffs of some lines, checked; no backoff is 0."""
    try:
        probabilities = np.array([float(fields[0]) for fields in chunk])
        backoffs = np.array(
            [float(fields[-1]) if len(fields) == order + 2 else 0.0 for fields in chunk]
        )
    except ValueError:
        _refuse(lines, order, last, chunk)
    lengths = {len(fields) for fields in chunk}
    right = lengths <= ({order + 1} if last else {order + 1, order + 2})
    if not right or not (probabilities <= 0).all() or not np.isfinite(backoffs).all():
        _refuse(lines, order, last, chunk)
    return probabilities, backoffs


def _refuse(lines: _Lines, order: int, last: bool, chunk: Sequence[Fields]) -> NoReturn:
    """Find the line that is wrong, and say how."""
    for number, fields in enumerate(chunk, start=lines.number - len(chunk) + 1):
        line = _shown(b" ".join(fields))
        if len(fields) - order - 1 not in ((0,) if last else (0, 1)):
            raise lines.error(f"{order} word(s) beside the numbers are expected: {line}", number)
        try:
            probability = float(fields[0])
            backoff = float(fields[-1]) if len(fields) == order + 2 else 0.0
        except ValueError:
            raise lines.error(f"numbers are expected beside the words: {line}", number) from None
        if not probability <= 0:
            raise lines.error(f"log10 of a probability must be 0 or less: {line}", number)
        if not np.isfinite(backoff):
            raise lines.error(f"a backoff must be finite: {line}", number)
    raise AssertionError("every line is right")


def _read_unigrams(lines: _Lines, size: int, last: bool) -> LogModel:
    probabilities: list[npt.NDArray[np.float64]] = []
    backoffs: list[npt.NDArray[np.float64]] = []
    words: list[str] = []
    first = 0
    for chunk in _section_lines(lines, 1, size):
        begin = lines.number - len(chunk) + 1
        first = first or begin
        found = _numbers(lines, 1, last, chunk)
        probabilities.append(found[0])
        backoffs.append(found[1])
        for number, fields in enumerate(chunk, start=begin):
            try:
                words.append(fields[1].decode("utf-8"))
            except UnicodeDecodeError as error:
                raise lines.error(f"not UTF-8: {error.reason}", number) from None
    for special in (BOS, EOS):
        if special not in words:
            raise lines.error(f"{special} is not among the words above")
    if UNK not in words:
        words.append(UNK)
        probabilities.append(np.array([MISSING_UNK]))
        backoffs.append(np.zeros(1))
    tables = Tables([*SPECIALS, *sorted(set(words) - set(SPECIALS))], [])
    ids = np.array([tables.ids[word] for word in words], dtype=np.int64)[:, None]
    model = LogModel(tables, [], [])
    rows = _Rows(first, ids, np.concatenate(probabilities), np.concatenate(backoffs))
    _add_order(lines, model, 1, rows)
    return model


def _read_section(lines: _Lines, order: int, size: int, last: bool, ids: dict[bytes, int]) -> _Rows:
    first = 0
    words = [np.zeros((0, order), dtype=np.int64)]
    probabilities, backoffs = [np.zeros(0)], [np.zeros(0)]
    for chunk in _section_lines(lines, order, size):
        begin = lines.number - len(chunk) + 1
        first = first or begin
        found = _numbers(lines, order, last, chunk)
        probabilities.append(found[0])
        backoffs.append(found[1])
        try:
            flat = [ids[word] for fields in chunk for word in fields[1 : order + 1]]
        except KeyError:
            at = next(n for n, fields in enumerate(chunk) if {*fields[1 : order + 1]} - ids.keys())
            what = f"a word of {_shown(b' '.join(chunk[at]))} is not among the 1-grams"
            raise lines.error(what, begin + at) from None
        words.append(np.array(flat, dtype=np.int64).reshape(-1, order))
    return _Rows(
        first, np.concatenate(words), np.concatenate(probabilities), np.concatenate(backoffs)
    )


def _add_order(lines: _Lines, model: LogModel, order: int, rows: _Rows) -> None:
    tables, keys = model.tables, rows.words[:, 0]

    def refuse(at: int, what: str) -> NoReturn:
        gram = " ".join(tables.vocabulary[word] for word in rows.words[at].tolist())
        raise lines.error(f"{gram!r} {what}", rows.first + at)

    for number in range(1, order):
        keys = keys * tables.size + rows.words[:, number]
        if number < order - 1:
            keys = lookup(tables.keys[number], keys)
            if (keys < 0).any():
                refuse(int(np.argmin(keys)), f"is here, but its first {number + 1} words are not")
    sequence: Ints = np.argsort(keys, kind="stable")
    keys = keys[sequence]
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        refuse(int(sequence[twice[0] + 1]), "comes twice")
    tables.keys.append(keys)
    model.probabilities.append(rows.probabilities[sequence])
    model.backoffs.append(rows.backoffs[sequence])
