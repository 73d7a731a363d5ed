"""The filters by name, and several of them in a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipelines.config import FilterBase, FilterConfig
from pipelines.core.manifest import Counters
from pipelines.core.records import UNKNOWN_LANGUAGE, Document
from pipelines.filters.addresses import blocked_address, opted_out
from pipelines.filters.base import Filter, Reason
from pipelines.filters.language_score import low_language_score
from pipelines.filters.lines import poor_lines_out
from pipelines.filters.personal_data import mask_personal_data
from pipelines.filters.quality import (
    bad_length,
    bad_word_length,
    lost_characters,
    mostly_bullets,
    poor_lines,
    too_few_letters,
    too_many_symbols,
    wrong_script,
)
from pipelines.filters.repetition import repeats_itself
from pipelines.filters.stop_words import too_few_stop_words

FILTERS: dict[str, Filter] = {
    "length": bad_length,
    "word_length": bad_word_length,
    "symbols": too_many_symbols,
    "bullets": mostly_bullets,
    "letters": too_few_letters,
    "repetition": repeats_itself,
    "stop_words": too_few_stop_words,
    "script": wrong_script,
    "language_score": low_language_score,
    "line_quality": poor_lines,
    "replacement_characters": lost_characters,
    "lines": poor_lines_out,
    "url_blocklist": blocked_address,
    "mask_personal_data": mask_personal_data,
    "respect_robots": opted_out,
}


class Chain:
    """Filters in the order of their sections. Settings are resolved once for each language."""

    def __init__(self, sections: Sequence[FilterConfig]) -> None:
        self.sections = list(sections)
        self._resolved: dict[str, list[tuple[Filter, FilterBase]]] = {}

    def for_language(self, language: str) -> list[tuple[Filter, FilterBase]]:
        """The filters with their sections as they are for a language."""
        found = self._resolved.get(language)
        if found is None:
            found = [(FILTERS[s.kind], s.for_language(language)) for s in self.sections]
            self._resolved[language] = found
        return found

    def reason_to_drop(self, document: Document, count: Counters) -> str | None:
        """The first filter's reason to drop a document, or None. Unknown languages never pass.

        Changes `document.text` where filters of the chain do, if the document is kept; one that is
        dropped gets back the text and metadata it came with, and what filters counted for it is
        forgotten.
        """
        if document.language == UNKNOWN_LANGUAGE:
            return Reason("unknown_language")
        text, metadata, own = document.text, document.metadata, Counter[str]()
        for judge, section in self.for_language(document.language):
            reason = judge(document, section, own)
            if reason is not None:
                document.text, document.metadata = text, metadata
                return reason
        count.update(own)
        return None


def reason_to_drop(
    document: Document, sections: Sequence[FilterConfig], count: Counters | None = None
) -> str | None:
    """`Chain.reason_to_drop` for a single document."""
    return Chain(sections).reason_to_drop(document, Counter() if count is None else count)
