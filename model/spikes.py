"""Loss spikes: a loss far above the median of the last ones, seen before the update.

The losses that it judges by are part of the checkpoint, so a run that was killed finds the same
spikes as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from model.config import PretrainingSection
from model.step_plan import StepPlan

WINDOW = 100
"""Losses that a loss is held against."""
FEWEST = 10
"""With fewer losses than this there is no judgement: the first ones fall fast."""


class SpikeWatch:
    """Holds each step's loss against the median of the last hundred.

    Args:
        losses: of the last steps, at most `WINDOW`; the list is kept up to date in place.
        note: told of each spike.
    """

    def __init__(
        self,
        settings: PretrainingSection,
        plan: StepPlan,
        losses: list[float],
        note: Callable[[str], None],
    ) -> None:
        self._factor, self._stops = settings.spike_factor, settings.on_spike == "stop"
        self._plan, self._losses, self._note = plan, losses, note

    def judge(self, step: int, loss: float) -> str | None:
        """Judge a finite loss and remember it; a spike is remembered too, the median bears it.

        Args:
            step: from 0.

        Returns:
            Why training has to stop before the update; None: go on.
        """
        usual = median(self._losses) if len(self._losses) >= FEWEST else None
        if self._factor and usual is not None and loss > self._factor * usual:
            first, count = self._plan.first_sample(step), self._plan.batch_at(step)
            times = f"{loss / usual:.1f} times" if usual > 0 else "above"
            found = (
                f"step {step + 1}: loss {loss:.4f} is {times} the median of the "
                f"last {len(self._losses)} steps ({usual:.4f}; pretraining.spike_factor = "
                f"{self._factor:g}); the batch is samples {first} to {first + count - 1}"
            )
            if self._stops:
                return (
                    f'{found}. The model was not updated (pretraining.on_spike = "stop"); with '
                    f'"warn" the same training goes on. {ways_on(step)}'
                )
            self._note(found)
        self._losses.append(loss)
        del self._losses[:-WINDOW]
        return None


def ways_on(step: int) -> str:
    """What to type after a batch that did not do, for a step from 0."""
    return (
        f"To pass over the batch: pretraining.skip_steps = [{step + 1}]; or lower "
        f"pretraining.learning_rate. Either makes another training: to have it go on from a "
        f"checkpoint of this one, and not from the start, name that too: pretraining.resume_from = "
        f'"RUN@STEP"'
    )
