from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.config import PretrainingSection
from model.step_plan import StepPlan, step_plan_of

LENGTH = 10


def section(**values: Any) -> PretrainingSection:
    return PretrainingSection.model_validate({"warmup_steps": 0, **values})


def phases(*parts: tuple[float, int]) -> list[dict[str, Any]]:
    return [{"until": until, "sequences": sequences} for until, sequences in parts]


@dataclass(frozen=True)
class End:
    until: float


@st.composite
def sections(draw: st.DrawFn) -> PretrainingSection:
    sizes = sorted(draw(st.lists(st.integers(1, 40), min_size=1, max_size=4)))
    shares = st.floats(0.001, 0.999)
    ends = sorted(draw(st.sets(shares, min_size=len(sizes) - 1, max_size=len(sizes) - 1)))
    end = {draw(st.sampled_from(["steps", "tokens"])): draw(st.integers(1, 3000))}
    batches = phases(*zip(ends, sizes[:-1], strict=True))
    return section(
        sequences_per_step=sizes[-1], batches=batches, steps=end.pop("steps", 4000), **end
    )


def walked(settings: PretrainingSection, plan: StepPlan) -> list[tuple[int, int]]:
    """First sample and batch of every step, one step after the other."""
    steps, sample = [], 0
    while sample < plan.budget:
        ended = [phase for phase in settings.batches if round(phase.until * plan.budget) <= sample]
        left = settings.batches[len(ended) :]
        batch = left[0].sequences if left else settings.sequences_per_step
        steps.append((sample, batch))
        sample += batch
    return steps


@settings(deadline=None, max_examples=300)
@given(sections())
def test_every_step_is_where_walking_finds_it(given_section: PretrainingSection) -> None:
    plan = step_plan_of(given_section, LENGTH)
    steps = walked(given_section, plan)
    assert plan.steps == len(steps)
    assert [(plan.first_sample(s), plan.batch_at(s)) for s in range(plan.steps)] == steps
    assert plan.samples == plan.first_sample(plan.steps) == sum(batch for _, batch in steps)
    assert plan.budget <= plan.samples < plan.budget + steps[-1][1]
    for sample in (0, 1, plan.budget // 3, plan.budget, plan.samples, plan.samples + 5):
        at_or_after = [s for s, (first, _) in enumerate(steps) if first >= sample]
        assert plan.step_at(sample) == (at_or_after[0] if at_or_after else plan.steps)
    places = [plan.progress(s) for s in range(plan.steps)]
    assert places == sorted(set(places)) and places[0] == 0 and places[-1] < 1


@settings(deadline=None)
@given(sections())
def test_the_budget_is_what_was_asked_for(given_section: PretrainingSection) -> None:
    plan = step_plan_of(given_section, LENGTH)
    if given_section.tokens is None:
        assert plan.steps == given_section.steps
        larger = section(
            tokens=(plan.budget + 1) * LENGTH,
            sequences_per_step=given_section.sequences_per_step,
            batches=[phase.model_dump() for phase in given_section.batches],
        )
        assert step_plan_of(larger, LENGTH).steps == given_section.steps + 1
    else:
        assert (plan.budget - 1) * LENGTH < given_section.tokens <= plan.budget * LENGTH


def test_by_hand() -> None:
    # Batches of one size: 40 steps of 8. A phase of a third ends at sample round(106.67) = 107, and
    # the first step at or after it is step 14, which begins at 112.
    plan = step_plan_of(section(steps=40, sequences_per_step=8), LENGTH)
    assert (plan.steps, plan.samples, plan.budget) == (40, 320, 320)
    assert plan.end_of(End(1 / 3)) == 14 and plan.end_of(End(1.0)) == 40
    assert plan.progress(10) == 0.25
    # 1005 tokens of 10 a sequence: 101 sequences, 13 batches of 8 hold 104.
    plan = step_plan_of(section(tokens=1005, sequences_per_step=8), LENGTH)
    assert (plan.steps, plan.samples, plan.budget) == (13, 104, 101)
    # 100 sequences, the first 10 in batches of 4, up to 30 in 8, then 16: steps begin at
    # 0 4 8 | 12 20 28 | 36 52 68 84, and end at 100.
    batches = phases((0.1, 4), (0.3, 8))
    plan = step_plan_of(section(tokens=1000, sequences_per_step=16, batches=batches), LENGTH)
    assert [plan.first_sample(s) for s in range(11)] == [0, 4, 8, 12, 20, 28, 36, 52, 68, 84, 100]
    assert [plan.batch_at(s) for s in range(10)] == [4] * 3 + [8] * 3 + [16] * 4
    # The same in steps: of all budgets that take ten steps the largest is 100.
    assert step_plan_of(section(steps=10, sequences_per_step=16, batches=batches), LENGTH) == plan


def test_a_phase_covers_the_steps_before_its_end() -> None:
    plan = step_plan_of(section(steps=40, sequences_per_step=8), LENGTH)
    parts = [End(0.1), End(0.55), End(1.0)]
    assert [plan.phase_at(parts, s) for s in (0, 3, 4, 21, 22, 39)] == [
        parts[0],
        parts[0],
        parts[1],
        parts[1],
        parts[2],
        parts[2],
    ]
    assert plan.phase_at(parts[:2], 22) is None


def test_a_billion_steps_are_planned_at_once() -> None:
    settings = section(steps=10**9, sequences_per_step=64, batches=phases((0.02, 8), (0.05, 32)))
    plan = step_plan_of(settings, 512)
    assert plan.steps == 10**9 and len(plan.parts) == 3
    for step in (0, 10**8, 999_999_999):
        assert plan.step_at(plan.first_sample(step)) == step
        assert plan.step_at(plan.first_sample(step) + 1) == step + 1


def test_steps_that_are_none_are_refused() -> None:
    plan = step_plan_of(section(steps=40, sequences_per_step=8), LENGTH)
    for call in (plan.batch_at, plan.progress):
        with pytest.raises(ValueError, match=r"step 40 is outside 0 \.\.\. 39"):
            call(40)
    with pytest.raises(ValueError, match=r"step -1 is outside 0 \.\.\. 40"):
        plan.first_sample(-1)


def test_batches_that_shrink_are_refused() -> None:
    with pytest.raises(ValueError, match=r"batches shrink: \[8, 4, 16\]"):
        section(sequences_per_step=16, batches=phases((0.1, 8), (0.3, 4)))
    with pytest.raises(ValueError, match=r"batches shrink: \[32, 16\]"):
        section(sequences_per_step=16, batches=phases((0.1, 32)))
    with pytest.raises(ValueError, match="rising shares"):
        section(sequences_per_step=16, batches=phases((0.3, 4), (0.1, 8)))
