"""What each filter would drop, alone and in its place in the chain. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pipelines.config import FilterBase, FilterConfig
from pipelines.core.manifest import Counters
from pipelines.core.records import UNKNOWN_LANGUAGE, Document
from pipelines.filters.base import Filter
from pipelines.filters.chain import Chain

EXAMPLES = 3
"""Examples of each reason and language: the first ones, in the order of the documents."""
EXCERPT_CHARACTERS = 120


@dataclass(frozen=True)
class Example:
    """A document that a filter drops."""

    id: str
    url: str
    because: str
    """The figure and the threshold."""
    excerpt: str
    """The text's beginning, blanks and line breaks as one blank."""


@dataclass
class Drops:
    """Documents dropped for one reason in one language."""

    documents: int = 0
    characters: int = 0
    examples: list[Example] = field(default_factory=list)

    def add(self, document: Document, reason: str) -> None:
        """Count a document; the first few become examples."""
        self.documents += 1
        self.characters += len(document.text)
        if len(self.examples) < EXAMPLES:
            because = getattr(reason, "because", "")
            self.examples.append(Example(document.id, document.url, because, excerpt(document)))


@dataclass
class FilterReport:
    """What one filter does. Keys are (reason, language)."""

    name: str
    """The section's kind; a second section of the kind is `kind #2`."""
    alone: dict[tuple[str, str], Drops] = field(default_factory=dict)
    """Of all documents in a known language."""
    in_sequence: dict[tuple[str, str], Drops] = field(default_factory=dict)
    """Of those that the filters before it left, as those left them."""
    changed_documents: int = 0
    """Documents whose text it changes without dropping them, alone."""
    characters_removed: int = 0
    """Characters by which it shortens them; negative where placeholders are longer."""
    counters: Counters = field(default_factory=Counter)
    """What the filter itself counted, alone, on documents that it does not drop."""

    def total(self, *, alone: bool) -> Drops:
        """All reasons and languages together, without examples."""
        parts = (self.alone if alone else self.in_sequence).values()
        return Drops(sum(p.documents for p in parts), sum(p.characters for p in parts))


@dataclass
class DryRun:
    """The report: totals, and one entry for each section in order."""

    filters: list[FilterReport]
    documents: int = 0
    characters: int = 0
    unknown_language: int = 0
    """Documents without a known language; no filter sees them, all are dropped."""
    kept: int = 0
    kept_characters: int = 0


def what_filters_drop(documents: Iterable[Document], sections: Sequence[FilterConfig]) -> DryRun:
    """Try every filter on every document, alone and in sequence. The documents stay as they are."""
    chain = Chain(sections)
    report = DryRun([FilterReport(name) for name in names_of(sections)])
    for document in documents:
        report.documents += 1
        report.characters += len(document.text)
        if document.language == UNKNOWN_LANGUAGE:
            report.unknown_language += 1
            continue
        filters = chain.for_language(document.language)
        for entry, (judge, section) in zip(report.filters, filters, strict=True):
            _alone(document, judge, section, entry)
        _in_sequence(document, filters, report)
    return report


def names_of(sections: Sequence[FilterConfig]) -> list[str]:
    """A name for each section: its kind, numbered from the second of a kind."""
    seen: Counter[str] = Counter()
    names = []
    for section in sections:
        seen[section.kind] += 1
        number = seen[section.kind]
        names.append(section.kind if number == 1 else f"{section.kind} #{number}")
    return names


def excerpt(document: Document) -> str:
    """The beginning of a document's text on one line."""
    return " ".join(document.text[: 4 * EXCERPT_CHARACTERS].split())[:EXCERPT_CHARACTERS]


def _alone(document: Document, judge: Filter, section: FilterBase, entry: FilterReport) -> None:
    copy, count = replace(document), Counter[str]()
    reason = judge(copy, section, count)
    if reason is not None:
        _add(entry.alone, document, reason)
        return
    entry.counters.update(count)
    if copy.text != document.text:
        entry.changed_documents += 1
        entry.characters_removed += len(document.text) - len(copy.text)


def _in_sequence(
    document: Document, filters: Sequence[tuple[Filter, FilterBase]], report: DryRun
) -> None:
    copy, count = replace(document), Counter[str]()
    for entry, (judge, section) in zip(report.filters, filters, strict=True):
        reason = judge(copy, section, count)
        if reason is not None:
            _add(entry.in_sequence, document, reason)
            return
    report.kept += 1
    report.kept_characters += len(copy.text)


def _add(drops: dict[tuple[str, str], Drops], document: Document, reason: str) -> None:
    drops.setdefault((str(reason), document.language), Drops()).add(document, reason)
