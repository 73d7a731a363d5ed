"""Weigh merged counts by q_i and take the most frequent words, in two passes over the ranges.

The weighted count of a word is sum_i w_i c_i over the languages it stands in, where w_i = q_i N /
n_i, n_i are the characters of the language's words (blanks included) and N those of all languages:
so the shares of the mix are q_i in characters, and its size is that of the corpus. Its fraction is
drawn by the word's own hash, as a sample of lines would have the word once or not at all: 2.25
becomes 2 for three words in four and 3 for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.hashing import finalise64, stable_uint64
from pipelines.train_vocabulary.word_tables import starts_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def weights(characters: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, float]:
    """w_i by language; languages without words or without a share are left out.

    Args:
        characters: n_i, all above 0.
        shares: q_i; they are made to sum to 1 over the languages that have words.
    """
    both = sorted(characters.keys() & shares.keys())
    whole = sum(characters[language] for language in both)
    share = sum(shares[language] for language in both)
    return {language: shares[language] / share * whole / characters[language] for language in both}


@dataclass(frozen=True)
class Weighed:
    """Words of one range with their weighted counts, and whose they are."""

    words: pa.Array
    counts: Ints
    """Shape (words,); 0 for a word whose fraction was not drawn."""
    places: Ints
    """Index of the word of each row, shape (rows,)."""
    languages: npt.NDArray[np.int32]
    """Number of the language of each row."""
    characters: Ints
    """Characters of the text that a row stands for, unweighted."""


def weigh(table: pa.Table, weight: Floats, seed: int) -> Weighed:
    """Weigh a merged table.

    Args:
        weight: w_i by the number of the language; 0 leaves it out.
    """
    languages, counts = table["language"].to_numpy(), table["count"].to_numpy()
    if not table.num_rows:
        none = np.zeros(0, dtype=np.int64)
        return Weighed(pa.array([], pa.string()), none, none, languages, none)
    new = starts_of(table["word"])
    starts = np.flatnonzero(new)
    words = table["word"].combine_chunks().take(pa.array(starts))
    exact = np.add.reduceat(weight[languages] * counts, starts)
    salt = np.uint64(stable_uint64(seed, "vocabulary", "weigh"))
    drawn = finalise64(table["hash"].to_numpy()[starts] ^ salt) / 2.0**64
    whole = np.floor(exact)
    lengths = pc.utf8_length(table["word"]).to_numpy().astype(np.int64)
    return Weighed(
        words,
        (whole + (drawn < exact - whole)).astype(np.int64),
        np.cumsum(new) - 1,
        languages,
        lengths * counts,
    )


@dataclass(frozen=True)
class Selection:
    """The words that are trained on, and what they leave out."""

    table: pa.Table
    """Columns `word` and `count` (weighted), the most frequent first."""
    distinct: int
    """Distinct words of the corpus."""
    not_drawn: int
    """Words left out because their weighted count came to 0."""
    cut: int
    """Words left out because there are more than `max_words`."""
    lowest: int
    """The lowest weighted count that was taken."""
    left_out: dict[int, int]
    """Characters of the text in words that are left out, by number of language."""


def select(
    ranges: Sequence[Callable[[], pa.Table]], weight: Floats, seed: int, max_words: int
) -> Selection:
    """Take the `max_words` words with the highest weighted counts.

    Of equal counts the first by hash are taken; how many ranges there are changes nothing.

    Args:
        ranges: each reads one merged table; the tables follow one another by hash.
    """
    found: Counter[int] = Counter()
    for read in ranges:
        found.update(_histogram(weigh(read(), weight, seed).counts))
    not_drawn = found.pop(0, 0)
    lowest, at_lowest = _threshold(found, max_words)
    left_out = np.zeros(len(weight), dtype=np.int64)
    words, counts = [], []
    for read in ranges:
        part = weigh(read(), weight, seed)
        chosen = part.counts > lowest
        equal = np.flatnonzero(part.counts == lowest)[:at_lowest]
        if lowest:
            chosen[equal] = True
            at_lowest -= len(equal)
        words.append(part.words.filter(pa.array(chosen)))
        counts.append(part.counts[chosen])
        outside = ~chosen[part.places]
        np.add.at(left_out, part.languages[outside], part.characters[outside])
    all_counts = np.concatenate([np.zeros(0, dtype=np.int64), *counts])
    order = np.argsort(-all_counts, kind="stable")
    table = pa.table(
        {
            "word": pa.chunked_array(words, pa.string()).combine_chunks().take(pa.array(order)),
            "count": pa.array(all_counts[order]),
        }
    )
    return Selection(
        table,
        found.total() + not_drawn,
        not_drawn,
        found.total() - len(order),
        int(all_counts.min()) if len(order) else 0,
        {number: int(count) for number, count in enumerate(left_out) if weight[number]},
    )


def _histogram(counts: Ints) -> dict[int, int]:
    values, times = np.unique(counts, return_counts=True)
    return dict(zip(values.tolist(), times.tolist(), strict=True))


def _threshold(histogram: Mapping[int, int], most: int) -> tuple[int, int]:
    """The count above which all words are taken, and how many of exactly that count."""
    taken = 0
    for count in sorted(histogram, reverse=True):
        if taken + histogram[count] > most:
            return count, most - taken
        taken += histogram[count]
    return 0, 0
