"""A file by its address, on the local disk: in place when it lies there, else fetched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from pipelines.core.store import local_file
from pipelines.sources.fetch import FetchError, fetch
from pipelines.sources.politeness import Budget


def local_path(url: str) -> Path | None:
    """The path of a plain path or a file URL; None for addresses elsewhere.

    Raises:
        FetchError: the address is of a kind that nothing here can open.
    """
    if url.startswith(("http://", "https://")):
        return None
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise FetchError(url, str(error)) from error
    return Path(path) if isinstance(filesystem, LocalFileSystem) else None


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
            raise FetchError(url, "is a folder" if path.is_dir() else "no such file", 404)
        yield path
        return
    with local_file(Path(url.split("?")[0]).suffix) as copy:
        fetch(url, copy, budget, byte_range=byte_range)
        yield copy
