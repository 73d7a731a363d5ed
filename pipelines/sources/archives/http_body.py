"""HTTP messages as crawlers store them: framing and coding taken off the body, within a limit.

RFC 9110 (semantics), RFC 9112 (message syntax, chunked coding). Crawlers often store a body
already decoded under the header of the coded one: a body without the coding's mark is taken as it
stands.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass

import brotli
import zstandard
from isal import isal_zlib

from pipelines.sources.archives.gzip_members import GZIP_ERRORS

STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?:[ \t][^\r\n]*)?(?:\r?\n|\Z)")
HEADERS_END = re.compile(rb"\r?\n\r?\n")
FOLDED = re.compile(rb"\r?\n[ \t]+")
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
CHUNK_END = re.compile(rb"\r?\n")
MARKUP_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*<")
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
NO_CODING = frozenset({"", "identity", "none", "utf-8", "binary", "8bit"})
"""Also values that are no coding and that servers send all the same."""


class BodyError(ValueError):
    """A body that cannot be given."""


class BadBody(BodyError):
    """Its framing or its coding is broken, or of a kind that is not known."""


class BodyTooLarge(BodyError):
    """It unpacks to more than the limit."""


@dataclass(slots=True)
class HttpResponse:
    """A parsed response."""

    status: int
    headers: list[tuple[str, str]]
    """(name in lower case, value), as they came; folded values are unfolded."""
    stored: bytes
    """The body as stored."""

    def values(self, name: str) -> list[str]:
        """All values of a header, by its lower-case name."""
        return [value for key, value in self.headers if key == name]

    def items(self, name: str) -> list[str]:
        """The members of a comma-separated header, in lower case."""
        joined = ",".join(self.values(name)).lower()
        return [item for part in joined.split(",") if (item := part.strip())]


@dataclass(slots=True)
class Body:
    """A decoded body."""

    content: bytes
    short: bool = False
    """Less was there than Content-Length or the chunk sizes say."""
    cut: bool = False
    """The compressed data lack their end."""
    stored_decoded: bool = False
    """A header named a coding that the stored body did not have any more."""


def parse_response(block: bytes) -> HttpResponse | None:
    """Take a response apart; None if it does not begin with a status line.

    A status line without text, bare line feeds, repeated and folded headers are accepted; header
    bytes are read as ISO 8859-1.
    """
    line = STATUS_LINE.match(block)
    if line is None:
        return None
    # The line's own end may be half of the blank line, when there are no headers.
    end = HEADERS_END.search(block, max(line.end() - 2, 0))
    head = block[line.end() : end.start() if end else len(block)]
    if b"\n " in head or b"\n\t" in head:
        head = FOLDED.sub(b" ", head)
    headers = []
    for text in head.decode("latin-1").split("\n"):
        name, colon, value = text.partition(":")
        if colon:
            headers.append((name.strip().lower(), value.strip()))
    return HttpResponse(int(line[1]), headers, block[end.end() :] if end else b"")


def media_type(values: list[str]) -> tuple[str, str | None]:
    """(type in lower case, charset) of Content-Type values; the last that parses counts.

    Source: WHATWG Fetch, "extract a MIME type", without its rules for rare cases.
    """
    kind, charset = "", None
    for value in values:
        essence, _, parameters = value.partition(";")
        essence = essence.split(",")[0].strip().lower()
        if "/" not in essence:
            continue
        if essence != kind:
            kind, charset = essence, None
        for parameter in parameters.split(";"):
            name, _, content = parameter.partition("=")
            if name.strip().lower() == "charset" and content.strip(" \t\"'"):
                charset = content.split(",")[0].strip(" \t\"'")
    return kind, charset


def decode_body(response: HttpResponse, limit: int) -> Body:
    """The body without transfer coding and content codings (gzip, deflate, br, zstd).

    Raises:
        BadBody: broken chunks, broken compression, a coding that is not known.
        BodyTooLarge: more than `limit` bytes; unpacking stopped there.
    """
    body = Body(response.stored)
    if "chunked" in response.items("transfer-encoding"):
        content, whole = remove_chunks(body.content)
        body.stored_decoded = content is None
        body.content, body.short = (
            (body.content, False) if content is None else (content, not whole)
        )
    else:
        body.short = _declared_length(response) > len(body.content)
    for coding in reversed(response.items("content-encoding")):
        if coding not in NO_CODING:
            _decode(body, coding, limit)
    if len(body.content) > limit:
        raise BodyTooLarge(f"more than {limit} bytes")
    return body


def _declared_length(response: HttpResponse) -> int:
    values = response.items("content-length")
    return int(values[0]) if values and values[0].isascii() and values[0].isdigit() else 0


def remove_chunks(body: bytes) -> tuple[bytes | None, bool]:
    """Join the chunks of a body: (content, whether the last chunk is there).

    The content is None if the body is not chunked at all (stored decoded).

    Raises:
        BadBody: a chunk does not end where its size says.
    """
    parts: list[bytes] = []
    position = 0
    while line := CHUNK_SIZE.match(body, position):
        size = int(line[1], 16)
        if size == 0:
            return b"".join(parts), True
        position = line.end() + size
        parts.append(body[line.end() : position])
        if position >= len(body):
            break
        end = CHUNK_END.match(body, position)
        if end is None:
            if len(parts) == 1:
                return None, True  # text that begins like a chunk
            raise BadBody(f"the chunk at byte {line.start()} does not end where it says")
        position = end.end()
    else:
        if not parts:
            return None, True
        if body[position:].strip():
            raise BadBody(f"no chunk size at byte {position}")
    return b"".join(parts), False


def _decode(body: Body, coding: str, limit: int) -> None:
    """Take one content coding off."""
    decoder = DECODERS.get(coding)
    if decoder is None:
        if MARKUP_START.match(body.content):
            body.stored_decoded = True
            return
        raise BadBody(f"content coding {coding!r} is not known")
    try:
        unpacked = decoder(body.content, limit) if body.content else (b"", True)
    except (BadBody, brotli.error, zstandard.ZstdError, *GZIP_ERRORS) as error:
        if MARKUP_START.match(body.content):
            body.stored_decoded = True
            return
        raise BadBody(f"not {coding}: {error}") from error
    content, whole = unpacked
    if len(content) > limit:
        raise BodyTooLarge(f"unpacks to more than {limit} bytes")
    body.content = content
    body.cut = body.cut or not whole


def _zlib(content: bytes, limit: int, wbits: int) -> tuple[bytes, bool]:
    unpacker = isal_zlib.decompressobj(wbits=wbits)
    unpacked = unpacker.decompress(content, limit + 1)
    return unpacked, bool(unpacker.eof)


def _gzip(content: bytes, limit: int) -> tuple[bytes, bool]:
    parts: list[bytes] = []
    room, whole = limit, True
    while content.startswith(GZIP_MAGIC) and whole and room >= 0:
        unpacker = isal_zlib.decompressobj(wbits=31)
        try:
            part = unpacker.decompress(content, room + 1)
        except GZIP_ERRORS:
            if parts:
                break  # bytes after the body that only look like another member
            raise
        parts.append(part)
        room, whole, content = room - len(part), bool(unpacker.eof), unpacker.unused_data
    if not parts:
        raise BadBody("it has no gzip header")
    return b"".join(parts), whole


def _deflate(content: bytes, limit: int) -> tuple[bytes, bool]:
    try:
        return _zlib(content, limit, 15)
    except GZIP_ERRORS:
        return _zlib(content, limit, -15)  # many servers send it without zlib's header


def _brotli(content: bytes, limit: int) -> tuple[bytes, bool]:
    unpacker = brotli.Decompressor()
    parts = [unpacker.process(content, output_buffer_limit=limit + 1)]
    size = len(parts[0])
    while size <= limit and not unpacker.is_finished() and not unpacker.can_accept_more_data():
        parts.append(unpacker.process(b"", output_buffer_limit=limit + 1 - size))
        size += len(parts[-1])
    return b"".join(parts), bool(unpacker.is_finished())


def _zstd(content: bytes, limit: int) -> tuple[bytes, bool]:
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content))
    unpacked = reader.read(limit + 1)
    if len(unpacked) > limit:
        return unpacked, True
    # The reader does not say whether the frame was whole. Its size is known to be small now.
    whole = zstandard.ZstdDecompressor().decompressobj()
    whole.decompress(content)
    return unpacked, bool(whole.eof)


DECODERS: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
"""By content coding: (body, limit) to (at most limit + 1 bytes, whether its end was there)."""
