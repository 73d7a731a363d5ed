"""What the stages that pass documents on count of each: the balance is computed from it."""

from __future__ import annotations

from sentencex import segment

from pipelines.core.manifest import Counters
from pipelines.core.records import Document, split_paragraphs


def count_document(document: Document, count: Counters) -> None:
    """Count one document that goes out."""
    language = document.language
    count[f"documents/{language}"] += 1
    count[f"characters/{language}"] += len(document.text)
    count[f"bytes/{language}"] += len(document.text.encode("utf-8"))
    count[f"sentences/{language}"] += count_sentences(document.text, language)


def count_sentences(text: str, language: str) -> int:
    """Sentences of a text, paragraph by paragraph, by the language's own rules (sentencex)."""
    code = language.split("-")[0]
    return sum(len(segment(code, paragraph)) for paragraph in split_paragraphs(text))
