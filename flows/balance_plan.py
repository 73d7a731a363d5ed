"""The shares of languages under one exponent, and what so many draws do with their texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flows.counts_file import Counts
from model.data.sample_order import SHARE_BITS, exact_shares, rounded_counts
from model.data.sample_usage import Usage, usage
from pipelines.config import BalanceSection
from pipelines.core.config import ConfigError
from pipelines.rebalance import LanguageShare, sampling_plan

A_RUNS = BalanceSection()
"""The settings that a run has when nothing is said."""

MOST_DRAWS = 2**SHARE_BITS
"""A plan's shares are multiples of 2^-40: with more draws they would decide whole draws."""


@dataclass(frozen=True)
class Plan:
    """The shares under one exponent."""

    alpha: float
    shares: Sequence[LanguageShare]
    usage: dict[str, Usage]
    """What the draws do with each language's texts; empty when no draws are asked for."""
    uncapped: Mapping[str, float] = field(default_factory=dict)
    """q by language, as it would be without the cap."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Shares set by hand, by language."""

    @property
    def moved(self) -> float:
        """Share of the mix that the cap takes from languages and gives to others."""
        lost = (self.uncapped.get(share.language, share.q) - share.q for share in self.shares)
        return math.fsum(max(share, 0.0) for share in lost)

    def draws(self, share: LanguageShare) -> int:
        """Draws of a language: exactly, or as q says when none are asked for."""
        use = self.usage.get(share.language)
        return round(share.repeats * share.count) if use is None else use.draws


def plan_of(
    found: Counts, alpha: float, cap: float, draws: int | None, weights: dict[str, float]
) -> Plan:
    """Shares under one exponent, and what so many draws do with the texts.

    Raises:
        ConfigError: no language has text, the cap cannot be kept, or a weight does not fit.
    """
    counts = {tag: count for tag, count in found.counts.items() if count}
    if not counts:
        raise ConfigError(f"every language has 0 {found.unit}: {', '.join(found.counts)}")
    try:
        shares = sampling_plan(counts, alpha, cap, draws, weights)
        free = shares if cap == math.inf else sampling_plan(counts, alpha, math.inf, draws, weights)
        usage = _usage(shares, draws) if draws is not None else {}
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{error}; raise --max-repeats or lower --draws") from None
    return Plan(alpha, shares, usage, {share.language: share.q for share in free}, weights)


def _usage(shares: Sequence[LanguageShare], draws: int) -> dict[str, Usage]:
    """The draws of a plan of just so many samples: each within 2 of q x draws, together exact.

    They are less than 1 from the share as the plan has it, and that, a multiple of 2^-40, adds
    less than draws / 2^40 (see model/data/sample_plan.py).
    """
    if draws > MOST_DRAWS:
        raise ConfigError(
            f"--draws {draws}: need at most {MOST_DRAWS:,} (2^{SHARE_BITS}); shares are kept to "
            f"2^-{SHARE_BITS}, so more draws would not follow them"
        )
    ordered = sorted(shares, key=lambda share: share.language)  # as the sample plan has them
    cumulated = np.concatenate([[0], np.cumsum(exact_shares([share.q for share in ordered]))])
    planned = np.diff(rounded_counts(cumulated, np.array([draws], dtype=np.int64))[0])
    return {
        share.language: usage(share.language, share.count, count)
        for share, count in zip(ordered, planned.tolist(), strict=True)
    }
