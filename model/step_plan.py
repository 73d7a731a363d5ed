"""How training is cut into steps: batch sizes, first samples, and where phases end.

Everything is counted in packed sequences (samples), and so in tokens: a sample counts as
packing.length tokens. All of it is a closed form of the step, so that resuming replays nothing.

A step's batch is that of the first phase of [[pretraining.batches]] that has not ended. A phase,
of batches or of anything else, ends at the first step whose first sample is at or after
round(until x budget). With `tokens` the budget is the fewest samples that hold them. With `steps`
it is the largest budget that takes so many steps: steps x sequences_per_step where all batches have
one size. The last batch is whole, so that `samples` is the budget or less than a batch more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from model.config.pretraining import BatchPhase, PretrainingSection


class HasEnd(Protocol):
    """A phase that ends at a share of the training tokens."""

    @property
    def until(self) -> float:
        """The share."""
        ...


P = TypeVar("P", bound=HasEnd)


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive steps with batches of one size."""

    first_step: int
    first_sample: int
    batch: int


@dataclass(frozen=True)
class StepPlan:
    """The steps of a training; `steps` and `samples` are the ends, one after the last."""

    length: int
    """Tokens that a sample counts as: packing.length."""
    budget: int
    """Samples that were asked for; shares of the training tokens are shares of them."""
    parts: tuple[Part, ...]
    """In order, the first at step 0."""
    steps: int
    """Updates in all."""
    samples: int
    """Packed sequences that are drawn in all."""

    def batch_at(self, step: int) -> int:
        """Sequences of a step, from 0.

        Raises:
            ValueError: it is not one of the training's steps.
        """
        self._check(step, self.steps - 1)
        return self._part(step).batch

    def first_sample(self, step: int) -> int:
        """Global number of a step's first sequence; of step `steps`, `samples`.

        Raises:
            ValueError: it is not one of the training's steps.
        """
        self._check(step, self.steps)
        part = self._part(step)
        return part.first_sample + (step - part.first_step) * part.batch

    def step_at(self, sample: int) -> int:
        """The first step whose first sample is at or after `sample`; `steps` after the last one."""
        if sample <= 0:
            return 0
        starts = [part.first_sample for part in self.parts]
        part = self.parts[bisect_right(starts, sample) - 1]
        after = part.first_step - (part.first_sample - sample) // part.batch
        return min(after, self.steps)

    def progress(self, step: int) -> float:
        """Share of the budget before a step, from 0 to below 1."""
        self._check(step, self.steps - 1)
        return self.first_sample(step) / self.budget

    def end_of(self, phase: HasEnd) -> int:
        """The first step after a phase."""
        return self.step_at(round(phase.until * self.budget))

    def phase_at(self, phases: Sequence[P], step: int) -> P | None:
        """The phase that a step belongs to; None after the last one."""
        return next((phase for phase in phases if step < self.end_of(phase)), None)

    def _part(self, step: int) -> Part:
        return self.parts[bisect_right([part.first_step for part in self.parts], step) - 1]

    def _check(self, step: int, last: int) -> None:
        if not 0 <= step <= last:
            raise ValueError(f"step {step} is outside 0 ... {last}")


def step_plan_of(settings: PretrainingSection, length: int) -> StepPlan:
    """The steps of a training.

    Args:
        length: packing.length.
    """
    if settings.tokens is not None:
        return _plan(settings, length, -(-settings.tokens // length))
    if not settings.batches:
        return _plan(settings, length, settings.steps * settings.sequences_per_step)
    # Batches never shrink, so one sample more in the budget is at most one step more: every number
    # of steps is met, and the budget can be found by halving.
    low, high = 1, settings.steps * settings.sequences_per_step
    while low < high:
        middle = (low + high + 1) // 2
        if _plan(settings, length, middle).steps <= settings.steps:
            low = middle
        else:
            high = middle - 1
    return _plan(settings, length, low)


def _plan(settings: PretrainingSection, length: int, budget: int) -> StepPlan:
    """The plan of a budget of samples."""
    parts, step, sample = [], 0, 0
    last = BatchPhase.model_construct(until=1.0, sequences=settings.sequences_per_step)
    for phase in (*settings.batches, last):
        missing = round(phase.until * budget) - sample
        count = max(0, -(-missing // phase.sequences))
        if count:
            parts.append(Part(step, sample, phase.sequences))
        step, sample = step + count, sample + count * phase.sequences
    return StepPlan(length, budget, tuple(parts), step, sample)
