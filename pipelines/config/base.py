"""Types and checks that the sections share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

PositiveInt = Annotated[int, Field(gt=0, le=2**53)]
"""1 and more; the upper bound only keeps a slip of the keyboard from overflowing a counter."""
Share = Annotated[float, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""64 lower-case hex digits."""


def check_phases_reach_the_end(ends: Sequence[float]) -> None:
    """Refuse phases that do not cover the training steps.

    Args:
        ends: share of the steps at which each phase ends; none: there are no phases.

    Raises:
        ValueError: they do not rise, or the last one is not 1.
    """
    if ends and (list(ends) != sorted(set(ends)) or ends[-1] != 1):
        raise ValueError(
            f"phases end at {list(ends)}; need rising shares of the steps that end at 1"
        )
