"""The store: one fsspec URL that holds everything, where nothing half-written is ever believed.

Closing an fsspec file publishes whatever was written so far, even when an exception is on its way
through the `with` block. So a file is first finished on the local disk and then handed over whole;
a manifest (see manifest.py), written after it, makes it count.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from pipelines.core.config import ConfigError

ROWS_PER_GROUP = 2048
"""Rows in one Parquet row group: the unit of a random read."""


class DamagedObject(OSError):
    """An object of the store does not hold what was written to it."""


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
        raise DamagedObject(
            f"{key} is damaged ({error}); delete it and run again: its stage writes it anew"
        ) from error


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
        return bool(self.filesystem.isfile(self.path(key)))

    def size(self, key: str) -> int | None:
        """Bytes of the object, or None when there is none."""
        try:
            return int(self.filesystem.size(self.path(key)))
        except FileNotFoundError:
            return None

    def keys(self, prefix: str) -> list[str]:
        """Keys below a prefix, sorted. For people and clean-up; readers go by manifests."""
        self.filesystem.invalidate_cache()
        found = self.filesystem.find(self.path(prefix))
        return sorted(str(path)[len(self.root) + 1 :] for path in found)

    def open(self, key: str) -> IO[bytes]:
        """Open an object for reading."""
        return cast("IO[bytes]", self.filesystem.open(self.path(key), "rb"))

    def read_bytes(self, key: str) -> bytes:
        """Read a whole object."""
        return bytes(self.filesystem.cat_file(self.path(key)))

    def read_table(self, key: str, columns: list[str] | None = None) -> pa.Table:
        """Read a Parquet object.

        Raises:
            DamagedObject: its bytes are not those that were written.
        """
        with self.open(key) as file, damage_named(key):
            return pq.read_table(file, columns=columns, page_checksum_verification=True)

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
            self.filesystem.put_file(str(source), target)
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
        if self.filesystem.exists(self.path(key)):
            self.filesystem.rm(self.path(key), recursive=True)

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


@contextmanager
def local_file(suffix: str = "") -> Iterator[Path]:
    """A path on the local disk to finish a file in; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="babelmill-") as folder:
        yield Path(folder) / f"file{suffix}"


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table in the one way the project writes Parquet (zstd, fixed row groups).

    Pages carry checksums, because a flipped bit in a list of ids is another valid id.
    """
    pq.write_table(
        table, path, compression="zstd", row_group_size=ROWS_PER_GROUP, write_page_checksum=True
    )
