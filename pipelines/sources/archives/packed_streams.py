"""bz2 and xz files, stream by stream, so that what cannot be read is known and told.

Python's own readers end in silence where something else than a stream follows a stream. Both
formats allow streams one after another; NUL bytes behind the last are padding.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

PIECE_BYTES = 2**16
STEP_BYTES = 2**17
"""Unpacked bytes of one step: bounds what a bomb can bring."""
XZ_MEMORY_BYTES = 2**30
"""A file's header says how much unpacking takes; xz -9 takes 65 MB."""


class Unpacker(Protocol):
    """What `bz2.BZ2Decompressor` and `lzma.LZMADecompressor` have in common."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was met."""

    @property
    def needs_input(self) -> bool:
        """Whether it can give nothing without more bytes."""

    @property
    def unused_data(self) -> bytes:
        """What followed the end of the stream."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Unpack the next bytes."""


UNPACKERS: dict[str, Callable[[], Unpacker]] = {
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY_BYTES),
}


class DamagedFile(OSError):
    """A packed file that cannot be read to its end.

    Attributes:
        bytes_lost: packed bytes from the damaged stream on.
    """

    def __init__(self, problem: str, bytes_lost: int) -> None:
        self.bytes_lost = bytes_lost
        super().__init__(f"{problem}; {bytes_lost} compressed bytes lost")


class PackedFile(io.RawIOBase):
    """Reads the unpacked bytes of a bz2 or xz file.

    What a stream gives before damage is given; then reading raises.

    Args:
        path: the file.
        kind: a key of UNPACKERS.

    Raises (when read):
        DamagedFile: a stream is damaged or cut off, or something else follows a stream.
    """

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__()
        self._file, self._kind = path.open("rb"), kind
        self._size = os.fstat(self._file.fileno()).st_size
        self._unpacker: Unpacker | None = UNPACKERS[kind]()
        self._waiting = b""
        self._start = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def readinto(self, buffer: object) -> int:
        """Fill a part of the buffer; 0 at the end."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        part = self._next(min(len(view), STEP_BYTES))
        view[: len(part)] = part
        return len(part)

    def _next(self, room: int) -> bytes:
        while self._unpacker is not None:
            if self._unpacker.needs_input and not self._waiting:
                self._waiting = self._file.read(PIECE_BYTES)
                if not self._waiting:
                    raise self._damaged("is cut off")
            given, self._waiting = self._waiting, b""
            try:
                part = self._unpacker.decompress(given, room)
            except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
                raise self._damaged(f"is damaged ({error})") from error
            if self._unpacker.eof:
                self._go_on(self._unpacker.unused_data)
            if part:
                return part
        return b""

    def _go_on(self, rest: bytes) -> None:
        """Go to the next stream, over padding; at the file's end there is none."""
        while not (rest := rest.lstrip(b"\0")):
            rest = self._file.read(PIECE_BYTES)
            if not rest:
                self._unpacker = None
                return
        self._start = self._file.tell() - len(rest)
        self._unpacker, self._waiting = UNPACKERS[self._kind](), rest

    def _damaged(self, problem: str) -> DamagedFile:
        where = f"the {self._kind} stream at byte {self._start}"
        return DamagedFile(f"{where} {problem}", self._size - self._start)
