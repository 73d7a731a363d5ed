"""Datasets of the Hugging Face hub, streamed, or local files in a format `datasets` reads.

A shard is one part of a split; its name has no address, its mark covers all the files' marks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from pipelines.config import DATASET_FORMATS, HuggingFaceSource
from pipelines.core.config import ConfigError
from pipelines.core.hashing import digest
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import MAX_MEMBER_BYTES, RawPage
from pipelines.sources.fetching.fetch import FetchError
from pipelines.sources.rows import BadLines, Columns, page_of_row


class HuggingFace:
    """Source `hugging_face`."""

    downloads = False

    def list_shards(self, config: HuggingFaceSource, server: str) -> list[Shard]:
        """`config.shards` parts of the split, which share its files evenly.

        Raises:
            ConfigError: no such dataset, configuration, split, file or column; or the hub does not
                answer.
        """
        del server
        stream, files = _open(config)
        columns = stream.column_names
        if columns is not None and config.text_column not in columns:
            raise ConfigError(
                f"{_title(config)} has no column text_column = {config.text_column!r}; its "
                f"columns: {', '.join(columns)}"
            )
        if config.shards > stream.num_shards:
            raise ConfigError(
                f"shards = {config.shards}: {_title(config)} has {stream.num_shards} file(s); "
                "set at most that"
            )
        sizes = [size for _, size, _ in files]
        size = None if config.shards > 1 or None in sizes else sum(sizes)  # type: ignore[arg-type]
        return [
            Shard(
                name=f"{_title(config)}/{number:05d}-of-{config.shards:05d}",
                url=f"{_title(config)}",
                source="huggingface",
                kind=config.kind,
                size=size,
                etag=digest(files, config.model_dump(mode="json")),
                options={"section": config.model_dump_json(), "part": str(number)},
            )
            for number in range(config.shards)
        ]

    def read_pages(
        self,
        path: None,
        shard: Shard,
        counters: Counters,
        notes: list[str],
        max_page_bytes: int,
        max_member_bytes: int = MAX_MEMBER_BYTES,
    ) -> Iterator[RawPage]:
        """Rows of a part; a row's number in it is its offset. See `Source.read_pages`.

        Raises:
            FetchError: the dataset is not the one that was listed, or breaks off.
        """
        del path, max_member_bytes
        config = HuggingFaceSource.model_validate_json(shard.options["section"])
        try:
            stream, files = _open(config)
        except ConfigError as error:
            raise FetchError(shard.name, str(error)) from error
        if digest(files, config.model_dump(mode="json")) != shard.etag:
            raise FetchError(shard.name, "its files have changed since they were listed; run again")
        columns = Columns(config.text_column, config.url_column)
        part = stream.shard(num_shards=config.shards, index=int(shard.options["part"]))
        if stream.column_names is not None:
            part = part.select_columns(columns.among(stream.column_names))
        bad = BadLines(shard.name, counters, notes)
        for number, row in _rows(part, shard.name):
            if config.max_rows is not None and number >= config.max_rows:
                break
            counters["records"] += 1
            found = page_of_row(row, number, columns, counters)
            if isinstance(found, str):
                bad.add(number + 1, found)
            elif len(found.content) > max_page_bytes:
                counters["dropped.page_too_large"] += 1
            else:
                yield found
        bad.close()


def _rows(part: Any, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows, number = iter(part), 0
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except Exception as error:  # any reader's own error: it has to name the dataset
            raise FetchError(
                name, f"cannot be read after row {number}: {type(error).__name__}: {error}"
            ) from error
        yield number, row
        number += 1


def _title(config: HuggingFaceSource) -> str:
    """What people and identities know the split by; no address of a server."""
    parts = [config.dataset]
    if config.config:
        parts.append(config.config)
    if config.data_files:
        parts.append(digest(config.data_files)[:8])
    revision = f"@{config.revision}" if config.revision else ""
    return "/".join([*parts, config.split]) + revision


def _open(config: HuggingFaceSource) -> tuple[Any, list[tuple[str, int | None, str]]]:
    """The split as a stream, and its files: name, size where known, version mark.

    Raises:
        ConfigError: it cannot be opened.
    """
    import datasets  # type: ignore[import-untyped]  # an option, and slow to load

    if config.dataset in DATASET_FORMATS and not config.data_files:
        raise ConfigError(f"dataset = {config.dataset!r} is a format: name its files in data_files")
    try:
        builder = datasets.load_dataset_builder(
            config.dataset,
            config.config,
            revision=config.revision,
            data_files={config.split: config.data_files} if config.data_files else None,
        )
        stream = builder.as_streaming_dataset(split=config.split)
        if stream.column_names is None:
            stream = stream._resolve_features()
    except Exception as error:  # the hub's, its client's or a file system's own error
        lines = str(error).splitlines() or [""]
        raise ConfigError(
            f"dataset = {config.dataset!r}, split = {config.split!r}: cannot be opened: "
            f"{type(error).__name__}: {lines[0]}"
        ) from error
    files = builder.config.data_files or {}
    return stream, _marks(files.get(config.split) or [])


def _marks(files: Any) -> list[tuple[str, int | None, str]]:
    marks = getattr(files, "origin_metadata", [])
    found = []
    for number, name in enumerate(files):
        local = os.path.isfile(name)
        mark = marks[number] if number < len(marks) else ()
        found.append(
            (str(name), os.path.getsize(name) if local else None, "/".join(map(str, mark)))
        )
    return found
