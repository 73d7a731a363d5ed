from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rebalance import sampling_plan

COUNTS = st.dictionaries(
    st.text(min_size=1, max_size=3), st.integers(1, 10**9), min_size=1, max_size=30
)
UNCAPPED = 1e12


def test_the_textbook_example_with_one_tiny_language() -> None:
    plan = sampling_plan({"en": 1_000_000, "sw": 10_000, "yo": 1}, 0.3, UNCAPPED, budget=10_000)

    assert [share.q for share in plan] == pytest.approx([0.78924, 0.19825, 0.01251], abs=5e-6)
    assert sum(share.q for share in plan) == pytest.approx(1, abs=1e-9)
    assert plan[2].repeats == pytest.approx(125.09, abs=0.005)


def test_three_languages() -> None:
    counts = {"a": 900, "b": 90, "c": 10}

    assert [s.q for s in sampling_plan(counts, 0.3, UNCAPPED)] == pytest.approx(
        [0.5680, 0.2847, 0.1473], abs=5e-5
    )
    assert [s.q for s in sampling_plan(counts, 1, UNCAPPED)] == pytest.approx([0.9, 0.09, 0.01])
    assert [s.q for s in sampling_plan(counts, 0, UNCAPPED)] == pytest.approx([1 / 3] * 3)


def test_a_cap_gives_its_excess_to_the_others_in_proportion() -> None:
    plan = {s.language: s for s in sampling_plan({"a": 900, "b": 90, "c": 10}, 0.3, max_repeats=2)}

    # c: 2 x 10 / 1000. Then b: 0.98 x 0.2847 / (0.5680 + 0.2847) = 0.327 > 2 x 90 / 1000.
    assert plan["c"].q == pytest.approx(0.02)
    assert plan["b"].q == pytest.approx(0.18)
    assert plan["a"].q == pytest.approx(0.80)
    assert [plan[tag].capped for tag in "abc"] == [False, True, True]


@given(COUNTS, st.floats(0, 1), st.floats(1, 50))
def test_shares_sum_to_one_and_no_cap_is_broken(
    counts: dict[str, int], alpha: float, cap: float
) -> None:
    plan = sampling_plan(counts, alpha, cap)

    assert sum(share.q for share in plan) == pytest.approx(1, abs=1e-9)
    assert all(share.repeats <= cap * (1 + 1e-9) for share in plan)


@given(COUNTS, st.floats(0, 1))
def test_no_language_overtakes_a_larger_one(counts: dict[str, int], alpha: float) -> None:
    shares = {share.language: share.q for share in sampling_plan(counts, alpha, 8)}

    smallest_first = sorted(counts, key=counts.__getitem__)
    ordered = [shares[tag] for tag in smallest_first]
    assert all(b >= a * (1 - 1e-9) for a, b in zip(ordered, ordered[1:], strict=False))


def test_an_empty_language_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no text for: no"):
        sampling_plan({"en": 10, "no": 0}, 0.3, 8)
    with pytest.raises(ValueError, match="no language has text"):
        sampling_plan({}, 0.3, 8)
    with pytest.raises(ValueError, match="more than 2 repeats of 10"):
        sampling_plan({"en": 10}, 0.3, 2, budget=21)
