from __future__ import annotations

from statistics import median
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from model.config import PretrainingSection
from model.spikes import FEWEST, WINDOW, SpikeWatch
from model.step_plan import step_plan_of


def watch(losses: list[float], **changes: Any) -> tuple[SpikeWatch, list[str]]:
    settings = PretrainingSection.model_validate(
        {"steps": 1000, "warmup_steps": 0, "sequences_per_step": 8, **changes}
    )
    notes: list[str] = []
    return SpikeWatch(settings, step_plan_of(settings, 32), losses, notes.append), notes


def test_a_loss_above_the_factor_times_the_median_is_noted_with_its_samples() -> None:
    losses = [4.0] * 10 + [5.0] * 5 + [3.0] * 5
    judge, notes = watch(losses)
    assert judge.judge(20, 8.0) is None and notes == [], "twice the median is not above it"
    assert judge.judge(21, 8.1) is None
    [note] = notes
    assert note.startswith("step 22: loss 8.1000 is 2.0 times the median of the last 21 steps (4.0")
    assert "samples 168 to 175" in note, "21 x 8 is the first of 8"
    assert losses[-2:] == [8.0, 8.1], "a spike is remembered too"


def test_a_spike_can_stop_training_and_says_what_to_type() -> None:
    losses = [2.0] * 50
    judge, notes = watch(losses, on_spike="stop", spike_factor=1.5)
    found = judge.judge(50, 3.01)
    assert found is not None and "pretraining.skip_steps = [51]" in found
    assert "learning_rate" in found and "not updated" in found and "samples 400 to 407" in found
    assert notes == [] and len(losses) == 50, "the refused step leaves no trace"


def test_the_first_losses_are_not_judged_and_without_a_factor_none_is() -> None:
    judge, notes = watch([1.0] * (FEWEST - 1))
    judge.judge(FEWEST - 1, 50.0)
    assert notes == []
    judge.judge(FEWEST, 50.0)
    assert len(notes) == 1
    judge, notes = watch([1.0] * 50, spike_factor=0.0)
    judge.judge(50, 1e6)
    assert notes == []


@given(st.lists(st.floats(0.1, 20.0), max_size=260))
def test_it_is_the_median_of_the_last_hundred_at_any_place(losses: list[float]) -> None:
    kept: list[float] = []
    judge, notes = watch(kept, spike_factor=1.2)
    wanted = 0
    for step, loss in enumerate(losses):
        before = losses[max(0, step - WINDOW) : step]
        wanted += len(before) >= FEWEST and loss > 1.2 * median(before)
        judge.judge(step, loss)
    assert len(notes) == wanted
    assert kept == losses[-WINDOW:], "all that a restart needs"


def test_a_median_of_nothing_divides_nothing() -> None:
    losses = [0.0] * 20
    judge, notes = watch(losses)
    assert judge.judge(20, 0.0) is None and notes == []
    assert judge.judge(21, 0.5) is None
    [note] = notes
    assert note.startswith("step 22: loss 0.5000 is above the median of the last 21 steps (0.0000")
    judge, _ = watch([0.0] * 20, on_spike="stop")
    assert "above the median" in str(judge.judge(20, 1e-300))
    judge, notes = watch([5e-324] * 20)
    assert judge.judge(20, 1e300) is None and "inf times" in notes[0]
