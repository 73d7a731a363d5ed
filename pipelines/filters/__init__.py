"""Filters. A new one is a function in this folder, its section, and a line in FILTERS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from pipelines.config import DataConfig, FilterConfig
from pipelines.core.hashing import digest
from pipelines.core.manifest import Manifest
from pipelines.core.records import (
    DOCUMENT_SCHEMA,
    REJECT_SCHEMA,
    Document,
    documents_to_table,
    table_to_documents,
)
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.filters.chain import FILTERS, Chain, reason_to_drop

__all__ = ["FILTERS", "Chain", "filter_shard", "filter_step", "filter_units", "reason_to_drop"]

VERSION = 2

_SECTIONS: TypeAdapter[list[FilterConfig]] = TypeAdapter(list[FilterConfig])


def filter_shard(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Split the documents of one shard into kept ones, by language, and rejects with reasons.

    Reads and writes row group by row group. A reject is as it was before the first filter, except
    that its metadata say in `rejected_because` what was measured and what the threshold is.
    """
    chain = Chain(_SECTIONS.validate_python(config["filters"]))
    count, name = attempt.counters, f"part-{attempt.unit_id}"
    with attempt.tables(REJECT_SCHEMA) as rejected, attempt.tables(DOCUMENT_SCHEMA) as accepted:
        for ref in unit.inputs:
            for table in attempt.store.iterate_tables(ref.path):
                kept: dict[str, list[Document]] = {}
                rejects: list[Document] = []
                reasons: list[str] = []
                for document in table_to_documents(table):
                    language = document.language
                    reason = chain.reason_to_drop(document, count)
                    count["documents"] += 1
                    if reason is None:
                        kept.setdefault(language, []).append(document)
                        count["kept"] += 1
                        count[f"kept/{language}"] += 1
                        count[f"kept_bytes/{language}"] += len(document.text.encode("utf-8"))
                        continue
                    because = getattr(reason, "because", "")
                    if because:
                        document.metadata["rejected_because"] = because
                    rejects.append(document)
                    reasons.append(str(reason))
                    count[f"rejected.{reason}"] += 1
                    count[f"rejected.{reason}/{language}"] += 1
                for language, members in kept.items():
                    accepted.write(
                        f"{language}/{name}",
                        documents_to_table(members),
                        part="kept",
                        language=language,
                        shard=unit.key,
                        date=str(unit.arguments.get("date", "")),
                    )
                rejected.write(
                    f"rejects/{name}", documents_to_table(rejects, reasons), part="rejects"
                )


def filter_step(config: DataConfig) -> Step:
    """The filter stage under a configuration."""
    read = {"filters": [section.model_dump(mode="json") for section in config.filters]}
    folder = f"corpus/kept/{digest('filter', VERSION, read)[:12]}"
    return Step("filter", VERSION, folder, read, filter_shard)


def filter_units(extracted: Sequence[Manifest]) -> list[Unit]:
    """One unit for each extracted shard: its tables of documents."""
    return [
        Unit(
            manifest.binding.key,
            tuple(output.ref for output in manifest.outputs if output.rows is not None),
            # The shard's name says it as well; deduplication puts older snapshots first by it.
            {"date": next((o.labels.get("date", "") for o in manifest.outputs), "")},
        )
        for manifest in extracted
    ]
