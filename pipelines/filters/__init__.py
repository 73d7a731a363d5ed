"""Quality filters. A new one is a function in this folder, its section, and a line in FILTERS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from pipelines.config import DataConfig, FilterConfig
from pipelines.core.hashing import digest
from pipelines.core.manifest import Manifest
from pipelines.core.records import (
    UNKNOWN_LANGUAGE,
    Document,
    documents_to_table,
    table_to_documents,
)
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.filters.base import Filter
from pipelines.filters.quality import too_few_letters, too_short, wrong_script
from pipelines.filters.repetition import repeats_itself

FILTERS: dict[str, Filter] = {
    "length": too_short,
    "letters": too_few_letters,
    "repetition": repeats_itself,
    "script": wrong_script,
}

_SECTIONS: TypeAdapter[list[FilterConfig]] = TypeAdapter(list[FilterConfig])


def reason_to_drop(document: Document, sections: Sequence[FilterConfig]) -> str | None:
    """The first filter's reason to drop a document, or None. Unknown languages never pass."""
    if document.language == UNKNOWN_LANGUAGE:
        return "unknown_language"
    for section in sections:
        reason = FILTERS[section.kind](document, section)
        if reason is not None:
            return reason
    return None


def filter_shard(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Split the documents of one shard into kept ones, by language, and rejects with reasons."""
    sections = _SECTIONS.validate_python(config["filters"])
    rejects: list[Document] = []
    reasons: list[str] = []
    count = attempt.counters
    for ref in unit.inputs:
        kept: list[Document] = []
        language = ""
        for document in table_to_documents(attempt.store.read_table(ref.path)):
            language = document.language
            reason = reason_to_drop(document, sections)
            count["documents"] += 1
            if reason is None:
                kept.append(document)
                count["kept"] += 1
                count[f"kept/{language}"] += 1
                count[f"kept_bytes/{language}"] += len(document.text.encode("utf-8"))
            else:
                rejects.append(document)
                reasons.append(reason)
                count[f"rejected.{reason}"] += 1
                count[f"rejected.{reason}/{language}"] += 1
        if kept:
            attempt.write_table(
                f"{language}/part-{attempt.unit_id}",
                documents_to_table(kept),
                part="kept",
                language=language,
            )
    if rejects:
        attempt.write_table(
            f"rejects/part-{attempt.unit_id}", documents_to_table(rejects, reasons), part="rejects"
        )


def filter_step(config: DataConfig) -> Step:
    """The filter stage under a configuration."""
    read = {"filters": [section.model_dump(mode="json") for section in config.filters]}
    return Step("filter", 1, f"corpus/kept/{digest('filter', 1, read)[:12]}", read, filter_shard)


def filter_units(extracted: Sequence[Manifest]) -> list[Unit]:
    """One unit for each extracted shard."""
    return [
        Unit(manifest.binding.key, tuple(output.ref for output in manifest.outputs))
        for manifest in extracted
    ]
