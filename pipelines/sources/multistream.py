"""Bytes of a dump file: all its bz2 streams, or gzip, or plain XML, as UTF-8.

A multistream dump is many bz2 streams in one file, each with about 100 whole pages. A damaged
stream costs that stream: reading goes on at the next stream's start, `BZh1` to `BZh9` and a block's
magic number (bzip2's format, as bzip2recover uses it). Memory is flat: one piece of the input and
what it unpacks to.
"""

from __future__ import annotations

import bz2
import codecs
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pipelines.core.manifest import Counters

FEED_BYTES = 2**18
"""Compressed bytes that are unpacked at once, counted from the start of a stream, so that what is
saved of a damaged stream does not depend on how the file was cut into ranges."""
PIECE_BYTES = 2**23
BOMB_RATIO = 100
"""Wikitext shrinks to a third or a tenth; a stream that is larger than allowed and grows more than
this is no text."""
MAX_MEMBER_BYTES = 256_000_000
STREAM_START = re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)")
START_BYTES = 10
XML_ENCODING = re.compile(rb"<\?xml[^>]{0,100}?encoding=[\"']([A-Za-z0-9._-]+)")
BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some unpacked bytes, in order."""

    stream: int
    """Byte offset in the file of the compressed stream they come from; 0 where there is one."""
    content: bytes
    after_loss: bool = False
    """Bytes before these were lost: what was begun there has no end."""


class DumpFile:
    """Reads one file; what is lost is counted and noted with the file's name.

    Counts `lost.damaged_stream`, `lost.truncated_stream`, `lost.member_too_large`, one for
    each stream (the number of pages in it is not known), and the compressed `bytes_lost`.

    Args:
        path: the local file.
        name: what notes call it.
        first: where the file begins in the whole dump, for a range of it.
        max_member_bytes: a stream that unpacks to more, and to more than 100 times its own size, is
            given up.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        counters: Counters,
        notes: list[str],
        first: int = 0,
        max_member_bytes: int = MAX_MEMBER_BYTES,
    ) -> None:
        self._path, self._name, self._first = path, name, first
        self._counters, self._notes = counters, notes
        self._max_member_bytes = max_member_bytes
        self._size = path.stat().st_size

    def pieces(self) -> Iterator[Piece]:
        """The unpacked bytes as UTF-8, whatever the dump's encoding is."""
        decoder: codecs.IncrementalDecoder | None = None
        begun = False
        for piece in self._raw():
            if not begun and piece.content:
                begun = True
                encoding = _encoding(piece.content)
                if encoding != "utf-8":
                    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
            if decoder is None:
                yield piece
            else:
                content = decoder.decode(piece.content).encode("utf-8", errors="replace")
                yield Piece(piece.stream, content, piece.after_loss)

    def _raw(self) -> Iterator[Piece]:
        with self._path.open("rb") as file:
            start = file.read(64)
            file.seek(0)
            if start.startswith(b"\x1f\x8b"):
                yield from self._gzip(file)
            elif start.lstrip()[:1] == b"<" or start.startswith(tuple(bom for bom, _ in BOMS)):
                while content := file.read(FEED_BYTES):
                    yield Piece(0, content)
            else:
                yield from self._bz2(file)

    def _bz2(self, file: BinaryIO) -> Iterator[Piece]:
        start, lost = 0, False
        while start < self._size:
            file.seek(start)
            if STREAM_START.match(file.read(START_BYTES)) is None:
                following = _next_stream(file, start, self._size)
                self._lose(start, following, "no bz2 stream")
                start, lost = following, True
                continue
            stream = _Stream(file, start, self._max_member_bytes)
            for content in stream.read():
                yield Piece(self._first + start, content, lost)
                lost = False
            if not stream.reason:
                start = stream.end
                continue
            following = _next_stream(file, start + START_BYTES, self._size)
            what = f"the bz2 stream at byte {self._first + start} is {stream.damage}"
            self._counters[f"lost.{stream.reason}"] += 1
            self._lose(min(stream.end, following), following, what)
            start, lost = following, True
        if lost:
            yield Piece(self._first + self._size, b"", after_loss=True)

    def _gzip(self, file: BinaryIO) -> Iterator[Piece]:
        feed = file.read(FEED_BYTES)
        while feed:
            unpacker = zlib.decompressobj(wbits=31)
            read = unpacked = 0
            while not unpacker.eof:
                if not feed and not (feed := file.read(FEED_BYTES)):
                    self._counters["lost.truncated_stream"] += 1
                    self._notes.append(f"{self._name}: the gzip member is cut off")
                    yield Piece(0, b"", after_loss=True)
                    return
                read += len(feed)
                try:
                    content = unpacker.decompress(feed, PIECE_BYTES)
                except zlib.error as error:
                    self._give_up(file, "damaged_stream", f"damaged ({error})", len(feed))
                    yield Piece(0, b"", after_loss=True)
                    return
                feed = unpacker.unconsumed_tail
                read -= len(feed)
                unpacked += len(content)
                if unpacked > max(self._max_member_bytes, BOMB_RATIO * 10 * read):
                    self._give_up(
                        file, "member_too_large", f"too large: {unpacked} bytes", len(feed)
                    )
                    yield Piece(0, b"", after_loss=True)
                    return
                if content:
                    yield Piece(0, content)
            feed = unpacker.unused_data or file.read(FEED_BYTES)
            if feed and not feed.startswith(b"\x1f\x8b"):
                rest = len(feed) + self._size - file.tell()
                self._lose(self._size - rest, self._size, "no gzip member")
                return

    def _give_up(self, file: BinaryIO, kind: str, what: str, unread: int) -> None:
        self._counters[f"lost.{kind}"] += 1
        start = file.tell() - unread
        self._lose(start, self._size, f"the gzip member is {what}")

    def _lose(self, start: int, end: int, what: str) -> None:
        self._counters["bytes_lost"] += end - start
        place = f"from byte {self._first + start}"
        self._notes.append(f"{self._name}: {what}; {end - start} bytes lost {place}")


class _Stream:
    """One bz2 stream of a file."""

    def __init__(self, file: BinaryIO, start: int, max_member_bytes: int) -> None:
        self._file, self._start, self._max = file, start, max_member_bytes
        self.end = start
        """Where it ends; or where the first bytes begin that could not be read."""
        self.reason = self.damage = ""
        """Why reading stopped before the end, if it did: a counter's name, and words."""

    def read(self) -> Iterator[bytes]:
        """Unpacked bytes that have passed their check sum."""
        unpacker = bz2.BZ2Decompressor()
        held: list[bytes] = []
        read = unpacked = 0
        self._file.seek(self._start)
        while not unpacker.eof:
            feed = self._file.read(FEED_BYTES) if unpacker.needs_input else b""
            if not feed and unpacker.needs_input:
                self.reason, self.damage = "truncated_stream", "cut off"
                return
            try:
                held.append(unpacker.decompress(feed, max_length=PIECE_BYTES))
            except OSError as error:
                self.reason, self.damage = "damaged_stream", f"damaged ({error})"
                return
            read += len(feed)
            unpacked += len(held[-1])
            if unpacked > max(self._max, BOMB_RATIO * read):
                self.reason = "member_too_large"
                self.damage = f"too large: {unpacked} bytes from {read}"
                return
            # libbz2 asks for more only when all that it gave has passed its block's check sum.
            if unpacker.needs_input or unpacker.eof:
                content = b"".join(held)
                held.clear()
                if content or unpacker.eof:
                    self.end = self._start + read - len(unpacker.unused_data)
                    yield content


def _next_stream(file: BinaryIO, start: int, size: int) -> int:
    """Where the next bz2 stream begins at or after `start`; the file's size without one."""
    file.seek(start)
    window = b""
    position = start  # of the window's first byte
    while piece := file.read(2**20):
        window += piece
        match = STREAM_START.search(window)
        if match is not None:
            return position + match.start()
        position += max(0, len(window) - START_BYTES + 1)
        window = window[-(START_BYTES - 1) :]
    return size


def _encoding(content: bytes) -> str:
    """Encoding of an XML file by its byte order mark or its declaration (XML 1.0, appendix F)."""
    for mark, encoding in BOMS:
        if content.startswith(mark):
            return encoding
    declared = XML_ENCODING.match(content)
    try:
        return codecs.lookup(declared[1].decode()).name if declared else "utf-8"
    except LookupError:
        return "utf-8"
