"""Files of documents for people: JSONL or Parquet, whole under their name or not there at all."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import pyarrow as pa

from pipelines.core.config import ConfigError
from pipelines.core.records import DOCUMENT_SCHEMA, REJECT_SCHEMA, Document, documents_to_table
from pipelines.core.store import ROWS_PER_GROUP, parquet_writer

Format = Literal["jsonl", "parquet"]
STANDARD_OUTPUT = "-"
CHARACTERS_PER_GROUP = 2**23
FIELDS = [name for name in DOCUMENT_SCHEMA.names if name != "paragraph_offsets"]
"""Of a line of JSONL; where paragraphs begin is told by the blank lines of the text."""


class DocumentFile(Protocol):
    """Something documents are written to."""

    def write(self, document: Document, reason: str | None = None) -> None:
        """Add one document; with a reason when it is a file of rejects."""


def format_of(output: str, given: Format | None) -> Format:
    """The format as given, else by the ending of the name.

    Raises:
        ConfigError: the ending says nothing or another format, or Parquet would go to a terminal.
    """
    ending: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
    if output == STANDARD_OUTPUT:
        if given == "parquet":
            raise ConfigError("-o -: standard output takes JSONL; give a file for Parquet")
        return "jsonl"
    found = given or ending.get(Path(output).suffix.lower())
    if found is None:
        raise ConfigError(f"{output}: end the name in .jsonl or .parquet, or give --format")
    return found


def check_output(output: str, overwrite: bool) -> None:
    """Refuse a place that cannot be written to, before any work.

    Raises:
        ConfigError: it exists and `overwrite` is False, its folder is missing, or it is no path.
    """
    if output == STANDARD_OUTPUT:
        return
    if "://" in output:
        raise ConfigError(f"{output}: documents are written to a local file, not to an address")
    path = Path(output)
    if path.is_dir():
        raise ConfigError(f"{output} is a folder; give the name of a file")
    if path.exists() and not overwrite:
        raise ConfigError(f"{output} exists; take another name, or give --overwrite")
    if not path.parent.is_dir():
        raise ConfigError(f"{output}: there is no folder {path.parent}")


@contextmanager
def document_file(output: str, kind: Format, *, rejects: bool = False) -> Iterator[DocumentFile]:
    """A file that gets its name when the block ends well; after an exception nothing is left.

    The block ends early, and well, when nobody reads standard output any more (`| head`).
    """
    if output == STANDARD_OUTPUT:
        try:
            yield _JsonLines(sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # Python flushes what it holds once more when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    target = Path(output)
    attempt = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with ExitStack() as files:
            if kind == "jsonl":
                yield _JsonLines(files.enter_context(attempt.open("wb")))
            else:
                schema = REJECT_SCHEMA if rejects else DOCUMENT_SCHEMA
                table = _ParquetTable(files.enter_context(parquet_writer(attempt, schema)))
                yield table
                table.flush()
        os.replace(attempt, target)
    finally:
        attempt.unlink(missing_ok=True)


class _JsonLines:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, document: Document, reason: str | None = None) -> None:
        row = as_json(document)
        if reason is not None:
            row["reason"] = str(reason)
        self._file.write(json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")


def as_json(document: Document) -> dict[str, Any]:
    """The fields of a document; scores with four digits."""
    row: dict[str, Any] = {
        field.name: getattr(document, field.name, None) for field in DOCUMENT_SCHEMA
    }
    del row["paragraph_offsets"]  # blank lines in the text say the same
    for name in ("language_score", "language_second_score"):
        row[name] = round(row[name], 4)
    return row


class _ParquetTable:
    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._documents: list[Document] = []
        self._reasons: list[str] = []
        self._characters = 0

    def write(self, document: Document, reason: str | None = None) -> None:
        self._documents.append(document)
        self._characters += len(document.text)
        if reason is not None:
            self._reasons.append(str(reason))
        if len(self._documents) == ROWS_PER_GROUP or self._characters > CHARACTERS_PER_GROUP:
            self.flush()

    def flush(self) -> None:
        if self._documents:
            table: pa.Table = documents_to_table(self._documents, self._reasons or None)
            self._writer.write_table(table)
        self._documents, self._reasons, self._characters = [], [], 0
