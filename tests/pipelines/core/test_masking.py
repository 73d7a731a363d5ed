from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pipelines.core.masking import MaskingRule, UnigramSampler, choose_and_replace

SPECIAL = frozenset({0, 1, 2, 3, 1001})
RULE = MaskingRule(0.15, 0.8, 0.1, mask_id=1001, special_ids=SPECIAL)
COUNTS = np.arange(1002, dtype=np.int64)
SAMPLER = UnigramSampler(COUNTS, SPECIAL)


def test_padding_and_specials_are_never_chosen_and_the_others_equally_often() -> None:
    tokens = np.array([0, 10, 11, 12, 2, 1, 1, 1], dtype=np.uint32)
    rule = MaskingRule(1 / 3, 0.8, 0.1, mask_id=1001, special_ids=SPECIAL)

    chosen = np.zeros(8, dtype=int)
    for draw in range(1000):
        positions, _ = choose_and_replace(tokens, rule, SAMPLER, 7, draw, "s")
        assert len(positions) == 1
        chosen[positions] += 1

    assert chosen[[0, 4, 5, 6, 7]].sum() == 0
    assert all(abs(count - 1000 / 3) < 4 * (1000 * 2 / 9) ** 0.5 for count in chosen[1:4])


def test_separators_in_the_middle_stay() -> None:
    tokens = np.array([0, 10, 2, 2, 11, 2], dtype=np.uint32)
    for draw in range(200):
        positions, _ = choose_and_replace(tokens, RULE, SAMPLER, 7, draw, "s")
        assert set(positions.tolist()) <= {1, 4}


@given(st.lists(st.integers(0, 1001), max_size=200), st.integers(0, 9), st.floats(0.01, 0.99))
def test_exactly_the_share_is_chosen_and_at_least_one(
    ids: list[int], pass_index: int, rate: float
) -> None:
    tokens = np.array(ids, dtype=np.uint32)
    rule = MaskingRule(rate, 0.8, 0.1, mask_id=1001, special_ids=SPECIAL)
    ordinary = sum(i not in SPECIAL for i in ids)

    positions, replaced = choose_and_replace(tokens, rule, SAMPLER, 7, pass_index, "s")

    assert len(positions) == len(replaced) == (max(1, round(rate * ordinary)) if ordinary else 0)
    assert len(set(positions.tolist())) == len(positions)
    assert not set(tokens[positions].tolist()) & SPECIAL
    assert not set(replaced.tolist()) & {0, 1, 2, 3}


def test_a_mask_depends_on_seed_pass_and_sequence_alone() -> None:
    tokens = np.arange(4, 204, dtype=np.uint32)

    def mask(seed: int, pass_index: int, name: str) -> list[int]:
        return choose_and_replace(tokens, RULE, SAMPLER, seed, pass_index, name)[0].tolist()

    assert mask(1, 0, "a") == mask(1, 0, "a")
    assert (
        len({tuple(mask(*key)) for key in [(1, 0, "a"), (2, 0, "a"), (1, 1, "a"), (1, 0, "b")]})
        == 4
    )


def test_replacements_are_80_10_10_and_follow_the_unigram_distribution() -> None:
    tokens = np.full(1000, 4, dtype=np.uint32)  # id 4 itself is drawn about once in 125,000
    fates = {"mask": 0, "random": 0, "same": 0}
    drawn = np.zeros(1002)
    for draw in range(1000):
        _, replaced = choose_and_replace(tokens, RULE, SAMPLER, 7, draw, "s")
        fates["mask"] += int((replaced == 1001).sum())
        fates["same"] += int((replaced == 4).sum())
        other = replaced[(replaced != 1001) & (replaced != 4)]
        fates["random"] += len(other)
        np.add.at(drawn, other, 1)

    total = sum(fates.values())
    assert total == 150_000
    expected = [total * share for share in (0.8, 0.1, 0.1)]
    assert chisquare(list(fates.values()), expected).pvalue > 1e-3
    bins = np.add.reduceat(drawn[5:1001], np.arange(0, 996, 83))
    weights = np.add.reduceat(COUNTS[5:1001], np.arange(0, 996, 83)).astype(float)
    assert chisquare(bins, weights / weights.sum() * bins.sum()).pvalue > 1e-3


def test_counts_without_ordinary_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="no ordinary token"):
        UnigramSampler(np.array([5, 5, 5, 5]), frozenset({0, 1, 2, 3}))
