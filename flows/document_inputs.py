"""What a person names on the command line, as shards: files, globs, addresses, standard input."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipelines.config import LocalFilesSource
from pipelines.core.config import ConfigError
from pipelines.core.records import Shard
from pipelines.core.store import local_file
from pipelines.sources.fetching.fetch import FetchError, fetch, file_info, own_budget
from pipelines.sources.fetching.local_copy import local_path
from pipelines.sources.fetching.politeness import Politeness
from pipelines.sources.file_formats import format_by_content, format_by_name
from pipelines.sources.local_files import READERS, LocalFiles

STANDARD_INPUT = "-"
STANDARD_INPUT_NAME = "standard input"
TRIES = 3
"""Tries for one address: a person waits, who can try again."""
HEAD_BYTES = 2**20
"""A bz2 file shows nothing of itself before its first block, of at most 900,000 bytes."""


class UnreadableInput(RuntimeError):
    """Inputs cannot be read; the message names them."""


def section_of(paths: Sequence[str], kind: str = "auto") -> LocalFilesSource:
    """The source section that names some files."""
    return LocalFilesSource.model_validate(
        {"kind": "local_files", "paths": list(paths), "format": kind}
    )


def list_inputs(inputs: Sequence[str], folder: Path) -> list[Shard]:
    """The shards of all arguments, in their order; a file that is named twice is read once.

    They are those that a run's source `local_files` lists, so documents get the same ids.

    Args:
        folder: where a copy of standard input is put.

    Raises:
        UnreadableInput: an input is missing, or of a kind that is not read.
    """
    shards: dict[str, Shard] = {}
    for source in dict.fromkeys(inputs):
        try:
            with own_budget(Politeness(tries=TRIES)):
                found = [_standard_input(folder)] if source == STANDARD_INPUT else _listed(source)
        except (ConfigError, FetchError) as error:
            raise UnreadableInput(str(error)) from error
        for shard in found:
            shards.setdefault(shard.name, shard)
    return list(shards.values())


def _listed(source: str) -> list[Shard]:
    kind = "auto"
    if local_path(source) is None and format_by_name(source) is None:
        kind = _format_of_address(source) or kind
    return LocalFiles().list_shards(section_of([source], kind), "")


def _format_of_address(url: str) -> str | None:
    """The format of a file elsewhere, by its first bytes; None when they do not tell.

    Raises:
        FetchError: it cannot be fetched.
        ConfigError: it is of a kind that is not read.
    """
    size = file_info(url).size
    with local_file() as path:
        try:
            fetch(url, path, byte_range=(0, min(size, HEAD_BYTES)) if size else None)
        except FetchError:
            if not size:
                raise
            fetch(url, path)  # not every server gives a part of a file
        found = format_by_content(path)
    if found is not None and found not in READERS:
        raise ConfigError(f"{url} is {found}")
    return found


def _standard_input(folder: Path) -> Shard:
    path = folder / "standard-input"
    with path.open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy, 2**20)
    try:
        [listed] = LocalFiles().list_shards(section_of([str(path)]), "")
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(path), STANDARD_INPUT_NAME)) from error
    return replace(listed, name=STANDARD_INPUT_NAME)
