"""The pieces that training starts from: substrings of counted spans, the best of them first.

SentencePiece takes them from a suffix array over the text, and by frequency times length (Kudo
2018, section 3.2). Given a table of words, it takes each word type for one occurrence, whatever its
count, and so starts from other pieces. Here a substring counts as often as the spans around it do.

- A substring is taken when it is maximal on both sides: two different characters follow it, or the
  span ends there, and the same before it. Any other one occurs only inside a longer one.
- Its *net* count is its count without that of the most frequent taken substring that is longer by
  something on one side only. "▁benchmar" with 1,000 occurrences, of which 990 are in "▁benchmark",
  is worth 10. Without this, most of the seeds are parts of better seeds, and the first round of
  training, the longest, throws them away.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from pipelines.train_vocabulary.substrings import (
    MAX_PIECE_CHARACTERS,
    Ints,
    NumberedText,
    Packed,
    Substrings,
    maximal_substrings,
    numbered_text,
)
from pipelines.train_vocabulary.word_counts import WORD_COUNTS, WordCounts

MULTIPLIER = 0x9E3779B97F4A7C15
"""Odd, so that it has an inverse modulo 2^64."""


def find_seeds(spans: WordCounts, most: int, min_count: int = 2, threads: int = 1) -> WordCounts:
    """The best substrings of 2 to 16 characters.

    Args:
        spans: see `word_counts.split_spans`. Single characters are no seeds; SentencePiece adds
            every character itself.
        most: how many to return.
        min_count: least weighted count.
        threads: the result does not depend on it.

    Returns:
        Best first: by net count times length, then by code points.
    """
    if not len(spans):
        return WORD_COUNTS.empty_table()
    text = numbered_text(spans)
    found = maximal_substrings(text, min_count, threads)
    scores = (found.counts - _taken_by_longer(text, found, threads)) * found.lengths
    if len(scores) > most:  # everything that ties with the last one stays until the strings decide
        least = np.partition(scores, len(scores) - most)[len(scores) - most]
        chosen = np.flatnonzero(scores >= least)
        found, scores = found[chosen], scores[chosen]
    table = pa.table([_strings(text, found), found.counts, scores], ["word", "count", "score"])
    ordered = table.sort_by([("score", "descending"), ("word", "ascending")])
    return ordered.slice(0, most).drop_columns(["score"]).cast(WORD_COUNTS).combine_chunks()


def _strings(text: NumberedText, found: Substrings) -> list[str]:
    whole = text.alphabet[text.characters].tobytes().decode("utf-32-le")
    ends = (found.starts + found.lengths).tolist()
    return [whole[a:b] for a, b in zip(found.starts.tolist(), ends, strict=True)]


def _taken_by_longer(text: NumberedText, found: Substrings, threads: int) -> Ints:
    """Of each substring, the count of its most frequent extension on one side, shape (n,).

    The extension of a substring on one side is the next longer one among those found.
    """
    key = _Keys(text)
    own = key(found.starts, found.lengths)
    by_key = np.argsort(own)
    known = own[by_key]

    def on_side(left: int) -> Ints:
        taken = np.zeros(len(known), dtype=np.int64)
        rest = np.arange(len(known))
        for shorter in range(1, MAX_PIECE_CHARACTERS - 1):
            rest = rest[found.lengths[rest] - shorter >= 2]
            if not len(rest):
                break
            part = found[rest]
            keys = key(part.starts + left * shorter, part.lengths - shorter)
            order = np.argsort(keys)  # a sorted search is ten times faster than a random one
            keys = keys[order]
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            hit = known[place] == keys
            np.maximum.at(taken, by_key[place[hit]], part.counts[order[hit]])
            rest = rest[order[~hit]]
        return taken

    with ThreadPoolExecutor(threads) as pool:
        right, left = pool.map(on_side, (0, 1))
    return np.maximum(right, left)


class _Keys:
    """64-bit polynomial hashes of substrings of a text; equal substrings have equal ones."""

    def __init__(self, text: NumberedText) -> None:
        size = len(text.characters)
        power = np.full(size, MULTIPLIER, dtype=np.uint64)
        power[0] = 1
        self._inverse = np.full(size, pow(MULTIPLIER, -1, 1 << 64), dtype=np.uint64)
        self._inverse[0] = 1
        self._inverse = np.cumprod(self._inverse)
        mixed = (text.characters.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
        self._sums = np.append(np.uint64(0), np.cumsum(mixed * np.cumprod(power)))

    def __call__(self, starts: Ints, lengths: Ints) -> Packed:
        """Hashes of the substrings that begin at `starts`, shape (n,)."""
        value: Packed = (self._sums[starts + lengths] - self._sums[starts]) * self._inverse[starts]
        return value
