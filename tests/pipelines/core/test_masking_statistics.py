"""Masking over five million tokens, by chi-square. Seeds are fixed: each run finds the same values.

Every p has to be above 1e-3, and is the same on every machine: the draws are integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency, chisquare, hypergeom, ttest_1samp

from pipelines.core.masking import MaskingRule, UnigramSampler, mask_keys, mask_sequences

SEQUENCES, LENGTH = 10_000, 512  # 5,120,000 tokens
ORDINARY = LENGTH - 2
CHOSEN = round(0.15 * ORDINARY)
ROWS, MASK = 30_002, 30_001
SPECIAL = frozenset({0, 1, 2, 3, MASK})
RULE = MaskingRule(0.15, 0.8, 0.1, MASK, SPECIAL)
OWN = 4
"""The only ordinary id of the text; it is never drawn, so that fates can be told apart."""
COUNTS = np.concatenate([np.zeros(5, np.int64), 10**9 // np.arange(1, ROWS - 4)])
MASKED, RANDOM, SAME = 0, 1, 2


@dataclass(frozen=True)
class Drawn:
    chosen: np.ndarray
    """Whether an ordinary position is chosen, shape (sequences, ordinary)."""
    positions: np.ndarray
    """By sequence, shape (sequences, chosen)."""
    tokens: np.ndarray
    fates: np.ndarray


@cache
def drawn(pass_index: int = 0, rate: float = 0.15) -> Drawn:
    keys = mask_keys(11, pass_index, [f"document-{i // 3}:{i % 3 * 510}" for i in range(SEQUENCES)])
    text = np.full((SEQUENCES, LENGTH), OWN, dtype=np.uint32)
    text[:, 0], text[:, -1] = 0, 2
    masks = mask_sequences(
        text.reshape(-1),
        np.arange(SEQUENCES + 1) * LENGTH,
        keys,
        replace(RULE, rate=rate),
        UnigramSampler(COUNTS, SPECIAL),
    )
    count = round(rate * ORDINARY)
    assert (np.diff(masks.offsets) == count).all()
    positions = masks.positions.reshape(SEQUENCES, count).astype(np.int64) - 1
    tokens = masks.tokens.reshape(SEQUENCES, count)
    chosen = np.zeros((SEQUENCES, ORDINARY), dtype=np.bool_)
    np.put_along_axis(chosen, positions, True, axis=1)
    fates = np.where(tokens == MASK, MASKED, np.where(tokens == OWN, SAME, RANDOM))
    return Drawn(chosen, positions, tokens, fates)


@pytest.fixture(scope="module", autouse=True)
def memory_is_given_back() -> Iterator[None]:
    yield
    drawn.cache_clear()


@pytest.mark.parametrize("rate", [0.15, 0.3])
def test_every_position_is_chosen_equally_often(rate: float) -> None:
    share = round(rate * ORDINARY) / ORDINARY
    counts = drawn(rate=rate).chosen.sum(axis=0)
    expected = SEQUENCES * share
    # k of n without replacement: the squares sum to chi-square with n - 1 degrees of freedom when
    # divided by the variance of one count, times (n - 1) / n.
    spread = expected * (1 - share) * ORDINARY / (ORDINARY - 1)
    statistic = ((counts - expected) ** 2).sum() / spread
    assert 1e-3 < chi2.sf(statistic, ORDINARY - 1) < 1 - 1e-3


def test_fates_are_80_10_10_at_every_position_alike() -> None:
    found = drawn()
    total = SEQUENCES * CHOSEN
    counts = np.bincount(found.fates.reshape(-1), minlength=3)
    assert chisquare(counts, np.array([0.8, 0.1, 0.1]) * total).pvalue > 1e-3
    table = np.zeros((ORDINARY, 3), dtype=np.int64)
    np.add.at(table, (found.positions.reshape(-1), found.fates.reshape(-1)), 1)
    assert chi2_contingency(table).pvalue > 1e-3


def test_replacements_follow_the_unigram_counts_at_every_position_alike() -> None:
    found = drawn()
    random = found.fates == RANDOM
    ids, positions = found.tokens[random], found.positions[random]
    assert ids.min() > OWN and ids.max() < MASK
    edges = np.unique(np.geomspace(1, ROWS - 5, 100).astype(int))[:-1] + 4
    expected = np.add.reduceat(COUNTS.astype(float), edges)
    counts = np.add.reduceat(np.bincount(ids, minlength=ROWS), edges)
    assert chisquare(counts, expected / expected.sum() * len(ids)).pvalue > 1e-3
    bins = np.searchsorted(edges, ids, side="right") // 20
    table = np.zeros((30, bins.max() + 1), dtype=np.int64)
    np.add.at(table, (positions // 17, bins), 1)
    assert chi2_contingency(table).pvalue > 1e-3


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 5, 8, 16, 32, 64, 128, 255, 256, 509])
def test_neighbours_are_chosen_independently(lag: int) -> None:
    chosen = drawn().chosen
    both = (chosen[:, lag:] & chosen[:, :-lag]).sum(axis=1)
    expected = (ORDINARY - lag) * CHOSEN * (CHOSEN - 1) / (ORDINARY * (ORDINARY - 1))
    assert ttest_1samp(both, expected).pvalue > 1e-3


def test_fates_of_neighbours_are_independent() -> None:
    fates = drawn().fates
    for lag in (1, 2, 3):
        table = np.zeros((3, 3), dtype=np.int64)
        np.add.at(table, (fates[:, lag:].reshape(-1), fates[:, :-lag].reshape(-1)), 1)
        assert chi2_contingency(table).pvalue > 1e-3


@pytest.mark.parametrize(
    "what", ["next pass", "tenth pass", "next sequence", "other sequence", "next pass and sequence"]
)
def test_passes_and_sequences_are_independent(what: str) -> None:
    """How many positions two masks share is hypergeometric if they know nothing of each other."""
    one = drawn().chosen
    other = {
        "next pass": lambda: drawn(1).chosen,
        "tenth pass": lambda: drawn(10).chosen,
        "next sequence": lambda: np.roll(one, 1, axis=0),
        "other sequence": lambda: np.roll(one, 777, axis=0),
        "next pass and sequence": lambda: np.roll(drawn(1).chosen, 1, axis=0),
    }[what]()
    shared = np.bincount((one & other).sum(axis=1), minlength=CHOSEN + 1)
    expected = SEQUENCES * hypergeom(ORDINARY, CHOSEN, CHOSEN).pmf(np.arange(CHOSEN + 1))
    low, high = (int(n) for n in np.flatnonzero(expected >= 5)[[0, -1]])

    def ends_joined(counts: np.ndarray) -> np.ndarray:
        middle = counts[low : high + 1].astype(float)
        middle[0] += counts[:low].sum()
        middle[-1] += counts[high + 1 :].sum()
        return middle

    assert chisquare(ends_joined(shared), ends_joined(expected)).pvalue > 1e-3


def test_fates_of_passes_are_independent() -> None:
    first, second = drawn(0), drawn(1)
    fates = []
    both = first.chosen & second.chosen
    for found in (first, second):
        laid_out = np.zeros((SEQUENCES, ORDINARY), dtype=np.int64)
        np.put_along_axis(laid_out, found.positions, found.fates, axis=1)
        fates.append(laid_out[both])
    table = np.zeros((3, 3), dtype=np.int64)
    np.add.at(table, (fates[0], fates[1]), 1)
    assert chi2_contingency(table).pvalue > 1e-3


def test_fates_do_not_depend_on_how_early_a_position_is_chosen() -> None:
    """Positions that are chosen at 0.15 and those that only 0.3 adds have the same fates."""
    few, many = drawn(), drawn(rate=0.3)
    early = np.take_along_axis(few.chosen, many.positions, axis=1)
    table = np.array([np.bincount(many.fates[early == which], minlength=3) for which in (0, 1)])
    assert table[1].sum() == SEQUENCES * CHOSEN
    assert chi2_contingency(table).pvalue > 1e-3
