"""What kind of character each code point is, as one table that NumPy looks whole texts up in."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import regex

from pipelines.core.words import UNSPACED_SCRIPTS

LETTER, MARK, NUMBER, BLANK, SYMBOL, UNSPACED, JOINER, INSIDE = 1, 2, 4, 8, 16, 32, 64, 128
"""Bits of a code point's class. JOINER: U+200C and U+200D, part of a word. INSIDE: an apostrophe or
a middle dot, part of a word between two of its characters (UAX #29, MidLetter and MidNumLet).
UNSPACED: a letter or mark of a script that writes no blanks between words."""

WORD = LETTER | MARK | NUMBER | JOINER

CODE_POINTS = 0x110000

Codes = npt.NDArray[np.uint32]
Classes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@cache
def every_code_point() -> str:
    """All code points in order, to ask for a Unicode property of each."""
    return "".join(map(chr, range(CODE_POINTS)))


def _mask_of(pattern: str) -> Mask:
    mask = np.zeros(CODE_POINTS, dtype=np.bool_)
    for run in regex.finditer(f"(?:{pattern})+", every_code_point(), flags=regex.V1):
        mask[run.start() : run.end()] = True
    return mask


@cache
def class_table() -> Classes:
    """The class of every code point (1.1 MB, made once in a process)."""
    unspaced = "".join(rf"\p{{sc={script}}}" for script in UNSPACED_SCRIPTS)
    table = np.zeros(CODE_POINTS, dtype=np.uint8)
    for bit, pattern in (
        (LETTER, r"\p{L}"),
        (MARK, r"\p{M}"),
        (NUMBER, r"\p{N}"),
        (BLANK, r"[\s\x1c-\x1f]"),
        (SYMBOL, r"[\p{S}\p{Co}\p{Cn}]"),
        (UNSPACED, rf"[[{unspaced}]&&[\p{{L}}\p{{M}}]]"),
        (JOINER, r"[\u200c\u200d]"),
        (INSIDE, "['\u2019\u00b7\u05f3\u05f4]"),
    ):
        table[_mask_of(pattern)] |= bit
    return table


@cache
def letters_of(scripts: tuple[str, ...]) -> Mask:
    """Which code points are letters of one of the given Unicode scripts."""
    wanted = "".join(rf"\p{{sc={script}}}" for script in scripts)
    return _mask_of(rf"[[{wanted}]&&\p{{L}}]")


def codes_of(text: str) -> Codes:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(
        np.uint32, copy=False
    )
