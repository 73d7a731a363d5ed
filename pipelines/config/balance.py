"""How languages are mixed ([balance])."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.config.base import PositiveInt, Share, check_phases_reach_the_end
from pipelines.core.config import Config
from pipelines.core.languages import normalise


class AlphaPhase(Config):
    """A part of training with an alpha of its own ([[balance.phases]])."""

    until: Annotated[float, Field(gt=0, le=1)]
    """Share of the training steps at which the phase ends; the last one ends at 1."""
    alpha: Share
    """The exponent in this part."""


class BalanceSection(Config):
    """q_i = p_i^alpha / sum_j p_j^alpha ([balance])."""

    alpha: Share = 0.3
    """1 keeps natural shares, 0 makes all languages equal. XLM-R: 0.3."""
    phases: list[AlphaPhase] = []
    """Alphas of training that change with time, such as 0.7, 0.5, 0.3 (mmBERT); empty: `alpha`
    from the first step to the last."""
    vocabulary_alpha: Share | None = None
    """The exponent for the vocabulary's sample; not given: `alpha`."""
    unit: Literal["sentences", "documents", "characters", "bytes"] = "sentences"
    """What p_i counts. XLM-R: sentences."""
    max_repeats: Annotated[float, Field(ge=1)] = 8.0
    """Most often a text may be seen while as much is drawn as the corpus has; the excess goes to
    the languages below their cap."""
    min_sentences: PositiveInt = 20
    """Languages with fewer sentences are left out, and named."""
    weights: dict[str, Annotated[float, Field(gt=0, le=1)]] = {}
    """Shares of the mix that are set by hand, by language: q_i itself, in every phase and in the
    vocabulary's sample. The other languages share what is left by p^alpha. The cap on repeats holds
    for these too; what it takes from one goes to the others."""

    @field_validator("weights")
    @classmethod
    def _tags_are_bcp47(cls, value: dict[str, float]) -> dict[str, float]:
        tags = {normalise(tag): share for tag, share in value.items()}
        if len(tags) != len(value):
            raise ValueError(f"{sorted(value)} name a language twice")
        return tags

    @model_validator(mode="after")
    def _phases_reach_the_end(self) -> BalanceSection:
        check_phases_reach_the_end([phase.until for phase in self.phases])
        if math.fsum(self.weights.values()) > 1 + 1e-9:
            raise ValueError(f"weights sum to {math.fsum(self.weights.values()):g}, above 1")
        return self
