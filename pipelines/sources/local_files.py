"""Plain files as a source: JSONL, Parquet, text, HTML, and what the other readers read.

A row is a document, its number is its offset. A text or HTML file is one document; a text file of
one document a line is read by the source `hugging_face` with `dataset = "text"`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import fsspec
from fsspec.implementations.local import LocalFileSystem

from pipelines.config import LocalFilesSource
from pipelines.core.config import ConfigError
from pipelines.core.hashing import digest
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import MAX_MEMBER_BYTES, RawPage
from pipelines.sources.fetching.fetch import file_info
from pipelines.sources.fetching.http_transfer import is_http
from pipelines.sources.fetching.local_copy import local_path, what_it_is
from pipelines.sources.fetching.transfer import storable
from pipelines.sources.file_formats import format_by_content, format_by_name
from pipelines.sources.parquet_rows import read_parquet_rows
from pipelines.sources.rows import Columns, read_jsonl_rows, read_whole
from pipelines.sources.warc import read_warc_pages
from pipelines.sources.wikipedia import Wikipedia

GLOB = frozenset("*?[")


@dataclass(frozen=True)
class _File:
    path: Path
    shard: Shard
    counters: Counters
    notes: list[str]
    max_page_bytes: int
    max_member_bytes: int

    @property
    def columns(self) -> Columns:
        options = self.shard.options
        return Columns(options["text_column"], options["url_column"] or None)


class LocalFiles:
    """Source `local_files`."""

    downloads = True

    def list_shards(self, config: LocalFilesSource, server: str) -> list[Shard]:
        """One shard a file; a file's name is its path, for nothing shorter tells files apart.

        Raises:
            ConfigError: a path matches no file, or a file is of a kind that is not read; it is
                named with what would be right.
        """
        del server
        urls = [url for pattern in config.paths for url in _expand(pattern)]
        return [_shard(url, config) for url in dict.fromkeys(urls)]

    def read_pages(
        self,
        path: Path,
        shard: Shard,
        counters: Counters,
        notes: list[str],
        max_page_bytes: int,
        max_member_bytes: int = MAX_MEMBER_BYTES,
    ) -> Iterator[RawPage]:
        """Pages of a file in its own format; see `Source.read_pages`."""
        file = _File(path, shard, counters, notes, max_page_bytes, max_member_bytes)
        return READERS[shard.options["format"]](file)


def _jsonl(file: _File) -> Iterator[RawPage]:
    return read_jsonl_rows(
        file.path, file.shard.name, file.columns, file.counters, file.notes, file.max_page_bytes
    )


def _parquet(file: _File) -> Iterator[RawPage]:
    return read_parquet_rows(
        file.path, file.shard.name, file.columns, file.counters, file.notes, file.max_page_bytes
    )


def _whole(file: _File) -> Iterator[RawPage]:
    kind: Literal["html", "paragraphs"] = (
        "html" if file.shard.options["format"] == "html" else "paragraphs"
    )
    url = file.shard.url if "://" in file.shard.url else file.path.absolute().as_uri()
    return read_whole(
        file.path, file.shard.name, url, kind, file.counters, file.notes, file.max_page_bytes
    )


def _warc(file: _File) -> Iterator[RawPage]:
    return read_warc_pages(
        file.path,
        file.shard.name,
        file.counters,
        file.notes,
        file.max_page_bytes,
        file.max_member_bytes,
    )


def _wikipedia(file: _File) -> Iterator[RawPage]:
    return Wikipedia().read_pages(
        file.path,
        file.shard,
        file.counters,
        file.notes,
        file.max_page_bytes,
        file.max_member_bytes,
    )


READERS: dict[str, Callable[[_File], Iterator[RawPage]]] = {
    "jsonl": _jsonl,
    "parquet": _parquet,
    "text": _whole,
    "html": _whole,
    "warc": _warc,
    "wet": _warc,
    "wikipedia": _wikipedia,
}


def _expand(pattern: str) -> list[str]:
    """The files that a path or glob names, sorted."""
    if is_http(pattern):
        return [pattern]
    try:
        filesystem, path = fsspec.core.url_to_fs(pattern)
        if filesystem.isfile(path):  # a name may hold a bracket itself
            found = [path]
        elif filesystem.isdir(path):
            raise ConfigError(f"{pattern} is a folder; write {pattern.rstrip('/')}/* for its files")
        elif isinstance(filesystem, LocalFileSystem) and Path(path).exists():
            raise ConfigError(f"{pattern} {what_it_is(Path(path))}")
        elif not GLOB & set(path):
            raise ConfigError(f"{pattern}: no such file")
        else:
            found = sorted(name for name in filesystem.glob(path) if filesystem.isfile(name))
    except (ValueError, ImportError, PermissionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{pattern}: {error}") from error
    if not found:
        raise ConfigError(f"{pattern}: no file matches")
    if isinstance(filesystem, LocalFileSystem):
        return [str(name) for name in found]
    return [filesystem.unstrip_protocol(name) for name in found]


def _shard(url: str, config: LocalFilesSource) -> Shard:
    path = local_path(url)
    if path is not None:
        status = path.stat()
        size, mark = status.st_size, f"mtime:{status.st_mtime_ns}"
    else:
        info = file_info(url)
        size, mark = info.size, info.etag  # type: ignore[assignment]
    options = {
        "format": _format(url, path) if config.format == "auto" else config.format,
        "text_column": config.text_column,
        "url_column": config.url_column or "",
    }
    # What is read from the file is part of what identifies the unit.
    return Shard(
        name=storable(str(path) if path is not None else url.partition("://")[2]),
        url=_storable_url(url, path),
        source="local_files",
        kind=config.kind,
        size=size,
        etag=f"{mark};{digest(options)[:8]}",
        options=options,
    )


def _storable_url(url: str, path: Path | None) -> str:
    """An address that manifests can hold and that still opens the file.

    Raises:
        ConfigError: another file has the very name that this one would get.
    """
    kept = storable(url)
    if path is not None and kept != url and Path(storable(str(path))).exists():
        raise ConfigError(
            f"{kept}: two files go by this name, one with bytes in it that are no UTF-8; rename one"
        )
    return kept


def _format(url: str, path: Path | None) -> str:
    """By the ending of the name, else by the first bytes.

    Raises:
        ConfigError: it is none that is read; says what it is, if that can be told.
    """
    found = format_by_name(url)
    if found is None and path is not None:
        found = format_by_content(path)
    if found is None:
        raise ConfigError(
            f"{url}: cannot tell its format by its ending; set `format` to one of "
            f"{', '.join(READERS)}"
        )
    if found not in READERS:
        raise ConfigError(f"{url} is {found}; what is read: {', '.join(READERS)}")
    return found
