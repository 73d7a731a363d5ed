from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.config import ConfigError
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


def test_weights_are_the_shares_and_the_others_divide_the_rest() -> None:
    counts = {"a": 900, "b": 90, "c": 10}
    plan = {s.language: s for s in sampling_plan(counts, 0.3, weights={"c": 0.05})}

    assert plan["c"].q == pytest.approx(0.05) and plan["c"].weighted
    # a and b keep the proportion of their p^0.3, 0.5680 : 0.2847.
    assert plan["a"].q == pytest.approx(0.95 * 0.5680 / (0.5680 + 0.2847), abs=5e-5)
    assert plan["b"].q == pytest.approx(0.95 * 0.2847 / (0.5680 + 0.2847), abs=5e-5)
    assert not plan["a"].weighted


def test_a_weight_above_the_cap_is_lowered_and_its_excess_goes_to_the_others() -> None:
    counts = {"a": 900, "b": 90, "c": 10}
    plan = {s.language: s for s in sampling_plan(counts, 1, 5, weights={"c": 0.5})}

    assert plan["c"].q == pytest.approx(0.05)
    assert plan["c"].capped and plan["c"].weighted
    assert plan["a"].q == pytest.approx(0.95 * 900 / 990)
    assert plan["b"].q == pytest.approx(0.95 * 90 / 990)


def test_what_the_others_cannot_take_goes_to_the_weighted_languages() -> None:
    # b and c can be 2 x 0.1 of the mix together; the weights of a and d, 0.1 and 0.3, share the
    # rest in their proportion until a is at its own cap.
    counts = {"a": 100, "b": 60, "c": 40, "d": 800}
    plan = {s.language: s for s in sampling_plan(counts, 0.3, 2, weights={"a": 0.1, "d": 0.3})}
    assert plan["b"].q == pytest.approx(0.12) and plan["b"].capped
    assert plan["c"].q == pytest.approx(0.08) and plan["c"].capped
    assert plan["a"].q == pytest.approx(0.2) and not plan["a"].capped
    assert plan["d"].q == pytest.approx(0.6) and not plan["d"].capped


def test_all_languages_may_have_weights() -> None:
    weights = {"a": 0.2, "b": 0.3, "c": 0.5}
    plan = sampling_plan({"a": 900, "b": 90, "c": 10}, 0.3, weights=weights)
    assert {s.language: s.q for s in plan} == pytest.approx(weights)


@given(COUNTS, st.floats(0, 1), st.floats(1, 50), st.data())
def test_with_weights_too_shares_sum_to_one_and_no_cap_is_broken(
    counts: dict[str, int], alpha: float, cap: float, data: st.DataObject
) -> None:
    chosen = data.draw(st.sets(st.sampled_from(sorted(counts)), max_size=len(counts) - 1))
    weights = {tag: data.draw(st.floats(0.001, 0.99 / len(counts))) for tag in chosen}
    plan = sampling_plan(counts, alpha, cap, weights=weights)

    assert sum(share.q for share in plan) == pytest.approx(1, abs=1e-9)
    assert all(share.repeats <= cap * (1 + 1e-9) for share in plan)
    assert {share.language for share in plan if share.weighted} == chosen
    free_below_cap = [s for s in plan if not s.weighted and not s.capped]
    for share in plan:
        if share.weighted and free_below_cap and not share.capped:
            assert share.q == pytest.approx(weights[share.language])
        if share.capped:
            assert share.repeats == pytest.approx(cap)
    for a, b in zip(free_below_cap, free_below_cap[1:], strict=False):
        assert a.q / b.q == pytest.approx((a.count / b.count) ** alpha)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"sv": 0.1}, "'sv' has no text; did you mean 'sw'"),
        ({"zz": 0.1}, "'zz' has no text; languages with text: en, sw"),
        ({"en": 0.7, "sw": 0.4}, "sum to 1.1, above 1"),
        ({"en": 0.7, "sw": 0.2}, "all 2 languages sum to 0.9; need 1"),
        ({"en": 1.0}, "leave nothing for sw"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sampling_plan({"en": 100, "sw": 10}, 0.3, weights=weights)
