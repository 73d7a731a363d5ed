"""The extract stage's unit and step: one shard in, one table for each language out."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.config import DataConfig
from pipelines.core.attempt import TableSet
from pipelines.core.hashing import digest
from pipelines.core.manifest import Counters, FileRef
from pipelines.core.records import DOCUMENT_SCHEMA, Document, Shard, documents_to_table
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.extract.documents import Reading, documents_of
from pipelines.identify_language import score_histogram
from pipelines.sources import SOURCES
from pipelines.sources.archives.damage import whole_records
from pipelines.sources.fetching.fetch import FetchError
from pipelines.sources.fetching.local_copy import local_copy
from pipelines.sources.fetching.politeness import Budget, Politeness, SharedBudget

VERSION = 3
ROWS_PER_BATCH = 256
BUFFERED_CHARACTERS = 2**24
"""Text that waits for its batch, over all languages: bounds a worker's memory."""


def extract_shard(
    unit: Unit,
    config: Mapping[str, Any],
    attempt: Attempt,
    through: Callable[[Iterator[Document]], Iterator[Document]] = iter,
) -> None:
    """Bring a shard, read it, and write its documents, one table a language, in the file's order.

    Counts `documents`, `documents/TAG`, `bytes/TAG`, and every page that was left out.

    Args:
        through: what the documents go through in the file's order; it may end them early.
    """
    shard = Shard(**unit.arguments["shard"])
    scores: dict[str, Counters] = defaultdict(Counter)
    with (
        opened(shard, SharedBudget(attempt.shared)) as path,
        attempt.tables(DOCUMENT_SCHEMA) as tables,
    ):
        found = read_shard(path, shard, Reading.of(config), attempt.counters, attempt.notes)
        for batch in batches(through(found)):
            write_batch(batch, attempt, tables, shard)
            for language, bins in score_histogram(batch).items():
                scores[language].update(bins)
        if not whole_records(attempt.counters):
            what = "; ".join(attempt.notes) or "nothing in it was recognised"
            where = "" if path is None else f" in {path.stat().st_size} bytes"
            raise FetchError(shard.url, f"no whole record{where}: {what}")
    content = json.dumps(scores, sort_keys=True).encode("ascii")
    attempt.write_bytes(f"scores/part-{attempt.unit_id}.json", content, part="scores")


@contextmanager
def opened(shard: Shard, budget: Budget | None = None) -> Iterator[Path | None]:
    """The shard's file on the local disk, checked; None for a source that opens what it reads.

    Options `start` and `end` say which bytes of the file are the shard.
    """
    if not SOURCES[shard.kind].downloads:
        yield None
        return
    part = None
    if "start" in shard.options:
        part = (int(shard.options["start"]), int(shard.options["end"]))
    with local_copy(shard.url, budget, byte_range=part) as path:
        check_listed(path, shard)
        yield path


def read_shard(
    path: Path | None, shard: Shard, reading: Reading, counters: Counters, notes: list[str]
) -> Iterator[Document]:
    """Documents of a shard in the wanted languages, in the file's order; `und` is kept."""
    limits = reading.extraction
    pages = SOURCES[shard.kind].read_pages(
        path, shard, counters, notes, limits.max_page_bytes, limits.max_member_bytes
    )
    return documents_of(pages, shard, reading, counters)


def batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Lists of documents of one language, each in the order of the stream.

    Where they end depends on the stream alone.
    """
    waiting: dict[str, list[Document]] = defaultdict(list)
    characters = 0
    for document in documents:
        batch = waiting[document.language]
        batch.append(document)
        characters += len(document.text)
        if len(batch) == ROWS_PER_BATCH:
            characters -= sum(len(member.text) for member in batch)
            yield waiting.pop(document.language)
        elif characters > BUFFERED_CHARACTERS:
            yield from waiting.values()
            waiting, characters = defaultdict(list), 0
    yield from waiting.values()


def write_batch(batch: list[Document], attempt: Attempt, tables: TableSet, shard: Shard) -> None:
    """Append documents of one language to its table and count them."""
    language, table = batch[0].language, documents_to_table(batch)
    attempt.counters["documents"] += len(batch)
    attempt.counters[f"documents/{language}"] += len(batch)
    attempt.counters[f"bytes/{language}"] += sum(len(document.text.encode()) for document in batch)
    tables.write(
        f"{language}/part-{attempt.unit_id}",
        table,
        part="documents",
        language=language,
        date=shard.date or "",
    )


def check_listed(path: Path, shard: Shard) -> None:
    """Refuse a file that is not the one that was listed: the unit's identity would be a lie.

    Raises:
        FetchError: its size, the SHA-1 that a dump's status gives, or the time of the last change
            of a local file, is another.
    """
    status = path.stat()
    if shard.size is not None and status.st_size != shard.size:
        raise FetchError(
            shard.url, f"has {status.st_size} bytes now and was listed with {shard.size}"
        )
    kind, _, listed = (shard.etag or "").partition(":")
    if kind == "sha1":
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha1").hexdigest()
        if found != listed:
            raise FetchError(shard.url, f"has SHA-1 {found} and was listed with {listed}")
    if kind == "mtime" and listed.partition(";")[0] != str(status.st_mtime_ns):
        raise FetchError(shard.url, "has changed since it was listed; run again")


def extract_step(config: DataConfig) -> Step:
    """The stage's step; its folder carries the configuration, so that runs share documents."""
    part = {
        "extraction": config.extraction.model_dump(mode="json"),
        "language_identification": config.language_identification.model_dump(mode="json"),
        "languages": config.run.languages
        if isinstance(config.run.languages, str)
        else sorted(config.run.languages),
    }
    fetching = config.fetching
    budget = partial(
        Politeness,
        fetching.requests_per_second,
        fetching.tries,
        fetching.first_pause_seconds,
        fetching.longest_pause_seconds,
        fetching.min_bytes_per_second,
        fetching.longest_retry_after_seconds,
    )
    return Step(
        name="extract",
        version=VERSION,
        folder=f"corpus/documents/{digest(VERSION, part)[:12]}",
        config=part,
        work=extract_shard,
        shared=budget,
    )


def extract_units(config: DataConfig, shards: Sequence[Shard]) -> list[Unit]:
    """One unit a shard. The address is no part of what identifies it."""
    return [
        Unit(
            key=shard.name,
            inputs=(FileRef(path=shard.name, size=shard.size, checksum=shard.etag),),
            arguments={"shard": asdict(shard)},
        )
        for shard in shards
    ]
