"""Where random replacements come from: ids drawn by numbers that a hash gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipelines.core.mask_rules import Ids

Counts = npt.NDArray[np.int64]

_LARGEST_PRODUCT = 2**62
"""Weights are exact 64-bit integers, so that every machine builds the same table."""


class Sampler(Protocol):
    """Turns random numbers into ordinary ids; it has no state."""

    def pick(self, first: Ids, second: Ids) -> Ids:
        """The ids for two independent random 32-bit numbers each, shape (draws,)."""
        ...


class UniformSampler:
    """Draws all ordinary ids alike, as BERT does.

    Args:
        rows: rows of the vocabulary.
        special_ids: ids that are never drawn.

    Raises:
        ValueError: there is no ordinary id.
    """

    def __init__(self, rows: int, special_ids: Iterable[int]) -> None:
        self._ids = _ordinary(rows, special_ids)
        if not len(self._ids):
            raise ValueError(f"all {rows} rows of the vocabulary are special")

    def pick(self, first: Ids, second: Ids) -> Ids:
        """See `Sampler`; the second number is not needed."""
        return self._ids[_column(first, len(self._ids))]


class UnigramSampler:
    """Draws ordinary ids by their frequency in the training text; ids without a count never.

    One draw costs two look-ups, whatever the vocabulary's size. Source: the alias method (Walker
    1977), its table built by one sweep over light and heavy ids as in Vose 1991, in prefix sums.

    Args:
        counts: occurrences by id, shape (vocabulary rows,).
        special_ids: ids that are never drawn.

    Raises:
        ValueError: no ordinary id has a count, or a count is negative.
    """

    def __init__(self, counts: Counts, special_ids: Iterable[int]) -> None:
        if len(counts) and int(counts.min()) < 0:
            raise ValueError(f"id {int(counts.argmin())} has the count {int(counts.min())}")
        ordinary = _ordinary(len(counts), special_ids)
        weights = np.asarray(counts, dtype=np.int64)[ordinary]
        ordinary, weights = ordinary[weights > 0], weights[weights > 0]
        if not len(weights):
            raise ValueError("the unigram counts hold no ordinary token")
        self._ids = ordinary
        self._limits, aliases = alias_table(weights)
        self._aliases = ordinary[aliases]

    def pick(self, first: Ids, second: Ids) -> Ids:
        """See `Sampler`."""
        column = _column(first, len(self._ids))
        own = second < self._limits[column]
        return np.where(own, self._ids[column], self._aliases[column])


def alias_table(weights: Counts) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Limits (in 2^-32) and aliases by column: column i stands for i below its limit.

    Drawing a column uniformly, then i with probability limit/2^32 and else alias[i], draws i with
    probability weights[i] / sum(weights), each to 2^-32.

    Args:
        weights: positive, shape (columns,).
    """
    columns = len(weights)
    scale = columns * sum(int(part) for part in weights) // _LARGEST_PRODUCT
    weights = np.maximum(weights >> scale.bit_length(), 1) if scale else weights
    total = int(weights.sum())
    filled = weights * columns  # what a full column holds is `total`
    light, heavy = np.flatnonzero(filled <= total), np.flatnonzero(filled > total)
    missing, surplus = np.cumsum(total - filled[light]), np.cumsum(filled[heavy] - total)
    limits = np.full(columns, 2.0**32 - 1)
    aliases = np.arange(columns)
    if len(heavy):
        # The light columns are filled in order, each by the first heavy one with surplus left.
        before = np.concatenate([[0], missing[:-1]])
        limits[light] = filled[light] / total * 2.0**32
        aliases[light] = heavy[np.searchsorted(surplus, before, side="left")]
        # A heavy column that has given more than its surplus is filled by the next one.
        drained_at = missing[np.searchsorted(missing, surplus[:-1], side="right")]
        limits[heavy[:-1]] = (total + surplus[:-1] - drained_at) / total * 2.0**32
        aliases[heavy[:-1]] = heavy[1:]
    return np.minimum(limits, 2.0**32 - 1).astype(np.uint32), aliases


def _ordinary(rows: int, special_ids: Iterable[int]) -> Ids:
    ordinary = np.ones(rows, dtype=np.bool_)
    ordinary[[i for i in special_ids if i < rows]] = False
    return np.flatnonzero(ordinary).astype(np.uint32)


def _column(numbers: Ids, columns: int) -> npt.NDArray[np.int64]:
    """Random 32-bit numbers to columns, all alike to columns / 2^32."""
    return (numbers.astype(np.int64) * columns) >> 32
