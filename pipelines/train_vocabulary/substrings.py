"""Maximal substrings of counted spans, by sorting suffixes with NumPy.

A suffix array of limited depth: no substring here is longer than a piece. What SentencePiece finds
with one of its own, 20 bytes a character of text, is found in distinct spans only, each weighted.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pipelines.train_vocabulary.word_counts import WordCounts, codes_of, joined

MAX_PIECE_CHARACTERS = 16
"""Longest piece; SentencePiece's max_sentencepiece_length."""

Ints = npt.NDArray[np.int64]
Packed = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class NumberedText:
    """All spans as small numbers, one after the other, a 0 before and after each."""

    characters: npt.NDArray[np.uint32]
    weights: Ints
    alphabet: npt.NDArray[np.uint32]

    @property
    def bits(self) -> np.uint64:
        """Bits of a character's number."""
        return np.uint64(len(self.alphabet).bit_length())

    @property
    def last(self) -> np.uint64:
        """Mask of the last one of packed characters."""
        return (np.uint64(1) << self.bits) - np.uint64(1)


@dataclass(frozen=True)
class Substrings:
    """Where substrings begin in the text, and their lengths and weighted counts; all (n,)."""

    starts: Ints
    lengths: Ints
    counts: Ints

    def __getitem__(self, chosen: Ints) -> Substrings:
        return Substrings(self.starts[chosen], self.lengths[chosen], self.counts[chosen])


def numbered_text(spans: WordCounts) -> NumberedText:
    """Characters by rank in the alphabet (from 1), each with the count of its span."""
    text, starts = joined(spans["word"])
    codes = codes_of(text)
    alphabet = np.flatnonzero(np.bincount(codes))
    table = np.zeros(int(alphabet[-1]) + 1, dtype=np.uint32)
    table[alphabet] = np.arange(1, len(alphabet) + 1)
    lengths = np.diff(np.append(starts, len(codes)))
    at = np.arange(len(codes)) + 1 + np.repeat(np.arange(len(starts)), lengths)
    beyond = MAX_PIECE_CHARACTERS + 64  # so that looking ahead needs no test for the end
    characters = np.zeros(len(codes) + len(starts) + 1 + beyond, np.uint32)
    characters[at] = table[codes]
    weights = np.zeros(len(characters), dtype=np.int64)
    weights[at] = np.repeat(spans["count"].to_numpy(), lengths)
    return NumberedText(characters, weights, np.append(0, alphabet).astype(np.uint32))


def maximal_substrings(text: NumberedText, min_count: int, threads: int = 1) -> Substrings:
    """All substrings of 2 to 16 characters that are maximal and frequent enough.

    Suffixes are sorted by a few characters at a time, as many as fit 64 bits; suffixes that begin
    with other characters never meet again, so threads take ranges of first characters.
    """
    step = 64 // int(text.bits)
    packed = _pack(text, step)
    shares = _ranges_of_first_characters(text, threads)
    ranks = np.zeros(len(packed), dtype=np.uint32)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(lambda share: _by_first_characters(text, packed, *share), shares))
        used = 0
        for at, new in parts:
            ranks[at] = np.cumsum(new) + used
            used += int(np.count_nonzero(new))
        rounds = pool.map(lambda part: _rounds(text, packed, ranks, min_count, *part), parts)
        found = [substrings for part in rounds for substrings in part]
    columns = [(part.starts, part.lengths, part.counts) for part in found]
    empty = np.zeros(0, dtype=np.int64)
    return Substrings(*(np.concatenate([empty, *c]) for c in zip(*columns, strict=True)))


def _ranges_of_first_characters(text: NumberedText, parts: int) -> list[tuple[int, int]]:
    """Ranges [low, high) of character numbers that about equally many suffixes begin with."""
    sizes = np.bincount(text.characters, minlength=len(text.alphabet))
    sizes[0] = 0
    ends = np.searchsorted(np.cumsum(sizes), sizes.sum() * np.arange(1, parts) / parts) + 1
    bounds = [1, *ends.tolist(), len(text.alphabet)]
    return list(pairwise(bounds))


def _by_first_characters(
    text: NumberedText, packed: Packed, low: int, high: int
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Suffixes that begin with characters low ... high - 1, sorted, and where they change."""
    at = np.flatnonzero((text.characters >= low) & (text.characters < high))
    at = at[np.argsort(packed[at])]
    return at, _differs(packed[at])


def _rounds(
    text: NumberedText,
    packed: Packed,
    ranks: npt.NDArray[np.uint32],
    min_count: int,
    at: Ints,
    new: npt.NDArray[np.bool_],
) -> list[Substrings]:
    """Maximal substrings that begin where the sorted suffixes `at` do.

    After each round, suffixes whose characters so far are too rare are left out; most of a text
    goes early.

    Args:
        ranks: numbers of the packed characters, in their order within a share of suffixes; equal
            for equal ones. Shape (characters,).
    """
    step = 64 // int(text.bits)
    group = np.zeros(len(at), dtype=np.uint64)
    found = []
    for done in range(0, MAX_PIECE_CHARACTERS, step):
        if not len(at):
            break
        bounds = np.flatnonzero(new)
        groups = _Groups.of(text, at, bounds, group[bounds], packed[at[bounds] + done], done + step)
        frequent = (groups.counts >= min_count) & groups.inside(text)
        for depth in range(done + step, max(done, 1), -1):
            if depth <= MAX_PIECE_CHARACTERS:
                found.append(groups.maximal(text, depth, min_count))
            groups = groups.shorter(text)
        sizes = np.diff(np.append(bounds, len(at)))
        at = at[np.repeat(frequent, sizes)]
        number = np.arange(np.count_nonzero(frequent), dtype=np.uint64)
        group = np.repeat(number, sizes[frequent])
        keys = (group << np.uint64(32)) | ranks[at + done + step]
        order = np.argsort(keys)
        at, group, new = at[order], group[order], _differs(keys[order])
    return found


def _differs(values: Packed) -> npt.NDArray[np.bool_]:
    """Where a sorted array has a new value."""
    new = np.ones(len(values), dtype=np.bool_)
    new[1:] = values[1:] != values[:-1]
    return new


def _pack(text: NumberedText, step: int) -> Packed:
    """The next `step` characters from each position in one number; 0 after the span's end."""
    size = len(text.characters)
    packed = text.characters.astype(np.uint64)
    alive = packed > 0
    for ahead in range(1, step):
        following = np.zeros(size, dtype=np.uint64)
        following[: size - ahead] = text.characters[ahead:]
        alive &= following > 0
        packed = (packed << text.bits) | np.where(alive, following, np.uint64(0))
    return packed


@dataclass(frozen=True)
class _Groups:
    """Sorted suffixes that begin alike, one entry a group; all arrays (groups,)."""

    parent: Packed
    """The group of the round before."""
    prefix: Packed
    """The characters of this round, packed."""
    first: Ints
    counts: Ints
    before: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]
    """Least and greatest character before; equal ones tell that all are the same."""
    after: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]

    @staticmethod
    def of(
        text: NumberedText, at: Ints, bounds: Ints, parent: Packed, prefix: Packed, depth: int
    ) -> _Groups:
        """Groups of suffixes `at` that begin at `bounds` and are alike for `depth` characters."""
        before, after = text.characters[at - 1], text.characters[at + depth]
        return _Groups(
            parent,
            prefix,
            at[bounds],
            np.add.reduceat(text.weights[at], bounds),
            (np.minimum.reduceat(before, bounds), np.maximum.reduceat(before, bounds)),
            (np.minimum.reduceat(after, bounds), np.maximum.reduceat(after, bounds)),
        )

    def inside(self, text: NumberedText) -> npt.NDArray[np.bool_]:
        """Which groups have all their characters inside of a span."""
        return (self.prefix & text.last) > 0

    def maximal(self, text: NumberedText, depth: int, min_count: int) -> Substrings:
        """Those that are maximal substrings."""
        good = (self.counts >= min_count) & self.inside(text)
        for least, most in (self.before, self.after):
            good &= (least != most) | (most == 0)
        starts = self.first[good]
        return Substrings(starts, np.full(len(starts), depth, dtype=np.int64), self.counts[good])

    def shorter(self, text: NumberedText) -> _Groups:
        """The groups by one character less."""
        prefix = self.prefix >> text.bits
        bounds = np.flatnonzero(_differs(prefix) | _differs(self.parent))
        ends = np.append(bounds[1:], len(prefix)) - 1
        after = (self.prefix & text.last).astype(np.uint32)
        least, most = self.before
        return _Groups(
            self.parent[bounds],
            prefix[bounds],
            self.first[bounds],
            np.add.reduceat(self.counts, bounds),
            (np.minimum.reduceat(least, bounds), np.maximum.reduceat(most, bounds)),
            (after[bounds], after[ends]),  # groups are sorted by it
        )
