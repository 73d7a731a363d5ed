"""`babelmill documents`: text, language, filters and exact duplicates on files, without a cluster.

What a person uses to look at one file: the same functions as the stages, one document at a time.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flows.config import RunConfig, resolve
from flows.document_files import (
    STANDARD_OUTPUT,
    DocumentFile,
    Format,
    check_output,
    document_file,
    format_of,
)
from flows.stages import DEFAULT_DEPLOYMENT
from pipelines.config import LocalFilesSource
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.core.progress import duration
from pipelines.core.records import Document, Shard
from pipelines.core.store import local_file
from pipelines.deduplicate.normalise import document_key, paragraph_key
from pipelines.extract.documents import Reading
from pipelines.extract.stage import read_shard
from pipelines.filters import Chain
from pipelines.sources.fetch import FetchError
from pipelines.sources.file_formats import format_by_name
from pipelines.sources.local_copy import local_copy, local_path
from pipelines.sources.local_files import LocalFiles

STANDARD_INPUT = "-"
SHOWN_NOTES = 20
SHOWN_LANGUAGES = 30


class UnreadableInput(RuntimeError):
    """An input cannot be read; the message names it."""


@dataclass(frozen=True)
class Wanted:
    """What a person asked for."""

    output: str
    """A local file, or "-"."""
    format: Format | None = None
    """None goes by the output's ending."""
    rejects: str | None = None
    """A local file for what the filters and the search for duplicates drop."""
    limit: int | None = None
    """Stop after so many documents in the output."""
    overwrite: bool = False


@dataclass
class Stats:
    """What came out."""

    counters: Counters = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    languages: Counters = field(default_factory=Counter)
    characters: Counters = field(default_factory=Counter)
    rejected: Counters = field(default_factory=Counter)
    seconds: float = 0.0
    stopped: bool = False
    """The limit was reached: the rest of the input was not read."""


def run_documents(
    inputs: Sequence[str],
    wanted: Wanted,
    *,
    languages: Sequence[str] = (),
    file: Path | None = None,
    settings: Sequence[str] = (),
) -> Stats:
    """Do it and print the stats (to standard error when the documents go to standard output).

    Args:
        inputs: local files, globs, URLs, or "-".
        languages: BCP 47 tags to keep; none keeps what the configuration says.
        file: the person's TOML file, laid over the default preset.
        settings: `section.setting=value` lines.

    Raises:
        ConfigError: a setting or the output is wrong; nothing was written.
        UnreadableInput: an input is missing or nothing in it can be read; nothing was written.
    """
    given = list(settings)
    if languages:
        given.append(f"run.languages={json.dumps(list(languages))}")
    config = resolve(DEFAULT_DEPLOYMENT, file, given)
    targets = [wanted.output, *([wanted.rejects] if wanted.rejects else [])]
    for target in targets:
        check_output(target, wanted.overwrite)
    if len({Path(target).absolute() for target in targets}) < len(targets):
        raise ConfigError(f"{wanted.output}: documents and rejects need two files")
    stats, began = Stats(), time.monotonic()
    with ExitStack() as files:
        output = files.enter_context(
            document_file(wanted.output, format_of(wanted.output, wanted.format))
        )
        rejects = None
        if wanted.rejects:
            kind = format_of(wanted.rejects, wanted.format)
            rejects = files.enter_context(document_file(wanted.rejects, kind, rejects=True))
        _write(_documents(inputs, config, stats), config, wanted.limit, (output, rejects), stats)
    stats.seconds = time.monotonic() - began
    show_stats(stats, wanted)
    return stats


def _write(
    documents: Iterator[Document],
    config: RunConfig,
    limit: int | None,
    files: tuple[DocumentFile, DocumentFile | None],
    stats: Stats,
) -> None:
    chain, seen = Chain(config.filters), set[bytes]()
    output, rejects = files
    for document in documents:
        reason: str | None = chain.reason_to_drop(document, stats.counters)
        if reason is None:
            key = document_key(map(paragraph_key, document.paragraphs))
            reason = "duplicate" if key in seen else None
            seen.add(key)
        if reason is not None:
            stats.rejected[reason] += 1
            if rejects is not None:
                if because := getattr(reason, "because", ""):
                    document.metadata["rejected_because"] = because
                rejects.write(document, reason)
            continue
        output.write(document)
        stats.languages[document.language] += 1
        stats.characters[document.language] += len(document.text)
        if stats.languages.total() == limit:
            stats.stopped = True
            break


def _documents(inputs: Sequence[str], config: RunConfig, stats: Stats) -> Iterator[Document]:
    reading = Reading(
        config.extraction,
        config.language_identification,
        None if config.run.languages == "all" else frozenset((*config.run.languages, "und")),
    )
    for source in inputs:
        for shard in _shards(source):
            with _opened(shard) as (path, known):
                before = stats.counters["records"]
                try:
                    yield from read_shard(path, known, reading, stats.counters, stats.notes)
                except FetchError as error:
                    raise UnreadableInput(str(error)) from error
                if stats.counters["records"] == before:
                    found = "; ".join(stats.notes[-3:]) or "nothing in it was recognised"
                    raise UnreadableInput(f"{known.name}: {found}")


def _shards(source: str) -> list[Shard]:
    """The files that an argument names. Their format is found when they are opened."""
    if source == STANDARD_INPUT or local_path_or_none(source) is None:
        name = "standard input" if source == STANDARD_INPUT else source
        return [Shard(name=name, url=source, source="local_files", kind="local_files")]
    try:
        return LocalFiles().list_shards(_section(source), "")
    except ConfigError as error:
        raise UnreadableInput(str(error)) from error


def local_path_or_none(source: str) -> Path | None:
    """The local path of an argument; None for an address elsewhere.

    Raises:
        UnreadableInput: an address of a kind that nothing here can open.
    """
    try:
        return local_path(source)
    except FetchError as error:
        raise UnreadableInput(str(error)) from error


def _section(path: str, kind: str | None = None) -> LocalFilesSource:
    return LocalFilesSource.model_validate(
        {"kind": "local_files", "paths": [path], "format": kind or "auto"}
    )


@contextmanager
def _opened(shard: Shard) -> Iterator[tuple[Path, Shard]]:
    """A local file, and the shard with its format."""
    if shard.options:
        yield Path(shard.name), shard
        return
    with ExitStack() as files:
        if shard.url == STANDARD_INPUT:
            path = files.enter_context(local_file())
            with path.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy, 2**20)
            by_name = None
        else:
            try:
                path = files.enter_context(local_copy(shard.url))
            except FetchError as error:
                raise UnreadableInput(str(error)) from error
            by_name = format_by_name(shard.url)
        try:
            known = by_name if by_name and " " not in by_name else None
            [listed] = LocalFiles().list_shards(_section(str(path), known), "")
        except ConfigError as error:
            what = str(error).replace(str(path), shard.name)
            raise UnreadableInput(what) from error
        yield path, replace(listed, name=shard.name, url=shard.url)


def show_stats(stats: Stats, wanted: Wanted) -> None:
    """Print what was read, kept, dropped and why."""
    console = Console(stderr=wanted.output == STANDARD_OUTPUT)
    count = stats.counters
    table = Table("", "documents", "characters", title="Documents")
    for language, number in _most(stats.languages, SHOWN_LANGUAGES):
        table.add_row(language, f"{number:,}", f"{stats.characters[language]:,}")
    total = stats.languages.total()
    table.add_row("written", f"{total:,}", f"{stats.characters.total():,}", style="bold")
    console.print(table)
    table = Table("not written, because", "number", title=f"{count['pages']:,} pages read")
    for name, number in _most(stats.rejected):
        table.add_row(str(name), f"{number:,}")
    for name, number in _most(count):
        if name.startswith("dropped.") and "/" not in name:
            table.add_row(name.removeprefix("dropped."), f"{number:,}")
    if not table.row_count:
        table.add_row("nothing was dropped", "0")
    if count["bytes_lost"]:
        table.add_row("bytes lost to damage", f"{count['bytes_lost']:,}")
    console.print(table)
    for note in stats.notes[:SHOWN_NOTES]:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    if len(stats.notes) > SHOWN_NOTES:
        console.print(f"note: and {len(stats.notes) - SHOWN_NOTES} more")
    if stats.stopped:
        console.print(f"stopped at the limit of {total:,} documents; there may be more")
    where = "standard output" if wanted.output == STANDARD_OUTPUT else wanted.output
    console.print(
        f"{where}: {total:,} documents in {duration(stats.seconds)}", soft_wrap=True, markup=False
    )


def _most(count: Counters, limit: int | None = None) -> list[tuple[str, int]]:
    return sorted(count.items(), key=lambda item: (-item[1], item[0]))[:limit]
