"""Filter sections with the thresholds that come from a run's own data put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipelines.config import FilterConfig, LanguageScoreFilter
from pipelines.identify_language.thresholds import (
    derived_thresholds,
    merged_histograms,
    with_thresholds,
)


def with_derived(
    sections: Sequence[FilterConfig],
    scores: Sequence[Mapping[str, Mapping[str, int]]],
    notes: list[str],
) -> list[FilterConfig]:
    """Replace `derived = true` by the thresholds of each language.

    Args:
        scores: histograms of language scores, one a shard, as extract writes them.
        notes: gets a sentence for each threshold that a person should look at.
    """
    found: list[FilterConfig] = []
    for section in sections:
        if isinstance(section, LanguageScoreFilter) and section.derived:
            thresholds = derived_thresholds(merged_histograms(scores), section, notes)
            section = with_thresholds(section, thresholds)
        found.append(section)
    return found


def is_derived(section: FilterConfig) -> bool:
    """Whether a filter's thresholds come from the data."""
    return isinstance(section, LanguageScoreFilter) and section.derived
