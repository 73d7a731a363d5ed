"""The filter on how sure the language of a document is."""

from __future__ import annotations

from pipelines.config import LanguageScoreFilter
from pipelines.core.manifest import Counters
from pipelines.core.records import Document
from pipelines.filters.base import Reason, below

STORED = 2.0**-24
"""Scores are stored with 24 bits: 0.29 comes back as less, by at most this."""


def low_language_score(
    document: Document, config: LanguageScoreFilter, count: Counters
) -> Reason | None:
    """Drop a document whose language's score is below `min_score`.

    Derived thresholds are in the section already: see `derived_thresholds` and `with_thresholds`
    of pipelines.identify_language.
    """
    score = document.language_score
    if score + STORED >= config.min_score:
        return None
    return below("low_language_score", "language score", score, config.min_score)
