"""What an archive is packed as, told by its first bytes; what is not read here is refused by name.

| bytes | packed as | reading |
|---|---|---|
| `1f 8b` | gzip | member by member (gzip_members): damage costs the member |
| `28 b5 2f fd`, `5d 2a 4d 18` | Zstandard, also with a dictionary | as one stream |
| `04 22 4d 18` | LZ4 frames | as one stream |
| `WARC/` | nothing | as one stream |

Damage ends a packed stream, whatever follows: that is counted and noted. The dictionary frame is
that of IIPC's draft "WARC files with Zstandard compression".
"""

from __future__ import annotations

import io
from typing import BinaryIO, Protocol

import zstandard
from fastwarc.stream_io import Lz4Reader

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"
LZ4_MAGIC = b"\x04\x22\x4d\x18"
ARC_MAGIC = b"filedesc://"
OTHERS = {
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"PK\x03\x04": "a zip file",
    b"PAR1": "a Parquet file",
}
READ_BYTES = 2**20
PACKED_STEP_BYTES = 2**14
"""Unpacked bytes taken at once from a packed stream: so many can be lost before the damage."""


class UnsupportedArchive(ValueError):
    """A file that is no WARC file this reader takes; the message says what is and what to do."""


class Stream(Protocol):
    """What gives bytes, and none at its end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes."""


class PackedStream:
    """Reads a packed stream and stops at damage instead of raising.

    Attributes:
        problem: what the unpacker said, "" if nothing.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.problem = ""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end or at damage."""
        if self.problem:
            return b""
        try:
            return bytes(self._stream.read(min(size, PACKED_STEP_BYTES)))
        except (OSError, zstandard.ZstdError) as error:
            self.problem = str(error)
            return b""


def refuse_other_formats(start: bytes, name: str) -> None:
    """Refuse an archive by its first unpacked bytes.

    Raises:
        UnsupportedArchive: ARC, or a packing that WARC files do not come in.
    """
    if start.startswith(ARC_MAGIC):
        raise UnsupportedArchive(
            f"{name}: an ARC file ({ARC_MAGIC.decode()}…), the format before WARC; convert it to "
            "WARC/1.0 first (warcio recompress does)"
        )
    for magic, what in OTHERS.items():
        if start.startswith(magic):
            raise UnsupportedArchive(
                f"{name}: {what}; a WARC file is plain, or packed as gzip, Zstandard or LZ4"
            )


def open_packed(file: BinaryIO, start: bytes) -> PackedStream | None:
    """A stream over an LZ4 or Zstandard file, by its first bytes; None for anything else."""
    if start.startswith(LZ4_MAGIC):
        return PackedStream(Lz4Reader(file))
    if start.startswith(ZSTD_MAGIC):
        return PackedStream(_zstd(file, None))
    if start.startswith(ZSTD_DICTIONARY_MAGIC):
        file.seek(4)
        raw = file.read(int.from_bytes(file.read(4), "little"))
        if raw.startswith(ZSTD_MAGIC):
            raw = _zstd(io.BytesIO(raw), None).read(2**26)
        return PackedStream(_zstd(file, zstandard.ZstdCompressionDict(raw)))
    return None


def _zstd(file: BinaryIO, dictionary: zstandard.ZstdCompressionDict | None) -> Stream:
    unpacker = zstandard.ZstdDecompressor(dict_data=dictionary)
    reader: Stream = unpacker.stream_reader(file, read_across_frames=True)
    return reader


class Unpacked:
    """Unpacked bytes of an archive, of which only the part in work is held."""

    __slots__ = ("at", "base", "data", "max_gap", "no_stop_before", "size", "stream")

    def __init__(
        self, stream: Stream | None, base: int = 0, data: bytes = b"", max_gap: int | None = None
    ) -> None:
        self.stream, self.base, self.data = stream, base, data
        self.at = 0
        """Where the next record is looked for, in `data`."""
        self.size: int | None = None
        """Bytes of the unpacked archive, if known."""
        self.no_stop_before = 0
        """No header stops between `at` and this byte of the unpacked archive."""
        self.max_gap = max_gap
        """Packed bytes between records can be a bomb: after so many, reading stops."""

    def need(self, end: int) -> bool:
        """Read on until `data` reaches `end`; False if there is not so much."""
        if end <= len(self.data):
            return True
        if self.stream is None:
            return False
        parts, size = [self.data], len(self.data)
        enough = max(end, size + READ_BYTES)
        while size < enough and (part := self.stream.read(enough - size)):
            parts.append(part)
            size += len(part)
        self.data = b"".join(parts)
        return size >= end

    def forget(self) -> None:
        """Let go of what lies before `at`."""
        if self.stream is not None and self.at > max(READ_BYTES, len(self.data) // 2):
            self.base += self.at
            self.data = self.data[self.at :]
            self.at = 0

    def skip(self, count: int) -> int:
        """Go on `count` bytes without holding them; how many there were."""
        gone = min(count, len(self.data) - self.at)
        self.at += gone
        while gone < count and self.stream is not None:
            part = self.stream.read(min(READ_BYTES, count - gone))
            if not part:
                break
            self.base += len(self.data) + len(part)
            self.data, self.at = b"", 0
            gone += len(part)
        return gone
