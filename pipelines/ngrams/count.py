"""Exact counts of all n-grams of some sentences, orders 1 to n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.ngrams.tables import UNK_ID, Ints, Tables, flatten, vocabulary_from


@dataclass
class Counts:
    """How often each n-gram of `tables` was seen.

    Every sentence stands between one <s> and one </s>, and the n-grams of order k are all its
    windows of k words, as kenlm's lmplz counts them.
    """

    tables: Tables
    counts: list[Ints]
    """For order k at index k - 1: one number a row."""

    @property
    def sentences(self) -> int:
        """How many sentences were counted."""
        return int(self.counts[0][1])


def count_ngrams(sentences: Sequence[Sequence[str]], order: int) -> Counts:
    """Count the n-grams of tokenized sentences.

    Args:
        sentences: tokens; <unk>, <s> and </s> among them count as <unk>.
        order: the longest n-grams.
    """
    vocabulary = vocabulary_from([token for sentence in sentences for token in sentence])
    tables = Tables(vocabulary, [np.arange(len(vocabulary))])
    flat, positions, _ = flatten([tables.encode(sentence) for sentence in sentences])
    counts = [np.bincount(flat, minlength=tables.size)]
    rows = flat
    for length in range(2, order + 1):
        ends = np.flatnonzero(positions >= length - 1)
        keys = rows[ends - 1] * tables.size + flat[ends]
        keys, inverse, seen = np.unique(keys, return_inverse=True, return_counts=True)
        tables.keys.append(keys)
        counts.append(seen)
        rows = np.full(len(flat), -1, dtype=np.int64)
        rows[ends] = inverse
    return Counts(tables, counts)


def with_rare_words_unknown(counts: Counts, min_count: int) -> Counts:
    """The counts of the same text with every word seen less than `min_count` times as <unk>."""
    old, seen = counts.tables, counts.counts[0]
    stays = seen >= min_count
    stays[:3] = True
    if stays.all():
        return counts
    moved = np.where(stays, np.cumsum(stays) - 1, UNK_ID)
    vocabulary = [token for token, keep in zip(old.vocabulary, stays.tolist(), strict=True) if keep]
    new = Tables(vocabulary, [np.arange(len(vocabulary))])
    summed = [_sum_by(moved, seen, new.size)]
    rows = moved
    for order in range(2, old.order + 1):
        keys = rows[old.prefix(order)] * new.size + moved[old.last(order)]
        keys, rows = np.unique(keys, return_inverse=True)
        new.keys.append(keys)
        summed.append(_sum_by(rows, counts.counts[order - 1], len(keys)))
    return Counts(new, summed)


def _sum_by(rows: Ints, values: Ints, size: int) -> Ints:
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, rows, values)
    return total
