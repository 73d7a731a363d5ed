"""The records that pass between stages, and their Arrow schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

UNKNOWN_LANGUAGE = "und"
"""BCP 47's tag for text whose language is not known."""

MIXED = "mul"
"""Language of sequences that hold several (ISO 639-2)."""

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


PACKED_MODES = ("stream", "document", "pairs")
"""How documents lie in packed rows: see pipelines/pack_sequences."""


@dataclass(frozen=True, slots=True)
class PackedFormat:
    """What a file of packed sequences says of itself, in its Parquet schema's metadata."""

    rows: int
    """Rows of the vocabulary's embedding table: every id is below it."""
    mode: str
    """One of PACKED_MODES."""
    length: int
    """Longest sequence in tokens, special ones included."""
    vocabulary: str
    """SHA-256 of `spm.model`, or of `tokenizer.json` where there is no such model."""

    @property
    def id_bytes(self) -> int:
        """Bytes of a stored id: the narrowest that holds rows - 1."""
        return 2 if self.rows <= 2**16 else 4

    @property
    def metadata(self) -> dict[str, str]:
        """The entries of the schema's metadata."""
        return {
            "babelmill.rows": str(self.rows),
            "babelmill.id_bytes": str(self.id_bytes),
            "babelmill.mode": self.mode,
            "babelmill.length": str(self.length),
            "babelmill.vocabulary": self.vocabulary,
        }

    @property
    def schema(self) -> pa.Schema:
        """The schema of the file, with its metadata."""
        id_type = pa.uint16() if self.id_bytes == 2 else pa.uint32()
        return sequence_schema(id_type, self.mode).with_metadata(self.metadata)


def sequence_schema(id_type: pa.DataType, mode: str = "stream") -> pa.Schema:
    """Schema of packed sequences; `id_type` is uint16 or uint32, derived from the vocabulary size.

    Masked input = `tokens` with `mask_tokens[view]` put at `mask_positions[view]`; labels =
    `tokens` at those positions. So one row carries both the masked sequence and the original.
    `document_starts[i]` is where the text of `document_ids[i]` begins: its first token, or in mode
    `document` its `<s>`. Mode `pairs` adds `segments` (0 and 1, one a token) and `is_next`.
    """
    fields = [
        pa.field("sequence_id", pa.string(), nullable=False),
        pa.field("language", pa.string(), nullable=False),
        pa.field("tokens", pa.list_(id_type), nullable=False),
        pa.field("document_starts", pa.list_(pa.int32()), nullable=False),
        pa.field("mask_positions", pa.list_(pa.list_(pa.uint16())), nullable=False),
        pa.field("mask_tokens", pa.list_(pa.list_(id_type)), nullable=False),
        pa.field("document_ids", pa.list_(pa.string()), nullable=False),
    ]
    if mode == "pairs":
        fields.append(pa.field("segments", pa.list_(pa.uint8()), nullable=False))
        fields.append(pa.field("is_next", pa.bool_(), nullable=False))
    return pa.schema(fields)


def read_packed_format(metadata: Mapping[bytes, bytes] | None, path: str) -> PackedFormat:
    """What a file of packed sequences says of itself.

    Args:
        metadata: of the file's Arrow schema.
        path: named in the error.

    Raises:
        ValueError: it says nothing or what cannot be, or its width of ids is not that of its
            vocabulary.
    """
    try:
        found = {key.decode(): value.decode() for key, value in (metadata or {}).items()}
        read = PackedFormat(
            rows=int(found["babelmill.rows"]),
            mode=found["babelmill.mode"],
            length=int(found["babelmill.length"]),
            vocabulary=found["babelmill.vocabulary"],
        )
        id_bytes = int(found["babelmill.id_bytes"])
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: its metadata are not those of packed sequences ({error}); need "
            "babelmill.rows, id_bytes, mode, length, vocabulary: run the pack stage again"
        ) from None
    for name, value in (("rows", read.rows), ("length", read.length)):
        if value < 1:
            raise ValueError(f"{path}: its metadata say babelmill.{name} = {value}; need 1 or more")
    if read.mode not in PACKED_MODES:
        wrong = f"babelmill.mode = {read.mode!r}; need one of {', '.join(PACKED_MODES)}"
        raise ValueError(f"{path}: its metadata say {wrong}")
    if id_bytes != read.id_bytes:
        raise ValueError(
            f"{path}: ids of {id_bytes} bytes, but a vocabulary of {read.rows} rows needs "
            f"{read.id_bytes}"
        )
    return read


def check_packed(
    metadata: Mapping[bytes, bytes] | None, rows: int, path: str, vocabulary: str | None = None
) -> PackedFormat:
    """Refuse packed sequences that were made with another vocabulary.

    Args:
        rows: rows of the reader's vocabulary.
        vocabulary: SHA-256 of the reader's vocabulary file; None where it is not known.

    Raises:
        ValueError: the file is none of packed sequences, or its vocabulary is another one; both
            are named.
    """
    found = read_packed_format(metadata, path)
    if found.rows != rows:
        raise ValueError(
            f"{path}: packed with a vocabulary of {found.rows} rows (sha256 {found.vocabulary}), "
            f"read with one of {rows} rows"
        )
    if vocabulary is not None and found.vocabulary != vocabulary:
        raise ValueError(
            f"{path}: packed with the vocabulary of sha256 {found.vocabulary}, read with that of "
            f"sha256 {vocabulary}"
        )
    return found


def check_widths(table: pa.Table | pa.RecordBatch, stored: PackedFormat, path: str) -> None:
    """Hold ids against the width that the file claims: bytes = tokens x width.

    Raises:
        ValueError: a column of ids has another width; the file and the column are named.
    """
    for name in ("tokens", "mask_tokens"):
        if name not in table.schema.names:
            continue
        values = table.schema.field(name).type
        while pa.types.is_list(values):
            values = values.value_type
        if not pa.types.is_unsigned_integer(values) or values.bit_width != 8 * stored.id_bytes:
            raise ValueError(
                f"{path}, column {name}: ids of type {values}; a vocabulary of {stored.rows} rows "
                f"needs unsigned integers of {stored.id_bytes} bytes"
            )


def check_columns(schema: pa.Schema, stored: PackedFormat, path: str) -> None:
    """Hold a file's columns against those of its mode; columns of its own it may have besides.

    Raises:
        ValueError: a column is missing or has another type; the file and the column are named.
    """
    for wanted in stored.schema:
        if wanted.name not in schema.names:
            raise ValueError(f"{path}: it has no column {wanted.name}: run the pack stage again")
        found = schema.field(wanted.name).type
        if found != wanted.type:
            wrong = f"is {found}; packed sequences have {wanted.type}"
            raise ValueError(f"{path}, column {wanted.name}: {wrong}")
