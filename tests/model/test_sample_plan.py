from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.distributed import share_of_batch
from model.sample_plan import SamplePlan, permuted, quotas
from model.schedules import warmup_then_linear

COUNTS = {"en": 700, "fi": 90, "sw": 11}
SHARES = {"en": 0.5, "fi": 0.3, "sw": 0.2}


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_permutation_hits_every_place_once(size: int, key: int) -> None:
    assert sorted(permuted(i, size, key) for i in range(size)) == list(range(size))


@given(
    st.dictionaries(st.text("abcdef", min_size=1), st.floats(0.001, 1.0), min_size=1),
    st.integers(1, 5000),
)
def test_quotas_sum_to_the_window_and_miss_their_share_by_less_than_one(
    shares: dict[str, float], window: int
) -> None:
    found, whole = quotas(shares, window), sum(shares.values())
    assert sum(found.values()) == window
    for tag, share in shares.items():
        assert abs(found[tag] - share / whole * window) < 1 + 1e-6


def test_languages_follow_their_shares_in_every_stretch() -> None:
    plan = SamplePlan(COUNTS, SHARES, seed=7)
    seen = Counter(plan.sample(i).language for i in range(plan.window))
    assert seen == plan.quotas == {"en": 512, "fi": 307, "sw": 205}
    for begin in (0, 100, 1000):
        stretch = Counter(plan.sample(begin + i).language for i in range(100))
        for tag, share in SHARES.items():
            assert abs(stretch[tag] - 100 * share) <= 3


def test_a_language_is_gone_through_whole_before_it_is_repeated_in_another_order() -> None:
    plan = SamplePlan(COUNTS, SHARES, seed=7)
    rows: dict[tuple[str, int], list[int]] = {}
    for sample in map(plan.sample, range(3000)):
        rows.setdefault((sample.language, sample.pass_index), []).append(sample.row)
    assert sorted(rows["sw", 0]) == sorted(rows["sw", 1]) == list(range(11))
    assert rows["sw", 0] != rows["sw", 1]
    assert sorted(rows["fi", 0]) == list(range(90))
    assert sorted(rows["en", 0]) == list(range(700))


def test_any_sample_is_found_without_the_ones_before_it() -> None:
    straight = SamplePlan(COUNTS, SHARES, seed=7)
    wanted = [straight.sample(i) for i in range(4000)]
    for index in (3999, 0, 2048, 17):
        assert SamplePlan(COUNTS, SHARES, seed=7).sample(index) == wanted[index]
    assert [SamplePlan(COUNTS, SHARES, seed=8).sample(i) for i in range(50)] != wanted[:50]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 9])
def test_workers_share_a_batch_without_overlap(world_size: int) -> None:
    shares = [share_of_batch(8, rank, world_size) for rank in range(world_size)]
    assert [i for share in shares for i in share] == list(range(8))


def test_a_language_that_cannot_be_sampled_is_named() -> None:
    with pytest.raises(ValueError, match="too small to be met.*'fi'"):
        SamplePlan({"en": 1, "fi": 1}, {"en": 1.0, "fi": 1e-8}, seed=1)
    with pytest.raises(ValueError, match="need the same"):
        SamplePlan({"en": 1}, {"fi": 1.0}, seed=1)


def test_learning_rate_rises_to_its_peak_and_falls_linearly() -> None:
    rates = [warmup_then_linear(s, peak=1.0, warmup_steps=4, steps=12) for s in range(12)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[4:] == pytest.approx([1 - i / 8 for i in range(8)])
    with pytest.raises(ValueError, match="step 12 is outside"):
        warmup_then_linear(12, peak=1.0, warmup_steps=4, steps=12)
