"""The store: one fsspec URL that holds everything, where nothing half-written is ever believed.

Closing an fsspec file publishes whatever was written so far, even when an exception is on its way
through the `with` block. So a file is first finished on the local disk and then handed over whole;
a manifest (see manifest.py), written after it, makes it count.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from pipelines.core.config import ConfigError

ROWS_PER_GROUP = 2048
"""Rows in one Parquet row group: the unit of a random read."""


TRIES = 6
FIRST_PAUSE_SECONDS = 0.2
"""A server that refuses one request in ten refuses six in a row once in a million."""

T = TypeVar("T")


class DamagedObject(OSError):
    """An object of the store does not hold what was written to it."""


def damaged(key: str, why: object) -> DamagedObject:
    """The error that names a damaged object and the cure."""
    return DamagedObject(
        f"{key} is damaged ({why}); delete it and run again: its stage writes it anew"
    )


@contextmanager
def damage_named(key: str) -> Iterator[None]:
    """Turn what Arrow says of damaged bytes into an error that names the object and the cure.

    Raises:
        DamagedObject: the block met damaged bytes.
    """
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the operating system's own: missing, refused, disk full
        raise damaged(key, error) from error


@dataclass(frozen=True)
class Store:
    """A root URL (`file`, `s3`, `gs`, `memory`, ...). Keys are paths below it, with `/`."""

    url: str

    @cached_property
    def filesystem(self) -> Any:
        """The fsspec filesystem behind the URL; addresses and secrets come from the environment."""
        return fsspec.core.url_to_fs(self.url)[0]

    @cached_property
    def root(self) -> str:
        """The URL's path as its filesystem writes it."""
        return str(fsspec.core.url_to_fs(self.url)[1]).rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether the store is a folder of this machine."""
        return isinstance(self.filesystem, LocalFileSystem)

    def path(self, key: str) -> str:
        """The path of a key as the filesystem writes it."""
        return f"{self.root}/{key}"

    def exists(self, key: str) -> bool:
        """Whether an object of that key is there."""
        return self.size(key) is not None

    def size(self, key: str) -> int | None:
        """Bytes of the object, or None when there is none."""
        try:
            found = self._patiently(lambda: self.filesystem.info(self.path(key)))
        except FileNotFoundError:
            return None
        return None if found["type"] == "directory" else int(found["size"])

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of every object below a prefix, by key, from one listing."""
        self.filesystem.invalidate_cache()
        found = self._patiently(lambda: self.filesystem.find(self.path(prefix), detail=True))
        cut = len(self.root) + 1
        return {str(path)[cut:]: int(info["size"]) for path, info in found.items()}

    def keys(self, prefix: str) -> list[str]:
        """Keys below a prefix, sorted. For people and clean-up; readers go by manifests."""
        return sorted(self.sizes(prefix))

    def open(self, key: str) -> IO[bytes]:
        """Open an object for reading."""
        return cast(
            "IO[bytes]", self._patiently(lambda: self.filesystem.open(self.path(key), "rb"))
        )

    def read_bytes(self, key: str, sha256: str | None = None) -> bytes:
        """Read a whole object.

        Args:
            sha256: of what was written, in hex; None takes the bytes as they are.

        Raises:
            DamagedObject: its bytes are not those that were written.
        """
        content = bytes(self._patiently(lambda: self.filesystem.cat_file(self.path(key))))
        if sha256 is not None and (found := hashlib.sha256(content).hexdigest()) != sha256:
            raise damaged(key, f"sha256 {found} of {len(content):,} bytes; {sha256} was written")
        return content

    def read_range(self, key: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop) of an object; fewer where it ends before."""
        path = self.path(key)
        return bytes(self._patiently(lambda: self.filesystem.cat_file(path, start=start, end=stop)))

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Read small objects, many at once where the store can; those not there are left out."""
        paths = {self.path(key): key for key in keys}
        found: dict[str, bytes] = {}
        if self.is_local:
            for path, key in paths.items():
                if os.path.isfile(path):
                    found[key] = Path(path).read_bytes()
            return found
        answers = self.filesystem.cat(list(paths), on_error="return") if paths else {}
        for path, key in paths.items():
            answer = answers.get(path)
            if isinstance(answer, bytes):
                found[key] = answer
            elif not isinstance(answer, FileNotFoundError) and self.exists(key):
                found[key] = self.read_bytes(key)  # it failed for another reason: once more
        return found

    def read_table(self, key: str, columns: list[str] | None = None) -> pa.Table:
        """Read a Parquet object.

        Raises:
            DamagedObject: its bytes are not those that were written.
        """

        def read() -> pa.Table:
            with self.open(key) as file:
                return pq.read_table(file, columns=columns, page_checksum_verification=True)

        with damage_named(key):
            return self._patiently(read)

    def iterate_tables(self, key: str, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Read a Parquet object one row group after the other, in bounded memory.

        Raises:
            DamagedObject: its bytes are not those that were written.
        """
        with (
            self.on_disk(key) as path,
            damage_named(key),
            pq.ParquetFile(path, page_checksum_verification=True) as file,
        ):
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=columns)

    @contextmanager
    def on_disk(self, key: str) -> Iterator[Path]:
        """An object as a file of this machine: itself where it is one, else a copy for a while."""
        if self.is_local:
            yield Path(self.path(key))
            return
        with local_file(Path(key).suffix) as path:
            self._patiently(lambda: self.filesystem.get_file(self.path(key), str(path)))
            yield path

    def publish_bytes(self, key: str, content: bytes) -> None:
        """Write a small object in one piece."""
        with local_file() as path:
            path.write_bytes(content)
            self.publish_file(path, key)

    def publish_file(self, source: Path, key: str) -> None:
        """Hand a finished local file over. The key holds all of it afterwards, or is untouched.

        On a local folder the bytes go to an attempt name first and are renamed; object stores
        show an object only once its upload is complete.
        """
        target = self.path(key)
        if not self.is_local:
            self._patiently(lambda: self.filesystem.put_file(str(source), target))
            self.filesystem.invalidate_cache()
            return
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        attempt = f"{target}.attempt-{uuid.uuid4().hex[:8]}"
        try:
            shutil.copyfile(source, attempt)
            os.replace(attempt, target)
        finally:
            Path(attempt).unlink(missing_ok=True)

    def delete(self, key: str) -> None:
        """Remove one object, or everything below a prefix; nothing there is no error."""

        def remove() -> None:
            self.filesystem.invalidate_cache()
            if self.filesystem.exists(self.path(key)):
                self.filesystem.rm(self.path(key), recursive=True)

        self._patiently(remove)

    def _patiently(self, action: Callable[[], T]) -> T:
        """Do something that may be done twice, again when the store's server stumbles."""
        for attempt in range(1, TRIES + 1):
            try:
                return action()
            except Exception as error:
                if self.is_local or attempt == TRIES or not may_pass(error):
                    raise
                time.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        raise AssertionError("unreachable: the last try returns or raises")

    def probe(self) -> None:
        """Write, read and delete a small object.

        Raises:
            ConfigError: the store cannot be reached or written, with the reason it gave.
        """
        key, content = f"_probe/{uuid.uuid4().hex}", b"babelmill"
        try:
            self.publish_bytes(key, content)
            if self.read_bytes(key) != content:
                raise OSError("read back something else than was written")
            self.delete(key)
        except Exception as error:  # any driver's own error: report it as what it means here
            raise ConfigError(
                f"store.url = {self.url!r}: cannot write and read there: "
                f"{type(error).__name__}: {error}"
            ) from error


def may_pass(error: Exception) -> bool:
    """Whether a storage error may be gone at the next try: not what is missing, refused or full."""
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | ImportError):
        return False
    if isinstance(error, OSError):
        return error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENAMETOOLONG)
    # Storage libraries have errors of their own: botocore's, aiohttp's, google's.
    return not isinstance(error, ValueError | TypeError | AttributeError | KeyError)


@contextmanager
def local_file(suffix: str = "") -> Iterator[Path]:
    """A path on the local disk to finish a file in; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="babelmill-") as folder:
        yield Path(folder) / f"file{suffix}"


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table in the one way the project writes Parquet (zstd, fixed row groups)."""
    with parquet_writer(path, table.schema) as writer:
        writer.write_table(table, row_group_size=ROWS_PER_GROUP)


def parquet_writer(path: Path, schema: pa.Schema) -> Any:
    """A Parquet file to write tables to, one after the other.

    Pages carry checksums, because a flipped bit in a list of ids is another valid id.
    """
    return pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)
