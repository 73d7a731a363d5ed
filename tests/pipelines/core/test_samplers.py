from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pipelines.core.samplers import UniformSampler, UnigramSampler, alias_table


def shares_of(limits: np.ndarray, aliases: np.ndarray) -> np.ndarray:
    """The probabilities that an alias table stands for."""
    own = limits / 2**32
    shares = own / len(own)
    np.add.at(shares, aliases, (1 - own) / len(own))
    return shares


@given(st.lists(st.one_of(st.integers(1, 20), st.integers(1, 10**13)), min_size=1, max_size=80))
def test_the_alias_table_gives_every_id_its_share(weights: list[int]) -> None:
    limits, aliases = alias_table(np.array(weights, dtype=np.int64))
    wanted = np.array(weights) / sum(weights)
    assert shares_of(limits, aliases) == pytest.approx(wanted, abs=1e-9)


def test_a_vocabulary_of_250_002_rows_by_a_power_law() -> None:
    rows = 250_002
    counts = (10**12 / np.arange(1, rows + 1)).astype(np.int64)
    limits, aliases = alias_table(counts)
    shares = shares_of(limits, aliases)
    assert abs(shares - counts / counts.sum()).max() < 2**-32
    sampler = UnigramSampler(counts, {0, 1, 2, 3, rows - 1})
    random = np.random.default_rng(5)
    first, second = random.integers(0, 2**32, (2, 10**6), dtype=np.uint32)
    drawn = np.bincount(sampler.pick(first, second), minlength=rows)
    assert drawn[[0, 1, 2, 3, rows - 1]].sum() == 0
    edges = np.unique(np.geomspace(4, rows - 1, 60).astype(int))[:-1]
    expected = np.add.reduceat(counts[: rows - 1].astype(float), edges)
    found = np.add.reduceat(drawn[: rows - 1], edges)
    # Seeds are fixed: the same value at each run.
    assert chisquare(found, expected / expected.sum() * 10**6).pvalue > 1e-3


def test_ids_without_a_count_and_specials_are_never_drawn() -> None:
    counts = np.array([90, 0, 5, 50, 0, 3, 0, 1, 1000])
    sampler = UnigramSampler(counts, frozenset({0, 3, 8}))
    random = np.random.default_rng(1)
    first, second = random.integers(0, 2**32, (2, 90_000), dtype=np.uint32)
    drawn = np.bincount(sampler.pick(first, second), minlength=9)
    assert drawn[[0, 1, 3, 4, 6, 8]].sum() == 0
    assert drawn[[2, 5, 7]] == pytest.approx([50_000, 30_000, 10_000], rel=0.05)
    ends = np.array([0, 2**32 - 1], dtype=np.uint32)
    for column in ends:
        for own in ends:
            assert sampler.pick(np.array([column]), np.array([own]))[0] in (2, 5, 7)


def test_uniform_draws_all_ordinary_ids_alike() -> None:
    sampler = UniformSampler(50, frozenset({0, 1, 2, 3, 49}))
    first = np.random.default_rng(3).integers(0, 2**32, 450_000, dtype=np.uint32)
    drawn = np.bincount(sampler.pick(first, first), minlength=50)
    assert drawn[[0, 1, 2, 3, 49]].sum() == 0
    assert chisquare(drawn[4:49]).pvalue > 1e-3
    ends = np.array([0, 2**32 - 1], dtype=np.uint32)
    assert sampler.pick(ends, ends).tolist() == [4, 48]


def test_tables_without_ordinary_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="no ordinary token"):
        UnigramSampler(np.array([5, 5, 5, 5]), frozenset({0, 1, 2, 3}))
    with pytest.raises(ValueError, match="no ordinary token"):
        UnigramSampler(np.zeros(9, dtype=np.int64), frozenset({0}))
    with pytest.raises(ValueError, match="id 2 has the count -1"):
        UnigramSampler(np.array([5, 5, -1]), frozenset({0}))
    with pytest.raises(ValueError, match="all 4 rows of the vocabulary are special"):
        UniformSampler(4, frozenset({0, 1, 2, 3}))
