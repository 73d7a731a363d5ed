"""Learning rate as a pure function of the step, so that there is no state to lose."""

from __future__ import annotations


def warmup_then_linear(step: int, *, peak: float, warmup_steps: int, steps: int) -> float:
    """The learning rate of update number `step`.

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
