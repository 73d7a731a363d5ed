from __future__ import annotations

import math
from typing import Any

import pytest

from flows.config import resolve
from model.config import PretrainingSection
from model.schedules import check_schedule, learning_rate, warmup_then_linear
from model.step_plan import step_plan_of
from pipelines.core.config import ConfigError

LENGTH = 10
"""Tokens of a sequence; with batches of 8, a step has 80 tokens."""


def section(**values: Any) -> PretrainingSection:
    base = {"learning_rate": 1.0, "sequences_per_step": 8, "steps": 12, "warmup_steps": 4}
    return PretrainingSection.model_validate(base | values)


def rates(settings: PretrainingSection) -> list[float]:
    plan = step_plan_of(settings, LENGTH)
    return [learning_rate(step, settings, plan) for step in range(plan.steps)]


WARM = [0.25, 0.5, 0.75, 1.0]

TABLE: list[tuple[str, dict[str, Any], list[float]]] = [
    ("linear", {}, [*WARM, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]),
    ("no warm-up", {"warmup_steps": 0, "steps": 4}, [1, 0.75, 0.5, 0.25]),
    # 160 tokens are two steps, and 960 are all twelve.
    (
        "in tokens",
        {"tokens": 960, "warmup_tokens": 160},
        [0.5, 1, *(1 - i / 10 for i in range(10))],
    ),
    # 200 tokens are 2.5 steps: (0 + 80) / 200, (80 + 80) / 200, and (160 + 80) / 200 is above 1.
    # 480 tokens are 6 steps, and 280 of them remain; step 3 begins at token 240.
    (
        "no whole steps",
        {"tokens": 480, "warmup_tokens": 200},
        [0.4, 0.8, 1, 240 / 280, 160 / 280, 80 / 280],
    ),
    (
        "to a share",
        {"final_rate_share": 0.2},
        [*WARM, *(0.2 + 0.8 * i / 8 for i in range(8, 0, -1))],
    ),
    (
        "polynomial",
        {"schedule": "polynomial", "power": 2.0},
        [*WARM, *((i / 8) ** 2 for i in range(8, 0, -1))],
    ),
    # The last quarter, three of twelve steps, falls.
    (
        "trapezoid",
        {"schedule": "trapezoid", "decay_share": 0.25},
        [*WARM, 1, 1, 1, 1, 1, 1, 1 - math.sqrt(1 / 3), 1 - math.sqrt(2 / 3)],
    ),
    (
        "trapezoid to a share",
        {"schedule": "trapezoid", "decay_share": 0.25, "final_rate_share": 0.02},
        [*WARM, 1, 1, 1, 1, 1, 1, 1 - 0.98 * math.sqrt(1 / 3), 1 - 0.98 * math.sqrt(2 / 3)],
    ),
]


@pytest.mark.parametrize(
    ("values", "wanted"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_by_hand(values: dict[str, Any], wanted: list[float]) -> None:
    assert rates(section(**values)) == pytest.approx(wanted, abs=1e-12)


def test_the_peak_is_the_setting() -> None:
    assert max(rates(section(learning_rate=2e-4))) == 2e-4


@pytest.mark.parametrize("schedule", ["linear", "polynomial", "trapezoid"])
def test_the_same_place_has_the_same_rate_whatever_the_batches(schedule: str) -> None:
    common = {
        "schedule": schedule,
        "power": 1.5,
        "tokens": 8000,
        "warmup_tokens": 1700,
        "sequences_per_step": 16,
        "final_rate_share": 0.1,
    }
    found: dict[int, list[float]] = {}
    for batches in (
        [],
        [{"until": 0.1, "sequences": 4}],
        [{"until": 0.2, "sequences": 2}, {"until": 0.5, "sequences": 8}],
    ):
        settings = section(**common, batches=batches)
        plan = step_plan_of(settings, LENGTH)
        for step in range(plan.steps):
            found.setdefault(plan.first_sample(step), []).append(
                learning_rate(step, settings, plan)
            )
    assert all(len(set(values)) == 1 for values in found.values())
    assert sum(len(values) == 3 for values in found.values()) == 50, "every sixteenth of 800"


def test_steps_that_are_none_are_refused() -> None:
    settings = section()
    with pytest.raises(ValueError, match=r"step 12 is outside 0 \.\.\. 11"):
        learning_rate(12, settings, step_plan_of(settings, LENGTH))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        # 30 of 100 sequences come in batches of 2: 15 steps, then 9 of 8.
        (
            {"steps": 24, "warmup_steps": 13, "batches": [{"until": 0.3, "sequences": 2}]},
            r"warmup_steps = 13 \(of 8 sequences of 10 tokens\).*1,040 tokens, the training has",
        ),
        ({"tokens": 320}, r"warmup_steps = 4 .*takes 320 tokens, the training has 320;"),
        ({"warmup_tokens": 960}, r"warmup_tokens = 960: .*takes 960 tokens, the training has 960;"),
        (
            {"schedule": "trapezoid", "decay_share": 0.7},
            r"warmup_steps = 4 .*320 of 960 tokens, and with pretraining\.decay_share = 0\.7 .*288",
        ),
        ({"skip_steps": [*range(1, 13)]}, r"skip_steps: all 12 steps are passed over; leave one"),
        ({"skip_steps": [3, 13]}, r"skip_steps: \[13\]; the training has 12 steps"),
        ({"steps": 10**12, "warmup_steps": 0}, r"draw 8,000,000,000,000 sequences; at most"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_schedule(section(**values), LENGTH)


def test_a_schedule_that_just_fits_is_taken() -> None:
    check_schedule(section(steps=5), LENGTH)
    check_schedule(section(schedule="trapezoid", decay_share=2 / 3), LENGTH)
    check_schedule(section(skip_steps=[1, 12]), LENGTH)
    check_schedule(section(skip_steps=[*range(2, 13)]), LENGTH)


def test_a_run_with_such_a_schedule_is_refused_before_anything_starts() -> None:
    settings = {"pretraining.tokens": 1000, "pretraining.warmup_steps": 60}
    with pytest.raises(ConfigError, match="warmup_steps = 60 .*has to be shorter"):
        resolve("demo", settings=settings)


def test_of_fine_tuning() -> None:
    found = [warmup_then_linear(s, peak=1.0, warmup_steps=4, steps=12) for s in range(12)]
    assert found[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert found[4:] == pytest.approx([1 - i / 8 for i in range(8)])
    with pytest.raises(ValueError, match="step 12 is outside"):
        warmup_then_linear(12, peak=1.0, warmup_steps=4, steps=12)
