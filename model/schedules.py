"""Learning rate as a pure function of the step, so that there is no state to lose.

In pretraining it is a function of the place in the training tokens: at the same place it is the
same, whatever the sizes of the batches before it.
"""

from __future__ import annotations

import math

from model.config.pretraining import PretrainingSection
from model.data.sample_order import MOST_SAMPLES
from model.step_plan import StepPlan, step_plan_of
from pipelines.core.config import ConfigError


def warmup_tokens_of(settings: PretrainingSection, length: int) -> int:
    """Tokens of the warm-up: `warmup_steps` are steps of sequences_per_step.

    Args:
        length: packing.length.
    """
    if settings.warmup_tokens is not None:
        return settings.warmup_tokens
    return settings.warmup_steps * settings.sequences_per_step * length


def learning_rate(step: int, settings: PretrainingSection, plan: StepPlan) -> float:
    """The rate of a step of pretraining.

    With x the tokens before the step, w those of the warm-up, T the budget, and b =
    sequences_per_step x length: below w the rate is peak x (x + b) / w, so that the first update
    does something and the last one of the warm-up has the peak. From w on it is
    peak x (f + (1 - f) d) with f = final_rate_share and d
    - linear: (T - x) / (T - w);
    - polynomial: ((T - x) / (T - w)) ^ power;
    - trapezoid: 1 up to s = (1 - decay_share) T, then 1 - sqrt((x - s) / (T - s)), after Hägele et
      al. 2024 as ModernBERT (Warner et al. 2024) uses it.

    Args:
        step: updates done before this one, from 0.

    Raises:
        ValueError: `step` is not one of the training's.
    """
    if not 0 <= step < plan.steps:
        raise ValueError(f"step {step} is outside 0 ... {plan.steps - 1}")
    peak, total = settings.learning_rate, plan.budget * plan.length
    place, warmup = plan.first_sample(step) * plan.length, warmup_tokens_of(settings, plan.length)
    if place < warmup:
        return peak * min(1.0, (place + settings.sequences_per_step * plan.length) / warmup)
    final = settings.final_rate_share
    return peak * (final + (1.0 - final) * _decay(place, warmup, total, settings))


def _decay(place: int, warmup: int, total: int, settings: PretrainingSection) -> float:
    """What is left of the way from the peak to the final rate, from 1 to above 0."""
    if settings.schedule == "trapezoid":
        start = (1.0 - settings.decay_share) * total
        return 1.0 - math.sqrt(max(0.0, (place - start) / (total - start)))
    left = (total - place) / (total - warmup)
    return left**settings.power if settings.schedule == "polynomial" else left


def check_schedule(settings: PretrainingSection, length: int) -> None:
    """Refuse a schedule that does not fit into the training.

    Args:
        length: packing.length.

    Raises:
        ConfigError: the warm-up does not end in time, a step to be skipped is none of the
            training's, all are, or there are more samples than can be numbered.
    """
    plan = step_plan_of(settings, length)
    if plan.samples > MOST_SAMPLES:
        raise ConfigError(
            f"pretraining: {plan.steps:,} steps draw {plan.samples:,} sequences; at most "
            f"{MOST_SAMPLES:,} can be numbered"
        )
    if settings.warmup_tokens is None:
        named = (
            f"pretraining.warmup_steps = {settings.warmup_steps} (of {settings.sequences_per_step} "
            f"sequences of {length} tokens)"
        )
    else:
        named = f"pretraining.warmup_tokens = {settings.warmup_tokens}"
    warmup, total = warmup_tokens_of(settings, length), plan.budget * length
    if warmup >= total:
        raise ConfigError(
            f"{named}: the warm-up takes {warmup:,} tokens, the training has {total:,}; it has to "
            "be shorter"
        )
    if settings.schedule == "trapezoid" and warmup > (1.0 - settings.decay_share) * total:
        raise ConfigError(
            f"{named}: the warm-up takes {warmup:,} of {total:,} tokens, and with "
            f"pretraining.decay_share = {settings.decay_share} the rate falls from token "
            f"{(1.0 - settings.decay_share) * total:,.0f} on; it has to end before"
        )
    if late := [step for step in settings.skip_steps if step > plan.steps]:
        raise ConfigError(f"pretraining.skip_steps: {late}; the training has {plan.steps:,} steps")
    if not last_update(settings, plan):
        raise ConfigError(
            f"pretraining.skip_steps: all {plan.steps:,} steps are passed over; leave one to train"
        )


def last_update(settings: PretrainingSection, plan: StepPlan) -> int:
    """The last step with an update, from 1; 0 where `skip_steps` leaves none."""
    step, skipped = plan.steps, set(settings.skip_steps)
    while step in skipped:
        step -= 1
    return step


def warmup_then_linear(step: int, *, peak: float, warmup_steps: int, steps: int) -> float:
    """The learning rate of update number `step` of fine-tuning, whose batches have one size.

    Rises linearly so that the last warm-up update has `peak`, then falls linearly; update `steps`
    (one after the last) would have 0.

    Args:
        step: updates done before this one, from 0.
        peak: highest rate.
        warmup_steps: updates of the rise; 0 begins at the peak.
        steps: updates in all, above `warmup_steps`.

    Raises:
        ValueError: `step` is not one of the run's updates, or the warm-up does not end in time.
    """
    if not 0 <= step < steps:
        raise ValueError(f"step {step} is outside 0 ... {steps - 1}")
    if not 0 <= warmup_steps < steps:
        raise ValueError(f"warmup_steps {warmup_steps} must be from 0 and below steps {steps}")
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return peak * (steps - step) / (steps - warmup_steps)
