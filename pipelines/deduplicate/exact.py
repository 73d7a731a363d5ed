"""Exact deduplication inside one language: same document, same paragraph."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import regex
from sentencex import segment

from pipelines.config import DataConfig, DeduplicationSection
from pipelines.core.hashing import digest
from pipelines.core.manifest import Counters, FileRef, Output
from pipelines.core.records import PARAGRAPH_BREAK, Document, documents_to_table, table_to_documents
from pipelines.core.shards import Attempt, Step, Unit

DOCUMENTS_PER_PART = 20_000
"""Documents in one output file: the unit of packing."""

DIGITS = regex.compile(r"\p{Nd}")
BLANKS = regex.compile(r"\s+")


def paragraph_key(paragraph: str) -> bytes:
    """What two paragraphs share when they count as the same: 128 bits.

    Case, kinds of blanks, compatibility forms and the values of digits do not matter.
    Source: CCNet (Wenzek et al. 2020), section 3.1, except that punctuation matters here.
    """
    text = unicodedata.normalize("NFKC", paragraph).casefold()
    text = BLANKS.sub(" ", DIGITS.sub("0", text)).strip()
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()


def remove_duplicates(
    documents: Iterable[Document], config: DeduplicationSection, count: Counters
) -> Iterator[Document]:
    """Yield what is new; the first of equals survives, so the order of `documents` decides.

    This step changes text: paragraphs that were seen before are taken out of a document.
    """
    seen_documents: set[bytes] = set()
    seen_paragraphs: set[bytes] = set()
    for document in documents:
        keys = [(paragraph_key(paragraph), paragraph) for paragraph in document.paragraphs]
        whole = hashlib.blake2b(b"".join(key for key, _ in keys), digest_size=16).digest()
        if whole in seen_documents:
            count["dropped.duplicate_documents"] += 1
            continue
        seen_documents.add(whole)
        if not config.paragraphs:
            yield document
            continue
        new = []
        for key, paragraph in keys:
            if key in seen_paragraphs:
                count["dropped.duplicate_paragraphs"] += 1
                continue
            seen_paragraphs.add(key)
            new.append(paragraph)
        text = PARAGRAPH_BREAK.join(new)
        if len(text) < config.min_characters:
            count["dropped.nothing_new"] += 1
            count["dropped.nothing_new_characters"] += len(text)
            continue
        yield replace(document, text=text)


def count_sentences(text: str, language: str) -> int:
    """Sentences of a text, paragraph by paragraph, by the language's own rules (sentencex)."""
    paragraphs = (part for part in text.split(PARAGRAPH_BREAK) if part.strip())
    return sum(len(segment(language.split("-")[0], paragraph)) for paragraph in paragraphs)


def deduplicate_language(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Deduplicate one language over all shards; files are taken in the order of their names."""
    section = DeduplicationSection.model_validate(config["deduplication"])
    count, language = attempt.counters, unit.key

    def read() -> Iterator[Document]:
        for ref in unit.inputs:
            yield from table_to_documents(attempt.store.read_table(ref.path))

    part: list[Document] = []
    written = 0

    def write() -> None:
        nonlocal written
        attempt.write_table(
            f"{language}/part-{attempt.unit_id}-{written:05d}",
            documents_to_table(part),
            part="unique",
            language=language,
        )
        written += 1
        part.clear()

    for document in remove_duplicates(read(), section, count):
        count[f"documents/{language}"] += 1
        count[f"characters/{language}"] += len(document.text)
        count[f"bytes/{language}"] += len(document.text.encode("utf-8"))
        count[f"sentences/{language}"] += count_sentences(document.text, language)
        part.append(document)
        if len(part) == DOCUMENTS_PER_PART:
            write()
    if part:
        write()


def deduplicate_step(config: DataConfig) -> Step:
    """The deduplication stage under a configuration."""
    read = {"deduplication": config.deduplication.model_dump(mode="json")}
    folder = f"corpus/unique/{digest('deduplicate', 1, read)[:12]}"
    return Step("deduplicate", 1, folder, read, deduplicate_language, "language")


def deduplicate_units(kept: Sequence[Output]) -> list[Unit]:
    """One unit for each language, its files sorted by name."""
    by_language: dict[str, list[FileRef]] = defaultdict(list)
    for output in sorted(kept, key=lambda output: output.path):
        by_language[output.labels["language"]].append(output.ref)
    return [Unit(language, tuple(refs)) for language, refs in sorted(by_language.items())]
