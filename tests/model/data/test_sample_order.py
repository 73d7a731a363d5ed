from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from model.data.sample_order import (
    MOST_SAMPLES,
    SHARE_BITS,
    exact_shares,
    floor_sum,
    hits,
    multiplier,
    permuted,
    rounded_counts,
)
from pipelines.core.hashing import mix64

WORDS = st.integers(0, 2**64 - 1)


@settings(deadline=None)
@given(st.integers(1, 3000), WORDS)
def test_permutation_hits_every_place_once(size: int, key: int) -> None:
    keys = np.full(size, key, dtype=np.uint64)
    found = permuted(np.arange(size), np.full(size, size), keys)
    assert sorted(found) == list(range(size))


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 13, 64, 65, 100])
def test_over_many_keys_every_place_goes_everywhere(size: int) -> None:
    keys = mix64(np.arange(100_000, dtype=np.uint64))
    for position in (0, size - 1):
        full = np.full(len(keys), position)
        found = permuted(full, np.full(len(keys), size), keys)
        assert stats.chisquare(np.bincount(found, minlength=size)).pvalue > 1e-4


def test_neighbours_in_one_pass_are_not_neighbours_in_the_next() -> None:
    size = 10_000
    first, second = (
        permuted(np.arange(size), np.full(size, size), np.full(size, key, dtype=np.uint64))
        for key in mix64(np.arange(2, dtype=np.uint64))
    )
    for left, right in ((first, second), (np.arange(size), first), (first[:-1], first[1:])):
        assert abs(stats.spearmanr(left, right).statistic) < 5 / math.sqrt(size)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40).filter(lambda q: sum(q) > 1e-9))
def test_exact_shares_sum_to_one_and_miss_by_less_than_a_unit(shares: list[float]) -> None:
    units = exact_shares(shares)
    assert units.sum() == 2**SHARE_BITS
    whole = math.fsum(shares)
    assert all(
        abs(u - q / whole * 2**SHARE_BITS) < 1.001 for u, q in zip(units, shares, strict=True)
    )


@given(
    st.lists(st.integers(0, 2**SHARE_BITS), min_size=1, max_size=8),
    st.lists(st.integers(0, MOST_SAMPLES - 1), min_size=1, max_size=4),
)
def test_rounded_counts_are_exact(cumulated: list[int], samples: list[int]) -> None:
    found = rounded_counts(np.array(cumulated), np.array(samples))
    for row, x in zip(found.tolist(), samples, strict=True):
        wanted = [math.floor(Fraction(q * x, 2**SHARE_BITS) + Fraction(1, 2)) for q in cumulated]
        assert row == wanted


@settings(deadline=None)
@given(st.integers(1, 400), st.data())
def test_hits_are_what_counting_finds(modulus: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(0, modulus - 1))
    n, offset = data.draw(st.integers(0, modulus)), data.draw(st.integers(0, modulus - 1))
    begin = data.draw(st.integers(0, modulus))
    end = data.draw(st.integers(begin, modulus))
    one = [np.array([value]) for value in (n, offset, begin, end)]
    found = hits(one[0], modulus, factor, one[1], one[2], one[3])
    wanted = sum(begin <= (factor * r + offset) % modulus < end for r in range(n))
    assert found.tolist() == [wanted]


def test_floor_sums_near_the_largest_block_do_not_overflow() -> None:
    modulus = 2**31 - 1
    factor = multiplier(modulus)
    # Over a whole cycle of a coprime factor the remainders are 0 ... modulus - 1, once each.
    offset = 1_234_567_890
    remainders = modulus * (modulus - 1) // 2
    whole = factor * remainders + modulus * offset
    found = floor_sum(np.array([modulus]), modulus, factor, np.array([offset]))
    assert found.tolist() == [(whole - remainders) // modulus]
    begins, ends = np.array([0, 5, 10**9]), np.array([modulus, 6, 2 * 10**9])
    lengths = np.full(3, modulus)
    assert hits(lengths, modulus, factor, np.full(3, offset), begins, ends).tolist() == [
        modulus,
        1,
        10**9,
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 12, 30, 210, 1000, 2310, 65_536, 1_000_003])
def test_the_multiplier_takes_every_slot_once_and_spreads_any_run(size: int) -> None:
    factor = multiplier(size)
    assert math.gcd(factor, size) == 1
    if size > 70_000:
        return
    slots = factor * np.arange(size) % size
    assert sorted(slots.tolist()) == list(range(size))
    rng = np.random.default_rng(1)
    for _ in range(40):
        begin, end = sorted(rng.integers(0, size + 1, 2).tolist())
        inside = np.concatenate([[0], np.cumsum((slots >= begin) & (slots < end))])
        wanted = np.arange(size + 1) * (end - begin) / size
        assert np.abs(inside - wanted).max() < 4
