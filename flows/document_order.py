"""Documents of the stages' files, back in the order of the input.

The stages keep a file for each language. A stream reads those of one input and one language, a few
rows at a time; the order that extraction wrote down says whose turn it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core.manifest import Counters, Output, StageRecord
from pipelines.core.records import Document, table_to_documents
from pipelines.core.store import Store, damage_named
from pipelines.deduplicate.plan import read_plan
from pipelines.deduplicate.unique import DecisionFiles, Decisions, decide, numbered

ROWS_AT_ONCE = 64
NUMBERS_AT_ONCE = 2048
READ_BYTES = 2**16

Place = tuple[str, str]
"""Name of the input, language."""


@dataclass(frozen=True)
class Rows:
    """Rows [start, stop) of a file of the store."""

    key: str
    start: int
    stop: int


@dataclass(frozen=True)
class Row:
    """One document with where it stands."""

    document: Document
    reason: str
    """Empty in files that are no rejects."""
    key: str
    number: int


Take = Callable[[int, str, str], Row | None]
"""(index, language, id of the document) -> the document's row, if its turn has come."""


@dataclass(frozen=True)
class Dropped:
    """A document that is not in the output."""

    document: Document
    reason: str


def places(store: Store, outputs: Sequence[Output]) -> dict[Place, list[Rows]]:
    """Where the documents of each input and language are, in the order of the files."""
    found: dict[Place, list[Rows]] = defaultdict(list)
    for output in outputs:
        row = 0
        for table in _batches(store, output.path, ["shard", "language"]):
            pairs = zip(table["shard"].to_pylist(), table["language"].to_pylist(), strict=True)
            for place, members in groupby(pairs):
                length = sum(1 for _ in members)
                found[place].append(Rows(output.path, row, row + length))
                row += length
    return found


class Stream:
    """Documents of some rows, one after the other, if they are the one that is asked for."""

    def __init__(self, store: Store, rows: Sequence[Rows]) -> None:
        self._rows = _rows(store, rows)
        self._head = next(self._rows, None)

    def take(self, document_id: str) -> Row | None:
        """The next document if it has that id; else None, and it stays the next."""
        head = self._head
        if head is None or head.document.id != document_id:
            return None
        self._head = next(self._rows, None)
        return head


def _rows(store: Store, wanted: Sequence[Rows]) -> Iterator[Row]:
    for rows in wanted:
        number = rows.start
        for table in _batches(store, rows.key, None, rows.start, rows.stop):
            reasons = table["reason"].to_pylist() if "reason" in table.column_names else None
            for place, document in enumerate(table_to_documents(table)):
                yield Row(document, reasons[place] if reasons else "", rows.key, number)
                number += 1


def _batches(
    store: Store, key: str, columns: list[str] | None, start: int = 0, stop: int | None = None
) -> Iterator[pa.Table]:
    """Rows [start, stop) of a file, some at a time; row groups before and after are not read."""
    with (
        store.on_disk(key) as path,
        damage_named(key),
        pq.ParquetFile(path, buffer_size=READ_BYTES, page_checksum_verification=True) as file,
    ):
        groups: list[int] = []
        first = before = 0
        for group in range(file.num_row_groups):
            after = before + file.metadata.row_group(group).num_rows
            if after > start and (stop is None or before < stop):
                first = first if groups else before
                groups.append(group)
            before = after
        row = first
        size = ROWS_AT_ONCE if columns is None else NUMBERS_AT_ONCE
        for batch in file.iter_batches(size, row_groups=groups, columns=columns):
            low = max(start - row, 0)
            high = batch.num_rows if stop is None else min(stop - row, batch.num_rows)
            if low < high:
                yield pa.Table.from_batches([batch.slice(low, high - low)])
            row += batch.num_rows


class Duplicates:
    """Says why deduplication dropped a document that the filters kept."""

    def __init__(self, store: Store, records: Mapping[str, StageRecord], limit: int) -> None:
        [planned] = records["deduplicate-plan"].outputs_of(part="plan")
        plan = read_plan(store, planned.ref)
        refs = [
            output.ref
            for stage in ("deduplicate-groups", "deduplicate-clusters", "deduplicate-paragraphs")
            if stage in records
            for output in records[stage].outputs
        ]
        self._files = DecisionFiles(store, refs, plan.first_new)
        self._first = {file.ref.path: number for number, file in numbered(plan.shards)}
        self._window: dict[str, tuple[int, Decisions]] = {}
        self._min_characters = limit

    def reason(self, row: Row) -> str:
        """The counter's name of the deduplication stage, without `dropped.`."""
        number = self._first[row.key] + row.number
        low, decisions = self._window.get(row.key, (-NUMBERS_AT_ONCE, Decisions(0)))
        if not low <= number < low + NUMBERS_AT_ONCE:
            low, decisions = number, self._files.between(number, number + NUMBERS_AT_ONCE)
            self._window[row.key] = (low, decisions)
        count: Counters = Counter()
        decide(row.document, number, decisions, self._min_characters, count)
        reasons = [name for name in count if name.startswith("dropped.") and "/" not in name]
        return reasons[0].removeprefix("dropped.") if reasons else "duplicate"


class InOrder:
    """The documents of a finished run in the order of the input.

    Args:
        records: of all steps that ran, by name.
        dropped: also give what filters, deduplication and perplexity dropped.
        min_characters: `deduplication.min_characters`.
    """

    def __init__(
        self, store: Store, records: Mapping[str, StageRecord], dropped: bool, min_characters: int
    ) -> None:
        self._store, self._dropped = store, dropped
        last = next((n for n in ("perplexity", "deduplicate") if n in records), None)
        self._final = places(store, records[last].outputs_of(part="unique") if last else [])
        self._rejects: list[dict[Place, list[Rows]]] = []
        self._kept: dict[Place, list[Rows]] = {}
        self._duplicates: Duplicates | None = None
        if dropped:
            for name in ("filter", "perplexity"):
                if name in records:
                    outputs = records[name].outputs_of(part="rejects")
                    self._rejects.append(places(store, outputs))
            if last is not None:
                self._kept = places(store, records["filter"].outputs_of(part="kept"))
                self._duplicates = Duplicates(store, records, min_characters)

    def of_shard(self, shard: str, order: Path) -> Iterator[Document | Dropped]:
        """What became of one input's documents.

        Args:
            order: a line for each extracted document: its language and its id.
        """
        streams: dict[tuple[int, str], Stream] = {}
        indexes = [self._final, self._kept, *self._rejects]

        def take(index: int, language: str, document_id: str) -> Row | None:
            stream = streams.get((index, language))
            if stream is None:
                stream = Stream(self._store, indexes[index].get((shard, language), []))
                streams[index, language] = stream
            return stream.take(document_id)

        with order.open(encoding="utf-8") as lines:
            for line in lines:
                language, document_id = line.rstrip("\n").split(" ", 1)
                final = take(0, language, document_id)
                kept = take(1, language, document_id)
                if final is not None:
                    yield final.document
                elif self._dropped:
                    yield self._why(take, language, document_id, kept)

    def _why(self, take: Take, language: str, document_id: str, kept: Row | None) -> Dropped:
        for index in range(2, 2 + len(self._rejects)):
            row = take(index, language, document_id)
            if row is not None:
                return Dropped(row.document, row.reason)
        if kept is None or self._duplicates is None:
            raise LookupError(f"document {document_id} ({language}) is in no file of the stages")
        return Dropped(kept.document, self._duplicates.reason(kept))
