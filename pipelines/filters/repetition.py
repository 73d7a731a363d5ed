"""Filters on text that repeats itself: duplicate lines, paragraphs and n-grams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import numpy as np

from pipelines.config import RepetitionFilter
from pipelines.core.manifest import Counters
from pipelines.core.records import Document
from pipelines.filters.base import Reason, above
from pipelines.filters.characters import Integers
from pipelines.filters.units import units_of

TOP_SIZES = (2, 3, 4)
DUPLICATE_SIZES = (5, 6, 7, 8, 9, 10)


def repeats_itself(document: Document, config: RepetitionFilter, count: Counters) -> Reason | None:
    """Drop a document with too much repetition. Source: Gopher, section A1.1 and table A1.

    A line, paragraph or n-gram is a duplicate when an equal one stands before it in the document.
    Characters of n-grams are those of their words, without blanks and punctuation; a character
    that several n-grams cover counts once. In scripts without blanks an n-gram of n words is one
    of round(n x units per word) units.
    """
    units = units_of(document)
    if not len(units.word_lengths):
        return Reason("no_words", "the text has no words")
    for what, parts, most, most_characters in (
        ("line", units.lines, config.max_duplicate_lines, config.max_duplicate_line_characters),
        (
            "paragraph",
            units.paragraphs,
            config.max_duplicate_paragraphs,
            config.max_duplicate_paragraph_characters,
        ),
    ):
        number, characters = duplicate_shares(parts)
        reason = above(f"duplicate_{what}s", f"share of duplicate {what}s", number, most) or above(
            f"duplicate_{what}_characters",
            f"share of characters in duplicate {what}s",
            characters,
            most_characters,
        )
        if reason is not None:
            return reason
    tops = {units_in(n, units.per_word): n for n in TOP_SIZES}
    duplicates = {units_in(n, units.per_word): n for n in DUPLICATE_SIZES}
    harmless = min(*config.max_top_ngram, *config.max_duplicate_ngrams)
    for size, share in ngram_shares(
        units.word_ids, units.word_lengths, set(tops), set(duplicates), harmless
    ):
        if size in tops:
            n = tops[size]
            what = f"share of characters in the most frequent {n}-gram"
            reason = above("top_ngram", what, share, config.max_top_ngram[n - TOP_SIZES[0]])
        else:
            n = duplicates[size]
            what = f"share of characters in duplicate {n}-grams"
            most = config.max_duplicate_ngrams[n - DUPLICATE_SIZES[0]]
            reason = above("duplicate_ngrams", what, share, most)
        if reason is not None:
            return reason
    return None


def units_in(words: int, per_word: float) -> int:
    """Units that stand for so many words; ever more for ever more words."""
    return int(words * per_word + 0.5)


def duplicate_shares(parts: Sequence[str]) -> tuple[float, float]:
    """The share of parts that stood before, by count and by characters."""
    if not parts:
        return 0.0, 0.0
    different = set(parts)
    if len(different) == len(parts):
        return 0.0, 0.0
    whole = sum(map(len, parts))
    repeated = whole - sum(map(len, different))
    return (len(parts) - len(different)) / len(parts), repeated / whole


def ngram_shares(
    ids: Integers, lengths: Integers, tops: Set[int], duplicates: Set[int], harmless: float = 0.0
) -> Iterator[tuple[int, float]]:
    """For each size n, the share of characters in the top n-gram, or in duplicate n-grams.

    Args:
        ids: word numbers, shape (words,), at least one.
        lengths: characters of each word, shape (words,), at least 1 each.
        tops: the n, from 2, for which to report the most frequent n-gram.
        duplicates: other n, from 2, for which to report duplicates.
        harmless: stop as soon as no larger n can have a share above this.

    Yields:
        n, ascending; for one of `tops` the share of characters inside occurrences of the most
        frequent n-gram (0 when all occur once; among equally frequent ones the longest, then the
        first); for one of `duplicates` the share inside n-grams that begin after an equal one.

    A repeated n-gram consists of repeated (n-1)-grams, so only the starts of those are looked at
    again, and the share inside all repeated n-grams never grows with n: it bounds what can follow.
    On ordinary text that ends the search after n = 3 or 4.
    """
    before = np.zeros(len(ids) + 1, dtype=np.int64)  # characters before each word
    np.cumsum(lengths, out=before[1:])
    whole = int(before[-1])
    words = int(ids.max()) + 1
    starts = np.flatnonzero(np.bincount(ids)[ids] > 1)
    groups = ids[starts]
    for n in range(2, max(tops | duplicates) + 1):
        if len(starts) and starts[-1] + n > len(ids):
            starts, groups = starts[:-1], groups[:-1]
        # Exact: the group of the first n - 1 words and the next word, as one number.
        keys = groups * words + ids[starts + n - 1]
        starts, groups, frequencies = _repeated(starts, keys)
        if n in tops:
            top = starts[groups == _top_group(starts, groups, frequencies, n, before)]
            yield n, _covered(top, n, before) / whole
        elif n in duplicates:
            again = _not_first(starts, groups, len(frequencies))
            yield n, _covered(again, n, before) / whole
        if _covered(starts, n, before) / whole <= harmless:
            return


def _repeated(starts: Integers, keys: Integers) -> tuple[Integers, Integers, Integers]:
    """Keep the starts whose key occurs at least twice.

    Returns:
        The starts kept, ascending; the group of each, from 0; how many each group has.
    """
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    group = np.zeros(len(keys), dtype=np.int64)
    np.cumsum(in_order[1:] != in_order[:-1], out=group[1:])
    counts = np.bincount(group, minlength=1)
    several = counts > 1
    number = np.cumsum(several) - 1
    groups = np.empty_like(group)
    groups[order] = group
    kept = several[groups]
    return starts[kept], number[groups[kept]], counts[several]


def _not_first(starts: Integers, groups: Integers, number_of_groups: int) -> Integers:
    """The starts that an equal n-gram precedes."""
    first = np.empty(number_of_groups, dtype=np.int64)
    first[groups[::-1]] = starts[::-1]  # the last write, which is the earliest start, stays
    again: Integers = starts[first[groups] != starts]
    return again


def _top_group(
    starts: Integers, groups: Integers, frequencies: Integers, n: int, before: Integers
) -> int:
    """The most frequent group; among equals the longest n-gram, then the one that comes first.

    -1 when there is none.
    """
    if not len(frequencies):
        return -1
    most = np.flatnonzero(frequencies == frequencies.max())
    if len(most) == 1:
        return int(most[0])
    first = np.empty(len(frequencies), dtype=np.int64)
    first[groups[::-1]] = starts[::-1]  # the last write, which is the earliest start, stays
    at = first[most]
    return int(most[np.lexsort((at, before[at] - before[at + n]))[0]])


def _covered(starts: Integers, n: int, before: Integers) -> int:
    """Characters inside the n-grams at the given ascending starts, each counted once."""
    if not len(starts):
        return 0
    ends = starts + n
    begins = starts.copy()
    begins[1:] = np.maximum(begins[1:], ends[:-1])
    return int((before[ends] - before[begins]).sum())
