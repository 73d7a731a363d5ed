from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.data.sample_plan import Phase, SamplePlan, Samples
from model.data.sample_usage import Usage, usage_of
from model.distributed import share_of_batch

COUNTS = {"en": 700, "fi": 90, "sw": 11}
SHARES = {"en": 0.5, "fi": 0.3, "sw": 0.2}
ENDLESS = [Phase(None, SHARES)]
RESOLUTION = 1e-6
"""Shares are multiples of 2^-40: what that adds to a deviation at the sample numbers used here."""
TAGS = [f"l{i}" for i in range(9)]


@st.composite
def plans(draw: st.DrawFn) -> SamplePlan:
    tags = TAGS[: draw(st.integers(1, 9))]
    counts = {tag: draw(st.integers(1, 40)) for tag in tags}
    lengths = [draw(st.integers(0, 400)) for _ in range(draw(st.integers(0, 2)))]
    phases = [
        Phase(length, {tag: draw(st.floats(0.002, 1)) for tag in tags})
        for length in [*lengths, draw(st.sampled_from([None, 700]))]
    ]
    return SamplePlan(counts, phases, draw(st.integers(0, 2**32)))


def ends(plan: SamplePlan) -> list[int]:
    return [sum(p.samples or 0 for p in plan.phases[: i + 1]) for i in range(len(plan.phases))]


def same(a: Samples, b: Samples) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("languages", "rows", "passes")
    )


def joined(parts: list[Samples]) -> Samples:
    return Samples(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("languages", "rows", "passes")
        )
    )


def exact(shares: Mapping[str, float], samples: int) -> dict[str, float]:
    whole = math.fsum(shares.values())
    return {tag: share / whole * samples for tag, share in shares.items()}


@settings(deadline=None)
@given(plans())
def test_every_language_comes_without_replacement_pass_after_pass(plan: SamplePlan) -> None:
    found = plan.samples(0, ends(plan)[-1] or 700)
    drawn: Counter[int] = Counter()
    rows: dict[tuple[int, int], list[int]] = {}
    for language, row, pass_index in zip(
        found.languages.tolist(), found.rows.tolist(), found.passes.tolist(), strict=True
    ):
        texts = plan.counts[plan.languages[language]]
        assert pass_index == drawn[language] // texts  # at every sample, also across phases
        drawn[language] += 1
        rows.setdefault((language, pass_index), []).append(row)
    for (language, pass_index), drawn_rows in rows.items():
        texts = plan.counts[plan.languages[language]]
        assert len(set(drawn_rows)) == len(drawn_rows)
        assert set(drawn_rows) <= set(range(texts))
        if pass_index < drawn[language] // texts:
            assert sorted(drawn_rows) == list(range(texts))


@settings(deadline=None)
@given(plans())
def test_counts_sum_and_are_less_than_one_off_at_the_end_of_a_phase(plan: SamplePlan) -> None:
    begin = 0
    for phase, end in zip(plan.phases, ends(plan), strict=True):
        if phase.samples:
            found = plan.samples(begin, phase.samples)
            counts = np.bincount(found.languages, minlength=len(plan.languages))
            assert counts.sum() == phase.samples
            wanted = exact(phase.shares, phase.samples)
            for tag, count in zip(plan.languages, counts.tolist(), strict=True):
                assert abs(count - wanted[tag]) < 1 + RESOLUTION
            begin = end


@settings(deadline=None)
@given(plans(), st.data())
def test_any_cut_gives_the_same_samples(plan: SamplePlan, data: st.DataObject) -> None:
    end = plan.length if plan.length is not None else 900
    cuts = sorted(data.draw(st.lists(st.integers(0, end), max_size=4)))
    points = [0, *cuts, end]
    parts = [plan.samples(a, b - a) for a, b in zip(points, points[1:], strict=False)]
    whole = plan.samples(0, end)
    assert same(joined(parts), whole)
    if end:
        index = data.draw(st.integers(0, end - 1))
        one = plan.sample(index)
        assert one.language == plan.languages[int(whole.languages[index])]
        assert (one.row, one.pass_index) == (int(whole.rows[index]), int(whole.passes[index]))
        drawn = np.bincount(whole.languages[:index], minlength=len(plan.languages))
        assert plan.drawn(index).tolist() == drawn.tolist()


@pytest.mark.parametrize("shares", [SHARES, {"en": 0.9795, "fi": 0.02, "sw": 0.0005}])
def test_languages_follow_their_shares_in_every_stretch(shares: dict[str, float]) -> None:
    plan = SamplePlan(COUNTS, [Phase(None, shares)], seed=7)
    one_hot = np.zeros((8001, 3), dtype=np.int64)
    one_hot[np.arange(8000) + 1, plan.samples(0, 8000).languages] = 1
    cumulated = one_hot.cumsum(axis=0)
    for length in (32, 100, 1000):
        stretches = cumulated[length:] - cumulated[:-length]
        wanted = [exact(shares, length)[tag] for tag in plan.languages]
        assert np.abs(stretches - wanted).max() <= 4


def test_the_order_is_mixed_and_another_seed_gives_another() -> None:
    found = SamplePlan(COUNTS, ENDLESS, seed=7).samples(0, 4000)
    runs = 1 + int((np.diff(found.languages) != 0).sum())
    assert runs > 2000  # no language comes in one piece
    other = SamplePlan(COUNTS, ENDLESS, seed=8).samples(0, 4000)
    assert not np.array_equal(found.rows, other.rows)
    assert not np.array_equal(found.languages, other.languages)
    first = found.rows[(found.languages == 0) & (found.passes == 0)]
    second = found.rows[(found.languages == 0) & (found.passes == 1)]
    assert sorted(first) == sorted(second) == list(range(700))
    assert not np.array_equal(first, second)


def test_a_longer_training_begins_with_the_same_samples() -> None:
    endless = SamplePlan(COUNTS, ENDLESS, seed=7)
    cut = SamplePlan(COUNTS, [Phase(500, SHARES), Phase(None, dict.fromkeys(SHARES, 1))], seed=7)
    assert same(endless.samples(0, 490), cut.samples(0, 490))
    assert same(endless.samples(1234, 50), SamplePlan(COUNTS, ENDLESS, seed=7).samples(1234, 50))


def test_a_budget_is_met_exactly_and_its_use_of_the_texts_is_told() -> None:
    counts = {"a": 3, "b": 4, "c": 5}
    equal = SamplePlan(counts, [Phase(12, {"a": 1, "b": 1, "c": 1})], seed=7)
    assert equal.length == len(equal.samples(0, 12).languages) == 12
    assert usage_of(equal, 12) == [
        Usage("a", texts=3, draws=4, once=2, repeated=1, never=0),
        Usage("b", texts=4, draws=4, once=4, repeated=0, never=0),
        Usage("c", texts=5, draws=4, once=4, repeated=0, never=1),
    ]
    with pytest.raises(IndexError, match="the plan has 0 to 12"):
        equal.samples(0, 13)
    uneven = SamplePlan(counts, [Phase(100, {"a": 0.7, "b": 0.2, "c": 0.1})], seed=7)
    assert [use.draws for use in usage_of(uneven, 100)] == [70, 20, 10]
    assert [use.repeated for use in usage_of(uneven, 100)] == [3, 4, 5]
    endless = SamplePlan(counts, [Phase(None, {"a": 0.7, "b": 0.2, "c": 0.1})], seed=7)
    for use, wanted in zip(usage_of(endless, 100), (70, 20, 10), strict=True):
        assert abs(use.draws - wanted) <= 1


@settings(deadline=None)
@given(plans(), st.integers(0, 700))
def test_usage_is_what_counting_finds(plan: SamplePlan, budget: int) -> None:
    budget = min(budget, plan.length if plan.length is not None else budget)
    found = plan.samples(0, budget)
    times = Counter(zip(found.languages.tolist(), found.rows.tolist(), strict=True))
    for index, use in enumerate(usage_of(plan, budget)):
        own = [count for (language, _), count in times.items() if language == index]
        assert use.once == own.count(1)
        assert use.repeated == len(own) - own.count(1)
        assert use.never == use.texts - len(own)
        assert use.draws == sum(own)


def test_a_language_that_is_never_drawn_shows_in_the_usage() -> None:
    plan = SamplePlan({"en": 10, "fi": 10}, [Phase(1000, {"en": 1.0, "fi": 1e-5})], seed=1)
    assert usage_of(plan, 1000)[1] == Usage("fi", 10, draws=0, once=0, repeated=0, never=10)


def test_the_plan_of_a_billion_sequences_is_small_and_exact() -> None:
    counts = {f"l{i:03}": 10**9 // (i + 1) ** 2 for i in range(100)}
    whole = sum(count**0.3 for count in counts.values())
    shares = {tag: count**0.3 / whole for tag, count in counts.items()}
    tracemalloc.start()
    plan = SamplePlan(counts, [Phase(10**9, shares)], seed=3)
    made = tracemalloc.get_traced_memory()[1]
    found = plan.samples(987_654_321, 1024)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made < 2**18 and peak < 2**21
    counts_drawn = plan.drawn(10**9)
    assert counts_drawn.sum() == 10**9
    wanted = exact(shares, 10**9)
    for tag, count in zip(plan.languages, counts_drawn.tolist(), strict=True):
        assert abs(count - wanted[tag]) < 1 + 1e9 * 2**-40
    sizes = np.array([counts[tag] for tag in plan.languages])[found.languages]
    assert (found.rows < sizes).all() and (found.rows >= 0).all()
    again = [plan.sample(987_654_321 + i) for i in (0, 511, 1023)]
    assert [s.row for s in again] == found.rows[[0, 511, 1023]].tolist()


def test_the_order_stays_what_it_was() -> None:
    # A training that goes on under a later version of this code must draw the same samples.
    phases = [Phase(500, SHARES), Phase(None, {"en": 0.2, "fi": 0.4, "sw": 0.4})]
    plan = SamplePlan(COUNTS, phases, seed=7)
    first, over_the_border = plan.samples(0, 8), plan.samples(496, 8)
    assert first.languages.tolist() == [1, 1, 0, 0, 0, 2, 0, 0]
    assert first.rows.tolist() == [54, 3, 143, 287, 576, 10, 255, 431]
    assert over_the_border.languages.tolist() == [0, 2, 1, 0, 0, 2, 2, 1]
    assert over_the_border.rows.tolist() == [679, 2, 87, 195, 425, 3, 8, 15]
    assert over_the_border.passes.tolist() == [0, 9, 1, 0, 0, 9, 9, 1]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 9])
def test_workers_share_a_batch_without_overlap(world_size: int) -> None:
    shares = [share_of_batch(8, rank, world_size) for rank in range(world_size)]
    assert [i for share in shares for i in share] == list(range(8))


@pytest.mark.parametrize(
    ("counts", "phases", "message"),
    [
        ({"en": 1}, [Phase(None, {"fi": 1.0})], r"shares of \['fi'\], sequences are of \['en'\]"),
        ({"en": 1, "fi": 0}, [Phase(None, {"en": 1.0})], "no sequence of: fi"),
        ({"en": 1, "fi": 1}, [Phase(None, {"en": 1.0})], r"\['fi'\] have sequences and no share"),
        ({"en": 1, "fi": 1}, [Phase(None, {"en": 1.0, "fi": 1e-10})], "share of 'fi', 1e-10, is t"),
        ({"en": 1}, [Phase(None, {"en": 1.0})] * 2, "phase 1 of 2 has no end"),
        ({"en": 1}, [Phase(-1, {"en": 1.0})], "has -1 samples"),
        ({"en": 1}, [Phase(5, {"en": 0.0})], "no language has a share above 0"),
        ({"en": 1}, [Phase(5, {"en": math.nan})], "need 0 or more"),
        ({"en": 1}, [], "needs sequences and a phase"),
    ],
)
def test_a_plan_that_cannot_be_says_why(
    counts: dict[str, int], phases: list[Phase], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        SamplePlan(counts, phases, seed=1)


def test_samples_outside_the_plan_are_refused() -> None:
    plan = SamplePlan(COUNTS, ENDLESS, seed=1)
    with pytest.raises(IndexError, match="samples -1 to 0"):
        plan.sample(-1)
    assert len(plan.samples(5, 0).languages) == 0
    assert plan.drawn(0).tolist() == [0, 0, 0]
