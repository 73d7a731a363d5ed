"""The records that pass between stages, and their Arrow schemas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

UNKNOWN_LANGUAGE = "und"
"""BCP 47's tag for text whose language is not known."""

PARAGRAPH_BREAK = "\n\n"
"""What separates paragraphs inside `Document.text`."""


@dataclass(slots=True, frozen=True)
class Shard:
    """One input file: the unit that is read, retried and resumed."""

    name: str
    """Stable name, the same on every mirror: the path inside the crawl or the dump server."""
    url: str
    """Where it is fetched from now. Not part of any identity."""
    source: str
    """`commoncrawl`, `wikipedia`, ..."""
    kind: str
    """Which reader: a key of pipelines.sources.SOURCES."""
    size: int | None = None
    """Bytes as listed by the server; None where it does not say."""
    etag: str | None = None
    """The server's version mark, where it gives one."""
    date: str | None = None
    """Snapshot or dump date, where known."""
    options: dict[str, str] = field(default_factory=dict)
    """What the reader needs besides (for example {"format": "wet"} or {"wiki": "swwiki"})."""


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, in order; parts between breaks that are blank are none."""
    return [part for part in text.split(PARAGRAPH_BREAK) if part.strip()]


@dataclass(slots=True)
class Document:
    """One text with where it came from. `text` is as found: never lower-cased, joiners kept."""

    id: str
    """A digest of source, file name and offset (and the page's number in a dump): the same in every
    run."""
    text: str
    """UTF-8 text; paragraphs are separated by one blank line."""
    source: str
    url: str
    shard: str
    offset: int
    """Byte offset of the record in the uncompressed shard (of the page's bz2 stream in a dump), or
    the number of the row."""
    language: str = UNKNOWN_LANGUAGE
    language_score: float = 0.0
    language_second: str = UNKNOWN_LANGUAGE
    language_second_score: float = 0.0
    date: str | None = None
    title: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def paragraphs(self) -> list[str]:
        """The paragraphs of `text`, in order, without the blank lines between them."""
        return split_paragraphs(self.text)


DOCUMENT_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("shard", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("language", pa.string(), nullable=False),
        pa.field("language_score", pa.float32(), nullable=False),
        pa.field("language_second", pa.string(), nullable=False),
        pa.field("language_second_score", pa.float32(), nullable=False),
        pa.field("date", pa.string()),
        pa.field("title", pa.string()),
        pa.field("metadata", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("paragraph_offsets", pa.list_(pa.int32()), nullable=False),
    ]
)

PLAIN_COLUMNS = [f.name for f in DOCUMENT_SCHEMA if f.name not in ("metadata", "paragraph_offsets")]

REJECT_SCHEMA = DOCUMENT_SCHEMA.append(pa.field("reason", pa.string(), nullable=False))


def paragraph_offsets(text: str) -> list[int]:
    """Character offsets at which the paragraphs of `text` begin."""
    offsets, position = [], 0
    for part in text.split(PARAGRAPH_BREAK):
        if part and not part.isspace():
            offsets.append(position)
        position += len(part) + len(PARAGRAPH_BREAK)
    return offsets


def documents_to_table(
    documents: Iterable[Document], reasons: Iterable[str] | None = None
) -> pa.Table:
    """Lay documents out as an Arrow table (DOCUMENT_SCHEMA, or REJECT_SCHEMA with `reasons`)."""
    members = list(documents)
    schema = DOCUMENT_SCHEMA if reasons is None else REJECT_SCHEMA
    columns: dict[str, list[Any]] = {
        name: [getattr(document, name) for document in members] for name in PLAIN_COLUMNS
    }
    columns["metadata"] = [sorted(document.metadata.items()) for document in members]
    columns["paragraph_offsets"] = [paragraph_offsets(document.text) for document in members]
    if reasons is not None:
        columns["reason"] = list(reasons)
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def table_to_documents(table: pa.Table) -> list[Document]:
    """Read documents back from a table written by `documents_to_table` (reasons are left out)."""
    names = [f.name for f in DOCUMENT_SCHEMA if f.name != "paragraph_offsets"]
    documents = []
    for row in table.select(names).to_pylist():
        row["metadata"] = dict(row["metadata"])
        documents.append(Document(**row))
    return documents


def sequence_schema(id_type: pa.DataType) -> pa.Schema:
    """Schema of packed sequences; `id_type` is uint16 or uint32, derived from the vocabulary size.

    Masked input = `tokens` with `mask_tokens[view]` put at `mask_positions[view]`; labels =
    `tokens` at those positions. So one row carries both the masked sequence and the original.
    """
    return pa.schema(
        [
            pa.field("sequence_id", pa.string(), nullable=False),
            pa.field("language", pa.string(), nullable=False),
            pa.field("tokens", pa.list_(id_type), nullable=False),
            pa.field("document_starts", pa.list_(pa.int32()), nullable=False),
            pa.field("mask_positions", pa.list_(pa.list_(pa.uint16())), nullable=False),
            pa.field("mask_tokens", pa.list_(pa.list_(id_type)), nullable=False),
            pa.field("document_ids", pa.list_(pa.string()), nullable=False),
        ]
    )
