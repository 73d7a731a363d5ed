"""A file by its address, on the local disk: in place when it lies there, else fetched."""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from pipelines.core.store import local_file
from pipelines.sources.fetching.fetch import FetchError, fetch
from pipelines.sources.fetching.http_transfer import is_http
from pipelines.sources.fetching.politeness import Budget
from pipelines.sources.fetching.transfer import storable

NOT_ASCII = re.compile(r"%([89A-F][0-9A-F])")
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe (FIFO), which can be read but once; write it to a file first"),
    (stat.S_ISSOCK, "a socket, no file"),
    (stat.S_ISCHR, "a device, no file"),
    (stat.S_ISBLK, "a device, no file"),
)


def local_path(url: str) -> Path | None:
    """The path of a plain path or a file URL; None for addresses elsewhere.

    Raises:
        FetchError: the address is of a kind that nothing here can open.
    """
    if is_http(url):
        return None
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise FetchError(url, str(error)) from error
    return _as_it_lies(Path(path)) if isinstance(filesystem, LocalFileSystem) else None


def _as_it_lies(path: Path) -> Path:
    """The file of a name as `storable` writes it: bytes that are no UTF-8 stand as %XX in it."""
    if "%" in str(path) and not path.exists():
        decoded = NOT_ASCII.sub(lambda found: chr(0xDC00 + int(found[1], 16)), str(path))
        with contextlib.suppress(OSError, ValueError):
            if storable(decoded) == str(path) and Path(decoded).exists():
                return Path(decoded)
    return path


def what_it_is(path: Path) -> str:
    """Why a path is no file to read: what it is instead."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            return f"a link to {path.readlink()}, which is not there"
        return "no such file"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    for is_kind, what in KINDS:
        if is_kind(mode):
            return f"is {what}"
    return "is a file"


@contextmanager
def local_copy(
    url: str, budget: Budget | None = None, *, byte_range: tuple[int, int] | None = None
) -> Iterator[Path]:
    """The file of an address as a local path, never to be written to.

    Args:
        budget: see `fetch`.
        byte_range: a copy of these bytes alone, [start, end).

    Raises:
        FetchError: it is not there, or cannot be fetched.
    """
    path = local_path(url)
    if path is not None and byte_range is None:
        if not path.is_file():
            raise FetchError(url, what_it_is(path), 404)
        yield path
        return
    with local_file(Path(url.split("?")[0]).suffix) as copy:
        fetch(url, copy, budget, byte_range=byte_range)
        yield copy
