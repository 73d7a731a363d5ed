"""Filter sections with the thresholds that come from a run's own data put in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pipelines.config import FilterConfig, LanguageScoreFilter
from pipelines.core.manifest import StageRecord
from pipelines.core.store import Store
from pipelines.identify_language.thresholds import (
    derived_thresholds,
    merged_histograms,
    with_thresholds,
)

Histograms = Mapping[str, Mapping[str, int]]
"""Of one shard: by language, the number of documents in each bin of score."""


def score_histograms(store: Store, extracted: StageRecord) -> list[Histograms]:
    """The histograms of language scores that extract wrote, one a shard.

    Raises:
        FileNotFoundError: one is not there any more.
    """
    keys = [output.path for output in extracted.outputs_of(part="scores")]
    found = store.read_many(keys)
    if missing := [key for key in keys if key not in found]:
        raise FileNotFoundError(f"{missing[0]} is not there any more: run stage 'extract'")
    return [json.loads(found[key]) for key in keys]


def with_derived(
    sections: Sequence[FilterConfig],
    scores: Sequence[Histograms],
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
