"""Which positions are masked: single tokens, whole words, or spans of words.

Everything here works on a block: several sequences side by side as a matrix, shorter ones padded.
A row's choice depends on its key, its tokens and the rule alone, never on the rows beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipelines.core.hashing import counter_uint32, mix64
from pipelines.core.mask_rules import LONGEST_SPAN_WORDS, Flags, Ids, Keys, MaskingRule

Integers = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]

_LAST = np.uint32(2**32 - 1)
_NO_WORD = 2**20
"""Length of words that are not there: more than any number of tokens to be chosen."""
_SORTED_AT_ONCE = 512
"""Up to this width a whole sort is faster than finding one rank: it fits into the registers."""
_WORDS_AT_ONCE = 8
"""How many words are looked through for the next span's beginning in one step."""
_SPAN_STREAM = np.uint64(0x7370616E)


@dataclass(frozen=True, slots=True)
class Block:
    """Sequences side by side."""

    tokens: Ids
    """Shape (rows, width)."""
    special: Flags
    """Where no ordinary token stands, padding included, shape (rows, width)."""
    keys: Keys
    """Shape (rows,)."""
    wanted: Integers
    """Tokens to choose in each row: max(1, round(rate x ordinary)), 0 without ordinary ones."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is chosen in a block, by row, then by position."""

    counts: Integers
    """Chosen tokens by row, shape (rows,)."""
    places: Integers
    """In the flattened block, shape (chosen,)."""
    positions: Integers
    """In the row."""
    origins: Integers
    """The position whose number decides a token's fate: its own, or its span's first."""


def choose(block: Block, rule: MaskingRule, word_starts: Flags | None) -> Choice:
    """Choose positions by the rule's unit.

    Raises:
        ValueError: words are needed and `word_starts` is not given.
    """
    if rule.unit == "token":
        return choose_tokens(block)
    if word_starts is None:
        raise ValueError(f"masking.unit = {rule.unit} needs to know which pieces begin a word")
    words = words_of(block, word_starts)
    if rule.unit == "word":
        return choose_words(block, words)
    return choose_spans(block, words, rule.mean_span_words)


def choose_tokens(block: Block) -> Choice:
    """The `wanted` ordinary positions of each row with the smallest numbers.

    No two positions of a row have the same number. At a higher rate the same positions are chosen,
    and more.
    """
    rows, width = block.tokens.shape
    numbers = counter_uint32(block.keys[:, None], np.arange(width, dtype=np.uint32))
    numbers.reshape(-1)[np.flatnonzero(block.special)] = _LAST
    last = np.maximum(block.wanted - 1, 0)
    if width <= _SORTED_AT_ONCE:
        ranked = np.sort(numbers, axis=1)
    else:
        ranked = np.partition(numbers, np.unique(last), axis=1)
    largest = ranked[np.arange(rows), last]
    flat = np.flatnonzero(numbers <= largest[:, None])
    if bool((largest == _LAST).any()):  # a row of specials alone, or one chosen to its last token
        flat = flat[~block.special.reshape(-1)[flat]]
    positions = flat - np.repeat(np.arange(0, rows * width, width), block.wanted)
    return Choice(block.wanted, flat, positions, positions)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a block in order; a row with fewer than others is filled up."""

    starts: Integers
    """First position, shape (rows, most words)."""
    lengths: Lengths
    """Tokens; `_NO_WORD` where the row has no more words."""
    numbers: Ids
    """Random, 31 bits: that of the first position, shape (rows, most words)."""


def words_of(block: Block, word_starts: Flags) -> Words:
    """Cut rows into words: at each piece that begins one, at special tokens, at the row's ends."""
    rows, width = block.tokens.shape
    breaks = word_starts[block.tokens]
    breaks |= block.special
    begins = breaks.copy()
    begins[:, 0] = True
    begins[:, 1:] |= block.special[:, :-1]
    ends = np.ones_like(breaks)
    ends[:, :-1] = breaks[:, 1:]
    first = np.flatnonzero(begins & ~block.special)
    length = np.flatnonzero(ends & ~block.special) - first + 1
    row = first // width
    counts = np.bincount(row, minlength=rows)
    slot = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = rows, max(int(counts.max(initial=0)), 1)
    starts, lengths = np.zeros(shape, dtype=np.int64), np.full(shape, _NO_WORD, dtype=np.int32)
    starts[row, slot], lengths[row, slot] = first - row * width, length
    numbers = counter_uint32(block.keys[:, None], starts.astype(np.uint32)) >> np.uint32(1)
    return Words(starts, lengths, numbers)


def choose_words(block: Block, words: Words) -> Choice:
    """Whole words in random order, each that still fits, until `wanted` tokens are chosen.

    A word that would overshoot is skipped and the next ones are tried. So the count is `wanted`
    wherever enough short words are left, and never above it, with one exception: a row whose
    shortest word is longer than `wanted` gives that word (of several, the first in the order).
    """
    rows, most = words.lengths.shape
    order = _random_order(words)
    lengths = np.take_along_axis(words.lengths, order, axis=1)
    reached = np.cumsum(lengths, axis=1)
    fitting = reached <= block.wanted[:, None]
    tried = fitting.sum(axis=1)
    left = block.wanted - np.where(tried > 0, reached[np.arange(rows), tried - 1], 0)
    active = np.flatnonzero(left > 0)
    while len(active):
        fits = lengths[active] <= left[active, None]
        fits &= np.arange(most) >= tried[active, None]
        found = fits.any(axis=1)
        active, slot = active[found], fits.argmax(axis=1)[found]
        fitting[active, slot] = True
        left[active] -= lengths[active, slot]
        tried[active] = slot + 1
        active = active[left[active] > 0]
    taken = np.zeros_like(fitting)
    np.put_along_axis(taken, order, fitting, axis=1)
    return _tokens_of(block, words, _with_shortest(words, taken))


def choose_spans(block: Block, words: Words, mean_words: float) -> Choice:
    """Spans of whole words, without overlap, until `wanted` tokens are chosen, never more.

    Source: SpanBERT (Joshi et al. 2020), section 3.1. A span begins at a random word of those that
    are free and fit. Its length in words follows `span_length_limits`. It ends early at a special
    token, at the end of the row, at a chosen word, and before a word that would overshoot. A row
    whose shortest word is longer than `wanted` gives that word alone. All tokens of a span share
    one fate (<mask>, random, the same), as in the paper. Spans go forward, so the first words
    behind a special token are reached less often than others: that is the paper's rule too.
    """
    limits = span_length_limits(mean_words)
    keys = mix64(block.keys ^ _SPAN_STREAM)
    draws = counter_uint32(keys[:, None], words.starts.astype(np.uint32))
    order = _random_order(words)
    taken = np.zeros(words.lengths.shape, dtype=np.bool_)
    origins = words.starts.copy()
    left = block.wanted.copy()
    tried = np.zeros_like(left)
    active = np.flatnonzero(left > 0)
    while len(active):
        # A word that is chosen or too long now stays so: what was tried needs no second look.
        ranks = tried[active, None] + np.arange(_WORDS_AT_ONCE)
        slots = order[active[:, None], np.minimum(ranks, order.shape[1] - 1)]
        fits = words.lengths[active[:, None], slots] <= left[active, None]
        fits &= ~taken[active[:, None], slots]
        which, found = fits.argmax(axis=1), fits.any(axis=1)
        tried[active] += np.where(found, which + 1, _WORDS_AT_ONCE)
        row, first = active[found], slots[found, which[found]]
        wished = np.searchsorted(limits, draws[row, first], side="right") + 1
        span = _free_words(words, taken, row, first, wished, left[row])
        of, offset = np.nonzero(span)
        of_row, slot = row[of], first[of] + offset
        taken[of_row, slot] = True
        origins[of_row, slot] = words.starts[of_row, first[of]]
        left[row] -= np.bincount(of, words.lengths[of_row, slot], len(row)).astype(np.int64)
        active = active[(left[active] > 0) & (tried[active] < order.shape[1])]
    return _tokens_of(block, words, _with_shortest(words, taken), origins)


def _random_order(words: Words) -> Integers:
    """The words of each row by their numbers, ties by position; those that are not there last."""
    numbers = np.where(words.lengths < _NO_WORD, words.numbers, _LAST).astype(np.int64)
    slots = np.arange(numbers.shape[1])
    return np.sort((numbers << 31) | slots, axis=1) & (2**31 - 1)


def _free_words(
    words: Words, taken: Flags, row: Integers, first: Integers, wished: Integers, left: Integers
) -> Flags:
    """How far spans go: whether word first + i belongs to the span, shape (spans, 10).

    Args:
        row: the row of each span, shape (spans,).
        first: the word each span begins with.
        wished: words each span would have.
        left: tokens it may have.
    """
    window = np.arange(LONGEST_SPAN_WORDS)
    slots = first[:, None] + window
    inside = row[:, None], np.minimum(slots, taken.shape[1] - 1)
    length, start = words.lengths[inside], words.starts[inside]
    reached = np.cumsum(length, axis=1)
    span = (window < wished[:, None]) & (slots < taken.shape[1]) & (reached <= left[:, None])
    span &= ~taken[inside]
    span &= start - start[:, :1] == reached - length  # no special token between the words
    return np.logical_and.accumulate(span, axis=1)


@lru_cache(maxsize=8)
def span_length_limits(mean_words: float) -> npt.NDArray[np.uint64]:
    """Where a random 32-bit number passes from spans of n words to n + 1, n = 1 ... 9.

    P(n) is proportional to (1 - p)^(n - 1) for n = 1 ... 10, with the p that makes the mean
    `mean_words`; SpanBERT's p = 0.2 has the mean 3.8.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        ratio = (low + high) / 2
        weights = _powers(ratio)
        mean = sum(n * weight for n, weight in enumerate(weights, 1)) / sum(weights)
        low, high = (ratio, high) if mean < mean_words else (low, ratio)
    weights = _powers(high)
    total, reached, limits = sum(weights), 0.0, []
    for weight in weights[:-1]:
        reached += weight
        limits.append(round(reached / total * 2**32))
    return np.array(limits, dtype=np.uint64)


def _powers(ratio: float) -> list[float]:
    powers = [1.0]
    for _ in range(LONGEST_SPAN_WORDS - 1):
        powers.append(powers[-1] * ratio)  # `**` may differ in the last bit between machines
    return powers


def _with_shortest(words: Words, taken: Flags) -> Flags:
    """Give a row where nothing fitted its shortest word; of several, the first in the order."""
    for row in np.flatnonzero(~taken.any(axis=1)):
        shortest = int(words.lengths[row].min())
        if shortest < _NO_WORD:
            tied = np.flatnonzero(words.lengths[row] == shortest)
            taken[row, tied[words.numbers[row, tied].argmin()]] = True
    return taken


def _tokens_of(block: Block, words: Words, taken: Flags, origins: Integers | None = None) -> Choice:
    """The tokens of the chosen words."""
    row, slot = np.nonzero(taken)
    starts, lengths = words.starts[row, slot], words.lengths[row, slot].astype(np.int64)
    ends = np.cumsum(lengths)
    positions = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
    places = positions + np.repeat(row * block.tokens.shape[1], lengths)
    counts = np.bincount(row, lengths, len(taken)).astype(np.int64)
    if origins is None:
        return Choice(counts, places, positions, positions)
    return Choice(counts, places, positions, np.repeat(origins[row, slot], lengths))
