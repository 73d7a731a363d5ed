"""Filters on text that repeats itself."""

from __future__ import annotations

from pipelines.config import RepetitionFilter
from pipelines.core.records import Document


def repeats_itself(document: Document, config: RepetitionFilter) -> str | None:
    """Drop a document when too many of its characters stand in paragraphs it already had.

    Source: Rae et al. 2021 (Gopher), section A1.1, duplicate paragraph fraction by characters.
    """
    seen: set[str] = set()
    repeated = whole = 0
    for paragraph in document.paragraphs:
        whole += len(paragraph)
        if paragraph in seen:
            repeated += len(paragraph)
        seen.add(paragraph)
    if not whole:
        return "no_words"
    return "repetitive" if repeated / whole > config.max_share_of_characters else None
