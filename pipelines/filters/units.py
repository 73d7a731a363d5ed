"""Words, lines and paragraphs of a text, by Unicode rules and by script.

A word is a run of letters, marks, numbers and joiners, with apostrophes and middle dots inside it
(UAX #29 without its dictionary). In scripts without blanks between words a unit is one letter with
its marks; `per_word` says how many of these make a word, so that thresholds written for words hold.
No segmenter is used: the fastest with models inside (budoux) does 0.5 million characters a second,
four times slower than all filters together, and knows three of these languages.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property, lru_cache
from itertools import count

import numpy as np

from pipelines.core.languages import script_of
from pipelines.core.records import PARAGRAPH_BREAK, Document
from pipelines.filters.characters import (
    BLANK,
    CODE_POINTS,
    INSIDE,
    JOINER,
    LETTER,
    MARK,
    UNSPACED,
    WORD,
    Classes,
    Codes,
    Integers,
    Mask,
    class_table,
    codes_of,
)

UNITS_PER_WORD = {
    "Hans": 1.5,
    "Hant": 1.5,
    "Jpan": 2.0,
    "Yiii": 1.5,
    "Thai": 4.0,
    "Laoo": 4.0,
    "Khmr": 3.5,
    "Mymr": 3.5,
    "Tibt": 3.5,
    "Java": 3.5,
    "Tavt": 3.0,
    "Lana": 2.5,
}
"""Units to one word. Measured on the Universal Declaration of Human Rights: units of the
translation to words of the English text, rounded to halves (the tests of this file repeat it)."""


class Units:
    """One text taken apart; each part is made when it is first asked for."""

    def __init__(self, text: str, language: str) -> None:
        self.text = text
        self.script = script_of(language)
        self.per_word = UNITS_PER_WORD.get(self.script, 1.0)
        """Units that make one word; 1 in scripts with blanks."""
        self.spaced = self.script not in UNITS_PER_WORD

    @cached_property
    def codes(self) -> Codes:
        """Code points, shape (characters,)."""
        return codes_of(self.text)

    @cached_property
    def classes(self) -> Classes:
        """Their classes (pipelines.filters.characters), shape (characters,)."""
        return class_table()[self.codes]

    def count(self, bits: int) -> int:
        """Characters that have one of the class bits."""
        return int(np.count_nonzero(self.classes & bits))

    @cached_property
    def _in_word(self) -> Mask:
        inside: Mask = self.classes & WORD != 0
        apostrophe = self.classes & INSIDE != 0
        if len(inside) > 2 and apostrophe.any():
            between = inside[:-2] & apostrophe[1:-1] & inside[2:]
            inside[1:-1] |= between
        return inside

    @cached_property
    def unit_starts(self) -> Mask:
        """Whether a word, or a unit of a script without blanks, starts at each character."""
        inside, classes = self._in_word, self.classes
        starts = inside.copy()
        if len(inside) < 2:
            return starts
        same_run = inside[1:] & inside[:-1]
        unspaced = classes & UNSPACED != 0
        joined = classes[1:] & (MARK | JOINER) != 0
        own = unspaced[1:] & (classes[1:] & LETTER != 0)  # each letter of an unspaced script
        after = unspaced[:-1] & ~unspaced[1:] & ~joined  # what follows it in another script
        starts[1:] = (inside[1:] & ~inside[:-1]) | (same_run & (own | after))
        return starts

    @cached_property
    def _has_unspaced(self) -> bool:
        return bool((self.classes & UNSPACED).any())

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Words, in order; in scripts without blanks, letters with their marks."""
        if self._has_unspaced:
            return tuple(self._slices(np.flatnonzero(self.unit_starts), self.word_lengths))
        text = np.where(self._in_word, self.codes, np.uint32(ord(" "))).astype("<u4", copy=False)
        return tuple(text.tobytes().decode("utf-32-le", "surrogatepass").split())

    def _slices(self, starts: Integers, lengths: Integers) -> list[str]:
        text, ends = self.text, (starts + lengths).tolist()
        return [text[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]

    @cached_property
    def word_lengths(self) -> Integers:
        """Characters of each word, shape (words,)."""
        starts = np.flatnonzero(self.unit_starts)
        if not len(starts):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(self._in_word, starts, dtype=np.int64)

    @cached_property
    def word_ids(self) -> Integers:
        """A number for each word, from 0 without gaps; equal words have equal numbers."""
        number: defaultdict[str, int] = defaultdict(count().__next__)
        if not self._has_unspaced:
            return np.fromiter(map(number.__getitem__, self.words), np.int64, len(self.words))
        # Most units are one code point, which numbers them without making strings.
        starts, lengths = np.flatnonzero(self.unit_starts), self.word_lengths
        ids = self.codes[starts].astype(np.int64)
        longer = lengths > 1
        slices = self._slices(starts[longer], lengths[longer])
        ids[longer] = CODE_POINTS + np.fromiter(
            map(number.__getitem__, slices), np.int64, len(slices)
        )
        return np.unique(ids, return_inverse=True)[1]

    @cached_property
    def number_of_words(self) -> float:
        """Words; where the script has no blanks, its units are counted by `per_word`."""
        units = len(self.word_lengths)
        if self.per_word == 1.0:
            return units
        unspaced = int(np.count_nonzero(self.unit_starts & (self.classes & UNSPACED != 0)))
        return units - unspaced + unspaced / self.per_word

    @cached_property
    def token_starts(self) -> Integers:
        """Where runs of characters that are no blanks begin."""
        filled = self.classes & BLANK == 0
        starts = filled.copy()
        starts[1:] &= ~filled[:-1]
        return np.flatnonzero(starts)

    @cached_property
    def lines(self) -> list[str]:
        """Lines without the blanks around them; empty ones are left out."""
        return [line for line in map(str.strip, self.text.split("\n")) if line]

    @cached_property
    def paragraphs(self) -> list[str]:
        """Paragraphs without the blanks around them; empty ones are left out."""
        parts = map(str.strip, self.text.split(PARAGRAPH_BREAK))
        return [part for part in parts if part]


@lru_cache(maxsize=4)
def units_of_text(text: str, language: str) -> Units:
    """The units of a text; the last few are kept, because the filters of a chain share them."""
    return Units(text, language)


def units_of(document: Document) -> Units:
    """The units of a document's present text."""
    return units_of_text(document.text, document.language)


def words(text: str, language: str) -> list[str]:
    """The words of a text; in scripts without blanks, its letters with their marks.

    `don't` is one word, `--` is none; joiners and marks stay inside words.
    """
    return list(units_of_text(text, language).words)
