"""A gzip file, member by member, so that damage to one costs that one.

Crawl archives hold each record in a gzip member of its own (ISO 28500, annex D; RFC 1952, section
2.2: members follow each other). The file is read in pieces: nothing here holds more of it than one
unpacked member.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from isal import isal_zlib
from isal.igzip_lib import IsalError

MAGIC = b"\x1f\x8b\x08"
WITH_HEADER = 31
"""zlib's window-bits value for gzip: header and trailer are read and the checksum compared."""
WINDOW_BYTES = 2**20
PIECE_BYTES = 2**14
"""Input of one step. Most members are smaller, so little of the next one is copied in vain."""
STEP_BYTES = 2**20
GZIP_ERRORS = cast("tuple[type[Exception], ...]", (IsalError, zlib.error))


@dataclass(slots=True)
class Member:
    """One member of a gzip file, or what stands in its place."""

    start: int
    """Compressed byte at which it begins."""
    end: int
    """Compressed byte after it; where reading went on, if it is damaged."""
    content: bytes
    """What it unpacks to; empty if `problem` says that it cannot be trusted."""
    problem: str = ""
    """Nothing, "cut" (the file ends inside it), "too large", or what the unpacker said."""
    is_last: bool = False
    """For one with a problem: whether no sound member follows."""


class GzipMembers:
    """Iterates over the members of a gzip file.

    After a damaged member the next is looked for: it must unpack to bytes that match `expected`.

    Args:
        file: open for reading and seeking.
        limit: a member that unpacks to more bytes is stopped.
        expected: what every sound member begins with.
    """

    def __init__(self, file: BinaryIO, limit: int, expected: re.Pattern[bytes]) -> None:
        self._file, self._limit, self._expected = file, limit, expected
        self._window, self._window_start = b"", 0
        self._end = file.seek(0, os.SEEK_END)
        self.position = 0
        """Compressed byte at which the next member begins; a caller may move it."""

    def __iter__(self) -> Iterator[Member]:
        while self._piece(self.position, 1):
            start = self.position
            content, end, problem = self._unpack(start)
            if problem:
                if self._only_padding(start):
                    return
                following = self.find(start + 1)
                end = self._end if following is None else following
            self.position = end
            yield Member(start, end, content, problem, bool(problem) and end == self._end)

    def stream(self, start: int) -> MemberStream:
        """Unpack the member at `start` again, piece by piece, whatever its size."""
        return MemberStream(self, start)

    def _piece(self, position: int, size: int) -> memoryview:
        """Up to `size` bytes at `position`; fewer only at the end of the file."""
        offset = position - self._window_start
        if offset < 0 or offset + size > len(self._window):
            self._file.seek(position)
            self._window = self._file.read(max(size, WINDOW_BYTES))
            self._window_start, offset = position, 0
        return memoryview(self._window)[offset : offset + size]

    def _unpack(self, start: int) -> tuple[bytes, int, str]:
        """(content, where it ends, what is wrong with it)."""
        unpacker = isal_zlib.decompressobj(wbits=WITH_HEADER)
        parts: list[bytes] = []
        position, room = start, self._limit + 1
        try:
            while not unpacker.eof:
                piece = self._piece(position, PIECE_BYTES)
                if not piece:
                    return b"", position, "cut"
                part = unpacker.decompress(piece, room)
                position += len(piece)
                room -= len(part)
                if room <= 0:
                    return b"", position, "too large"
                parts.append(part)
        except GZIP_ERRORS as error:
            return b"", position, str(error)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        return content, position - len(unpacker.unused_data), ""

    def _only_padding(self, position: int) -> bool:
        """Whether nothing but NUL bytes follows: tape and block devices pad files so."""
        while piece := self._piece(position, WINDOW_BYTES):
            if bytes(piece).strip(b"\0"):
                return False
            position += len(piece)
        return True

    def find(self, position: int) -> int | None:
        """Where the next member begins that unpacks to what is expected; None if there is none."""
        while piece := bytes(self._piece(position, WINDOW_BYTES)):
            found = piece.find(MAGIC)
            while found != -1:
                if self._begins_as_expected(position + found):
                    return position + found
                found = piece.find(MAGIC, found + 1)
            # A mark may lie across the border of two pieces.
            position += max(len(piece) - len(MAGIC) + 1, 1)
        return None

    def _begins_as_expected(self, position: int) -> bool:
        try:
            head = isal_zlib.decompressobj(wbits=WITH_HEADER).decompress(
                self._piece(position, 4096), 64
            )
        except GZIP_ERRORS:
            return False
        return self._expected.match(head) is not None


class MemberStream:
    """The content of one member of any size, as a stream without an end in memory.

    Attributes:
        problem: what ended it before its end, "" if nothing did.
        finished: whether it was read to its end and the checksum was right.
        end: compressed byte after it, once it is finished.
    """

    def __init__(self, members: GzipMembers, start: int) -> None:
        self._members, self.end = members, start
        self._unpacker = isal_zlib.decompressobj(wbits=WITH_HEADER)
        self.problem = ""

    @property
    def finished(self) -> bool:
        """Whether it was read to its end and the checksum was right."""
        return bool(self._unpacker.eof)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at its end or at damage (`problem` says which)."""
        while not self._unpacker.eof and not self.problem:
            left: bytes | memoryview = self._unpacker.unconsumed_tail
            if not left:
                left = self._members._piece(self.end, PIECE_BYTES)
                self.end += len(left)
            if not left:
                self.problem = "cut"
                break
            try:
                part = self._unpacker.decompress(left, size)
            except GZIP_ERRORS as error:
                self.problem = str(error)
                break
            if self._unpacker.eof:
                self.end -= len(self._unpacker.unused_data)
            if part:
                return bytes(part)
        return b""
