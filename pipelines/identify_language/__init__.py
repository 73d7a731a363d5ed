"""Which language a text is in: pluggable models behind one system of BCP 47 tags.

The model is shown a clean copy of a text; the stored text is never changed.
"""

from pipelines.identify_language.clean import shown_text
from pipelines.identify_language.identify import (
    UNIDENTIFIED,
    Identified,
    identify,
    identify_many,
    known_languages,
)
from pipelines.identify_language.paragraphs import identify_document, identify_paragraphs
from pipelines.identify_language.thresholds import (
    derived_thresholds,
    merged_histograms,
    score_histogram,
    with_thresholds,
)

__all__ = [
    "UNIDENTIFIED",
    "Identified",
    "derived_thresholds",
    "identify",
    "identify_document",
    "identify_many",
    "identify_paragraphs",
    "known_languages",
    "merged_histograms",
    "score_histogram",
    "shown_text",
    "with_thresholds",
]
