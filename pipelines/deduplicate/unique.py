"""Write what is left: documents that survive, without the paragraphs that came before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.core.attempt import Attempt
from pipelines.core.document_counts import count_document
from pipelines.core.manifest import Counters, FileRef
from pipelines.core.records import (
    DOCUMENT_SCHEMA,
    PARAGRAPH_BREAK,
    Document,
    documents_to_table,
    table_to_documents,
)
from pipelines.core.sections import renumbered
from pipelines.core.shards import Unit
from pipelines.core.store import Store
from pipelines.deduplicate.groups import CLUSTERS, EXACT, PARAGRAPHS
from pipelines.deduplicate.plan import SHARD_BITS, KeptFile, Plan, PlanShard, read_plan
from pipelines.deduplicate.sorted_records import RecordsFile, read_between

DOCUMENTS_PER_PART = 20_000
"""Documents in one output file: the unit of packing."""

DECIDED_AT_ONCE = 20_000
"""Decisions are read for so many documents, to bound memory in long files."""


@dataclass(frozen=True)
class Decisions:
    """What was decided on the documents of one file, by document number."""

    first_new: int
    survivor: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """The document that stays of its cluster, and how many the cluster has."""
    exact: frozenset[int] = frozenset()
    """Equal to one that is kept in their place."""
    paragraphs: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Numbers of the paragraphs that are taken away."""


def decide(
    document: Document, number: int, decisions: Decisions, min_characters: int, count: Counters
) -> Document | None:
    """The document as it stays, or None; what goes is counted by reason and language.

    This step changes text: paragraphs that an earlier document had are taken out.
    """

    def drop(reason: str, amount: int = 1) -> None:
        count[f"dropped.{reason}"] += amount
        count[f"dropped.{reason}/{document.language}"] += amount

    paragraphs = document.paragraphs
    if not paragraphs:
        drop("empty_documents")
        return None
    survivor, size = decisions.survivor.get(number, (number, 1))
    if survivor != number:
        if survivor < decisions.first_new:
            drop("duplicates_of_base")
        else:
            exact = number in decisions.exact
            drop("duplicate_documents" if exact else "near_duplicates")
        return None
    if size > 1:
        document = replace(document, metadata={**document.metadata, "cluster_size": str(size)})
    gone = decisions.paragraphs.get(number)
    if not gone:
        return document
    count["dropped_paragraphs.duplicate"] += len(gone)
    count[f"dropped_paragraphs.duplicate/{document.language}"] += len(gone)
    kept = [place for place in range(len(paragraphs)) if place not in gone]
    text = PARAGRAPH_BREAK.join(paragraphs[place] for place in kept)
    if len(text) < min_characters:
        drop("nothing_new")
        count["dropped_characters.nothing_new"] += len(text)
        count[f"dropped_characters.nothing_new/{document.language}"] += len(text)
        return None
    return replace(document, text=text, metadata=renumbered(document.metadata, kept))


class DecisionFiles:
    """The files of decisions that a unit reads, open."""

    def __init__(self, store: Store, refs: Sequence[FileRef], first_new: int) -> None:
        self.first_new = first_new
        self.clusters, self.exact, self.paragraphs = (
            [RecordsFile(store, ref.path) for ref in refs if f"{kind}." in ref.path]
            for kind in (CLUSTERS, EXACT, PARAGRAPHS)
        )

    def between(self, low: int, high: int) -> Decisions:
        """Decisions on the documents numbered [low, high)."""
        clusters = read_between(self.clusters, low, high)
        paragraphs: dict[int, set[int]] = defaultdict(set)
        found = read_between(self.paragraphs, low, high)
        for number, place in zip(found["key"].tolist(), found["low"].tolist(), strict=True):
            paragraphs[number].add(place)
        return Decisions(
            self.first_new,
            {
                number: (survivor, size)
                for number, survivor, size in zip(
                    clusters["key"].tolist(),
                    clusters["low"].tolist(),
                    clusters["row"].tolist(),
                    strict=True,
                )
            },
            frozenset(read_between(self.exact, low, high)["key"].tolist()),
            {number: frozenset(places) for number, places in paragraphs.items()},
        )


def write_unique(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the unique documents of some kept files of one language, in their order.

    Counts documents, characters, bytes and sentences by language, and everything that goes.
    """
    store, count = attempt.store, attempt.counters
    plan = read_plan(store, unit.inputs[0])
    files = DecisionFiles(store, unit.inputs[1:], plan.first_new)
    wanted = {ref.path for ref in unit.inputs if ref.path.endswith(".parquet")}
    written = 0
    with attempt.tables(DOCUMENT_SCHEMA) as tables:
        for number, file in numbered(plan.shards):
            if file.ref.path not in wanted:
                continue
            decisions, decided = Decisions(plan.first_new), number
            for documents in read_documents(store, file.ref):
                if number + len(documents) > decided:
                    decided = number + max(len(documents), DECIDED_AT_ONCE)
                    decisions = files.between(number, decided)
                left = []
                for document in documents:
                    kept = decide(document, number, decisions, config["min_characters"], count)
                    number += 1
                    if kept is not None:
                        left.append(kept)
                        count_document(kept, count)
                for part, members in in_parts(left, written):
                    name = f"{file.language}/part-{attempt.unit_id}-{part:05d}"
                    tables.write(
                        name, documents_to_table(members), part="unique", language=file.language
                    )
                written += len(left)


def in_parts(documents: list[Document], written: int) -> Iterator[tuple[int, list[Document]]]:
    """(number of the output file, its share of the documents), after so many written before."""
    while documents:
        room = DOCUMENTS_PER_PART - written % DOCUMENTS_PER_PART
        yield written // DOCUMENTS_PER_PART, documents[:room]
        written += len(documents[:room])
        documents = documents[room:]


def read_documents(store: Store, ref: FileRef) -> Iterator[list[Document]]:
    """Documents of a kept file, one row group after the other."""
    for table in store.iterate_tables(ref.path):
        yield table_to_documents(table)


def numbered(shards: Sequence[PlanShard]) -> Iterator[tuple[int, KeptFile]]:
    """Every kept file with the number of its first document."""
    for shard_number, shard in enumerate(shards):
        row = 0
        for file in shard.kept:
            yield (shard_number << SHARD_BITS) + row, file
            row += file.rows


def unique_units(
    plan: Plan,
    plan_ref: FileRef,
    decided: Mapping[str, list[FileRef]],
    paragraphs: Sequence[FileRef],
) -> list[Unit]:
    """Units of whole kept files of one language, about DOCUMENTS_PER_PART documents each.

    Args:
        decided: the files of clusters ("clusters") and of equal documents ("exact").
        paragraphs: the files of paragraphs that go.
    """
    chunks: dict[str, list[list[tuple[int, KeptFile]]]] = defaultdict(list)
    for number, file in numbered(plan.shards):
        if number < plan.first_new:
            continue
        mine = chunks[file.language]
        if not mine or sum(f.rows for _, f in mine[-1]) + file.rows > DOCUMENTS_PER_PART:
            mine.append([])
        mine[-1].append((number, file))
    refs = [plan_ref, *decided["clusters"], *decided["exact"], *paragraphs]
    return [
        Unit(f"{language} from {first_number(chunk)}", (*refs, *(f.ref for _, f in chunk)))
        for language, found in sorted(chunks.items())
        for chunk in found
    ]


def first_number(chunk: Sequence[tuple[int, KeptFile]]) -> str:
    """The first document of a chunk, as shard.row."""
    number = chunk[0][0]
    return f"{number >> SHARD_BITS:06d}.{number % 2**SHARD_BITS}"
