"""Text to counted words: the form in which a corpus of any size fits a vocabulary trainer.

A piece of a SentencePiece vocabulary crosses neither a blank nor the border between two scripts
(punctuation and digits count as a script of their own). What a Unigram model makes of a text is
therefore the sum over its *spans*, the stretches between such borders, and a table of distinct
spans with their counts holds all that training needs. Spans repeat far more than lines or words
with their punctuation do, in scripts without blanks too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from fontTools.unicodedata import script as script_of_character

from pipelines.core.words import BLANK_SIGN

MAX_SPAN_CHARACTERS = 32
"""Longer spans are cut: a piece has at most 16 characters, and unspaced text has long spans."""
BATCH_CHARACTERS = 1 << 16
WORD_COUNTS = pa.schema([("word", pa.string()), ("count", pa.int64())])

WordCounts: TypeAlias = pa.Table
"""Columns `word` (normalised; begins with "▁" where a word begins) and `count`."""

_ANY, _INHERITED = 0, 1
_FIXED_CODES = {"Zinh": _INHERITED, "Hira": 2, "Kana": 2, "Hani": 2, "Zyyy": 3}
_START = ord(BLANK_SIGN)
_LONG_SOUND_MARK = 0x30FC


class Normalizer(Protocol):
    """What is needed of sentencepiece.SentencePieceNormalizer, with escape_whitespaces on."""

    def normalize(self, text: str) -> str:
        """The normalised text, blanks written "▁"."""
        ...


def count_words(texts: Iterable[str], normalizer: Normalizer) -> WordCounts:
    """Count the spans of texts, each text once.

    Args:
        texts: documents or lines; the end of a line ends a word.
        normalizer: of the vocabulary's rule, with add_dummy_prefix, escape_whitespaces and
            remove_extra_whitespaces.

    Returns:
        Distinct spans sorted by code points, with their counts.
    """
    words: Counter[str] = Counter()
    for lines in _batches(texts):
        # A blank for the end of a line: not every rule makes one of it.
        words.update(normalizer.normalize(" ".join(lines)).split(BLANK_SIGN))
    return split_spans(words_table(words))


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lines of several texts at a time, because a call to the normaliser costs time of its own."""
    lines: list[str] = []
    size = 0
    for text in texts:
        lines += text.splitlines()
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield lines
            lines, size = [], 0
    yield lines


def words_table(words: Counter[str]) -> WordCounts:
    """A table of whole words, each given without its "▁"; the empty word is left out."""
    words.pop("", None)
    table = pa.table([list(words), list(words.values())], schema=WORD_COUNTS)
    marked = pc.binary_join_element_wise(BLANK_SIGN, table["word"], "")
    return table.set_column(0, WORD_COUNTS.field(0), marked)


def merge_counts(tables: Sequence[WordCounts]) -> WordCounts:
    """The sum of several tables, sorted by word: the order of the tables does not matter."""
    whole = pa.concat_tables([WORD_COUNTS.empty_table(), *tables])
    summed = whole.group_by("word").aggregate([("count", "sum")])
    ordered = summed.rename_columns(["word", "count"]).sort_by("word").select(["word", "count"])
    return ordered.cast(WORD_COUNTS).combine_chunks()


def split_spans(words: WordCounts) -> WordCounts:
    """Cut words at borders of scripts, at control characters and at MAX_SPAN_CHARACTERS.

    Control characters (tab and NUL among them) go: no piece can hold them. Splitting twice is
    splitting once. The result is merged and sorted.
    """
    words = words.filter(pc.not_equal(words["word"], ""))
    if not len(words):
        return WORD_COUNTS.empty_table()
    text, starts = joined(words["word"])
    codes = codes_of(text)
    cut = border_mask(codes, starts)
    control = (codes < 0x20) | ((codes >= 0x7F) & (codes < 0xA0))
    cut |= control
    cut[1:] |= control[:-1]
    cut |= _every(MAX_SPAN_CHARACTERS, cut)
    begins = np.flatnonzero(cut)
    kept = ~control[begins]
    ends = np.append(begins[1:], len(codes))
    # A span that is only the mark of a word's beginning before a control character goes as well.
    kept &= (ends - begins > 1) | (codes[begins] != _START)
    owners = np.searchsorted(starts, begins, side="right") - 1
    counts = words["count"].to_numpy()[owners]
    spans = _slices(text, codes, begins)
    table = pa.table([spans, pa.array(counts)], schema=WORD_COUNTS)
    return merge_counts([table.filter(pa.array(kept))])


def joined(words: pa.ChunkedArray) -> tuple[str, npt.NDArray[np.int64]]:
    """All words in one text, and where each begins in it, in characters."""
    lengths = pc.utf8_length(words).to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    return "".join(words.to_pylist()), starts


def codes_of(text: str) -> npt.NDArray[np.uint32]:
    """Code points of a text, shape (characters,)."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4").astype(np.uint32, copy=False)


def border_mask(
    codes: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Where a new span begins, shape (characters,).

    The rule is SentencePiece's for pieces (split_by_unicode_script): a character without a script
    of its own takes that of the one before; Hiragana, Katakana and Han are one; "▁" goes with what
    follows it.

    Args:
        codes: code points of words, one after the other.
        starts: index of each word's first character.
    """
    cut = np.zeros(len(codes), dtype=np.bool_)
    cut[starts] = True
    cut |= codes == _START
    scripts = _scripts(codes)
    own = scripts != _INHERITED
    own |= cut  # nothing to inherit from at a word's beginning
    scripts = np.where(scripts == _INHERITED, _ANY, scripts)
    last_own = np.maximum.accumulate(np.where(own, np.arange(len(codes)), 0))
    scripts = scripts[last_own]
    changes = (scripts[1:] != scripts[:-1]) & (scripts[1:] != _ANY) & (scripts[:-1] != _ANY)
    cut[1:] |= changes
    return cut


def _scripts(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """A small number for the script of each character."""
    distinct = np.flatnonzero(np.bincount(codes))
    table = np.zeros(int(distinct[-1]) + 1, dtype=np.uint8)
    table[distinct] = [_script_number(int(code)) for code in distinct]
    return table[codes]


@lru_cache(maxsize=1 << 17)
def _script_number(code: int) -> int:
    if code == _START:
        return _ANY
    if code == _LONG_SOUND_MARK:
        return _FIXED_CODES["Hani"]
    name = script_of_character(chr(code))
    return _FIXED_CODES.get(name) or _numbers().setdefault(name, 4 + len(_numbers()))


@lru_cache(maxsize=1)
def _numbers() -> dict[str, int]:
    return {}


def _every(most: int, cut: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """True at every `most`-th character of a span."""
    index = np.arange(len(cut))
    begin = np.maximum.accumulate(np.where(cut, index, 0))
    return np.asarray((index - begin) % most == 0)


def _slices(
    text: str, codes: npt.NDArray[np.uint32], begins: npt.NDArray[np.int64]
) -> pa.LargeStringArray:
    """The stretches of a text between the given beginnings, without making Python strings."""
    widths = 1 + (codes > 0x7F) + (codes > 0x7FF) + (codes > 0xFFFF)
    at = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    offsets = np.append(at[begins], at[-1])
    spans = pa.LargeStringArray.from_buffers(
        len(begins), pa.py_buffer(offsets), pa.py_buffer(text.encode("utf-8"))
    )
    return spans.cast(pa.string())
