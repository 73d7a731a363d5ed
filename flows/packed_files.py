"""Packed sequences to look at: which files are meant, their rows, and the vocabulary they need."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core.config import ConfigError
from pipelines.core.manifest import read_stage, read_verified
from pipelines.core.records import (
    PackedFormat,
    check_columns,
    check_packed,
    check_widths,
    read_packed_format,
)
from pipelines.core.store import DamagedObject, Store, damaged
from pipelines.core.vocabulary import Vocabulary, vocabulary_part
from pipelines.core.wordpiece import WordPieceVocabulary

AnyVocabulary = Vocabulary | WordPieceVocabulary

PARQUET = b"PAR1"


@dataclass(frozen=True)
class PackedFile:
    """One file of packed sequences."""

    store: Store
    key: str

    @property
    def path(self) -> str:
        """Where it is, for people."""
        return self.store.path(self.key)

    @property
    def run(self) -> tuple[Store, str] | None:
        """The store and the run it belongs to, by its place STORE/runs/RUN/packed/…; else None."""
        parts = f"{self.store.url.rstrip('/')}/{self.key}".split("/")
        for place in range(len(parts) - 1, 1, -1):
            if parts[place] == "packed" and parts[place - 2] == "runs":
                return Store("/".join(parts[: place - 2]) or "/"), parts[place - 1]
        return None


@dataclass(frozen=True)
class Contents:
    """What a file says of itself."""

    stored: PackedFormat
    rows: int
    tokens: int

    @property
    def fill(self) -> float:
        """Share of the places in its rows that hold a token."""
        return self.tokens / (self.rows * self.stored.length) if self.rows else 0.0


def find_files(shard: str, store_url: str, language: str | None) -> list[PackedFile]:
    """The files that a person means: a path, a URL, a key of the store, or a run's name.

    Args:
        store_url: where keys and runs are looked up.
        language: of a run, only its files of this language.

    Raises:
        ConfigError: there is no such thing; what was looked for is said.
        FileNotFoundError: the run has not packed yet.
    """
    if "\0" in shard:
        raise ConfigError(f"{shard!r}: no name of a file or a run has a NUL")
    if "://" in shard or Path(shard).is_file():
        folder, _, name = (shard if "://" in shard else str(Path(shard).resolve())).rpartition("/")
        file = PackedFile(Store(folder or "/"), name)
        if not file.store.exists(name):
            raise FileNotFoundError(f"{shard}: no such object")
        return [file]
    store = Store(store_url)
    if "/" in shard:
        if store.exists(shard):
            return [PackedFile(store, shard)]
        raise ConfigError(
            f"{shard}: no such file here, and no such key in the store {store.url}; "
            "for another store use --store"
        )
    if not store.exists(f"runs/{shard}/config.toml") and not store.exists(
        f"runs/{shard}/stages/pack.json"
    ):
        raise ConfigError(
            f"{shard}: no such file here, and no such run in the store {store.url}; "
            "for another store use --store"
        )
    outputs = read_stage(store, shard, "pack").outputs_of(part="train")
    languages = sorted({output.labels["language"] for output in outputs})
    if language is not None and language not in languages:
        raise ConfigError(
            f"--language {language}: run {shard} has packed {', '.join(languages) or 'nothing'}"
        )
    return [
        PackedFile(store, output.path)
        for output in outputs
        if language is None or output.labels["language"] == language
    ]


@contextmanager
def opened(file: PackedFile) -> Iterator[pq.ParquetFile]:
    """The file while the block runs; damage that the block meets is named.

    Raises:
        ValueError: it is no Parquet file.
        DamagedObject: its bytes are not those that were written.
    """
    with _damage_named(file.path), file.store.open(file.key) as source:
        if source.read(len(PARQUET)) != PARQUET:
            raise ValueError(f"{file.path}: not a Parquet file")
        source.seek(0)
        yield pq.ParquetFile(source, page_checksum_verification=True)


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """As `store.damage_named`, for files that anybody may have written: text is not trusted."""
    try:
        yield
    except (DamagedObject, FileNotFoundError):
        raise  # named already, another file perhaps
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the operating system's own
        raise damaged(path, error) from error


def contents_of(file: PackedFile, parquet: pq.ParquetFile) -> Contents:
    """What the file says of itself; only its footer is read.

    Raises:
        ConfigError: it holds documents.
        ValueError: it holds something else that is no packed sequences.
        DamagedObject: its footer contradicts itself.
    """
    schema = parquet.schema_arrow
    if "text" in schema.names and "tokens" not in schema.names:
        raise ConfigError(
            f"{file.path}: holds documents, not packed sequences; "
            f"`babelmill documents {file.path} -o -` shows documents"
        )
    stored = read_packed_format(schema.metadata, file.path)
    check_widths(schema.empty_table(), stored, file.path)
    check_columns(schema, stored, file.path)
    footer, tokens = parquet.metadata, 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            # A sequence has a token at least, so each value of the list is one.
            if column.path_in_schema.split(".")[0] == "tokens":
                tokens += column.num_values
    grouped = sum(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    if grouped != footer.num_rows:
        raise damaged(file.path, f"{footer.num_rows} rows, its row groups have {grouped}")
    return Contents(stored, footer.num_rows, tokens)


def read_rows(
    path: str, parquet: pq.ParquetFile, first: int, count: int, language: str | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, row) of so many rows from row `first` on; only their row groups are read.

    Args:
        path: named in the error.
        language: only rows of this language; others do not count.

    Raises:
        DamagedObject: a row group has not the rows that the footer says.
    """
    begin, found = 0, 0
    for number in range(parquet.metadata.num_row_groups):
        size = parquet.metadata.row_group(number).num_rows
        if found < count and begin + size > first:
            table = parquet.read_row_group(number)
            if table.num_rows != size:
                raise damaged(path, f"row group {number} has {table.num_rows} rows, not {size}")
            for place in range(max(first - begin, 0), size):
                if found == count:
                    break
                if language is not None and table["language"][place].as_py() != language:
                    continue
                found += 1
                yield begin + place, table.slice(place, 1).to_pylist()[0]
        begin += size


def find_vocabulary(file: PackedFile, given: str | None) -> tuple[bytes, str]:
    """The vocabulary's bytes and where they are from: the file that is given, or the run's.

    Raises:
        ConfigError: none is given and the file does not lie in a run that has one.
        DamagedObject: the run's is not what the run wrote.
    """
    if given is not None:
        return _read(given), given
    found = file.run
    if found is None:
        raise ConfigError(
            f"{file.path}: lies in no run, so its vocabulary is not known; "
            "give it with --vocabulary FILE (spm.model or tokenizer.json)"
        )
    store, run = found
    try:
        outputs = read_stage(store, run, "vocabulary").outputs
    except FileNotFoundError as error:
        raise ConfigError(
            f"{file.path}: {error}; give the vocabulary with --vocabulary FILE"
        ) from None
    by_part = {output.labels.get("part", ""): output for output in outputs}
    part = vocabulary_part(by_part)
    if part is None:
        raise ConfigError(
            f"{file.path}: run {run} records no vocabulary; give it with --vocabulary FILE"
        )
    return read_verified(store, by_part[part]), store.path(by_part[part].path)


def open_checked(content: bytes, origin: str, stored: PackedFormat, path: str) -> AnyVocabulary:
    """The vocabulary, if it is the one that the file was packed with.

    Raises:
        ConfigError: it is none.
        ValueError: it is another one.
    """
    try:
        vocabulary = _parsed(content)
    except Exception as error:  # of two libraries' own kinds
        raise ConfigError(f"{origin}: no vocabulary: {error}") from None
    check_packed(
        {name.encode(): value.encode() for name, value in stored.metadata.items()},
        vocabulary.rows,
        f"{path}, vocabulary {origin}",
        hashlib.sha256(content).hexdigest(),
    )
    return vocabulary


@lru_cache(maxsize=1)  # the files of a run share one, and a large one takes a second
def _parsed(content: bytes) -> AnyVocabulary:
    kind = WordPieceVocabulary if content.lstrip()[:1] == b"{" else Vocabulary
    return kind(content)


def _read(path: str) -> bytes:
    folder, _, name = (path if "://" in path else str(Path(path).resolve())).rpartition("/")
    store = Store(folder or "/")
    if not store.exists(name):
        raise ConfigError(f"--vocabulary {path}: no such file")
    return store.read_bytes(name)
