"""WARC and WET records, read so that damage costs what is damaged and nothing else.

Each record of a crawl archive is a gzip member of its own (ISO 28500, annex D), so the file is cut
into members here: a broken one is skipped up to the next, a cut one is never passed on as a short
document. HTTP messages inside whole records are decoded by fastwarc.
"""

from __future__ import annotations

import io
import mmap
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastwarc.warc import ArchiveIterator, WarcRecord

from pipelines.core.manifest import Counters
from pipelines.sources.base import RawPage

GZIP_MAGIC = b"\x1f\x8b\x08"
CHUNK_BYTES = 2**18
MAX_MEMBER_BYTES = 2**30
"""A member that unpacks to more is taken for damage: crawl records are megabytes at most."""
RECORD_START = re.compile(rb"WARC/1\.\d\r?\n")
HEADER_END = re.compile(rb"\r?\n\r?\n")
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})


@dataclass(slots=True)
class Record:
    """A whole WARC record."""

    offset: int
    """Byte offset in the uncompressed archive."""
    headers: dict[str, str]
    """Named fields, names in lower case."""
    raw: bytes
    """Header and block, as they stand."""
    block: bytes
    """The block alone; exactly Content-Length bytes."""


def read_records(path: Path, counters: Counters, notes: list[str], name: str) -> Iterator[Record]:
    """Yield the whole records of a `.warc[.gz]` or `.wet[.gz]` file, in order.

    Counts `records`, `dropped.truncated_record`, `dropped.wrong_length`, `dropped.damaged_member`
    and `bytes_lost` (compressed bytes of members that could not be read). Each kind of damage
    leaves a note with `name`.
    """
    if path.stat().st_size == 0:
        notes.append(f"{name}: the file is empty")
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:3] != GZIP_MAGIC:
            yield from _records_of(data, 0, counters, notes, name)
            return
        offset = 0
        for member in _members(data, counters, notes, name):
            yield from _records_of(member, offset, counters, notes, name)
            offset += len(member)


def _members(data: mmap.mmap, counters: Counters, notes: list[str], name: str) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        content, end, problem = _unpack(data, position)
        if problem is None:
            yield content
            position = end
            continue
        following = _next_member(data, position + 1)
        lost = (len(data) if following is None else following) - position
        cut = problem == "cut" and following is None
        counters["dropped.truncated_record" if cut else "dropped.damaged_member"] += 1
        counters["bytes_lost"] += lost
        what = "the last gzip member is cut off" if cut else f"damaged gzip member ({problem})"
        notes.append(f"{name}: {what} at byte {position}; {lost} compressed bytes lost")
        if following is None:
            return
        position = following


def _unpack(data: mmap.mmap, start: int) -> tuple[bytes, int, str | None]:
    """Unpack one member: (content, where it ends, what is wrong with it)."""
    unpacker = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    position, size = start, 0
    try:
        while position < len(data) and not unpacker.eof:
            part = unpacker.decompress(data[position : position + CHUNK_BYTES])
            position = min(position + CHUNK_BYTES, len(data))
            parts.append(part)
            size += len(part)
            if size > MAX_MEMBER_BYTES:
                return b"", position, f"unpacks to more than {MAX_MEMBER_BYTES} bytes"
    except zlib.error as error:
        return b"", position, str(error)
    if not unpacker.eof:
        return b"", position, "cut"
    return b"".join(parts), position - len(unpacker.unused_data), None


def _next_member(data: mmap.mmap, start: int) -> int | None:
    """Where the next gzip member begins that unpacks to the beginning of a record."""
    position = data.find(GZIP_MAGIC, start)
    while position != -1:
        try:
            head = zlib.decompressobj(wbits=31).decompress(data[position : position + 4096], 64)
        except zlib.error:
            head = b""
        if RECORD_START.match(head):
            return position
        position = data.find(GZIP_MAGIC, position + 1)
    return None


def _records_of(
    data: bytes | mmap.mmap, base: int, counters: Counters, notes: list[str], name: str
) -> Iterator[Record]:
    found = RECORD_START.search(data)
    if found is None and data[:].strip():
        counters["dropped.not_a_record"] += 1
        notes.append(f"{name}: no WARC record in the {len(data)} bytes at {base}")
    while found is not None:
        start = found.start()
        header_end = HEADER_END.search(data, found.end() - 2)
        fields = _fields(data[found.end() : header_end.start()]) if header_end else {}
        length = fields.get("content-length", "")
        counters["records"] += 1
        if header_end is None or not length.isdigit():
            what = "dropped.truncated_record" if header_end is None else "dropped.wrong_length"
            counters[what] += 1
            notes.append(f"{name}: record at {base + start} has no whole header with its length")
            found = RECORD_START.search(data, found.end())
            continue
        body, end = header_end.end(), header_end.end() + int(length)
        tail = bytes(data[end : end + 4])
        if end > len(data):
            counters["dropped.truncated_record"] += 1
            notes.append(
                f"{name}: record at {base + start} is cut off: {len(data) - body} of {length} bytes"
            )
            found = RECORD_START.search(data, body)
        elif tail.strip(b"\r\n") and not RECORD_START.match(data, end):
            counters["dropped.wrong_length"] += 1
            notes.append(
                f"{name}: record at {base + start} does not end where its Content-Length "
                f"({length}) says"
            )
            found = RECORD_START.search(data, body)
        else:
            yield Record(base + start, fields, bytes(data[start:end]), bytes(data[body:end]))
            found = RECORD_START.search(data, end)


def _fields(header: bytes) -> dict[str, str]:
    """Named fields by lower-case name; continuation lines are unfolded."""
    text = re.sub(r"\r?\n[ \t]+", " ", header.decode("utf-8", errors="replace"))
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip().lower(): value.strip() for key, colon, value in pairs if colon}


def read_warc_pages(
    path: Path, name: str, counters: Counters, notes: list[str], max_page_bytes: int
) -> Iterator[RawPage]:
    """HTML pages of the response records (HTTP status 200).

    Other records are counted as `records.TYPE`; pages left out as `dropped.http_status`,
    `dropped.content_type`, `dropped.page_too_large`, `dropped.bad_http`.
    """
    for record in read_records(path, counters, notes, name):
        kind = record.headers.get("warc-type", "unknown").lower()
        counters[f"records.{kind}"] += 1
        if kind != "response":
            continue
        page, reason = _html_page(record, max_page_bytes)
        if page is None:
            counters[f"dropped.{reason}"] += 1
        else:
            yield page


def _html_page(record: Record, max_page_bytes: int) -> tuple[RawPage | None, str]:
    parsed = _parse_http(record, "all")
    if parsed is None or parsed.http_headers is None:
        return None, "bad_http"
    if parsed.http_headers.status_code != 200:
        return None, "http_status"
    if (parsed.http_content_type or "").lower() not in HTML_TYPES:
        return None, "content_type"
    try:
        content = parsed.reader.read(max_page_bytes + 1)
    except OSError:
        # Some crawlers store the decoded body under the header of the encoded one.
        plain = _parse_http(record, "none")
        content = plain.reader.read(max_page_bytes + 1) if plain else b""
        if not content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return None, "bad_http"
    if len(content) > max_page_bytes:
        return None, "page_too_large"
    if "gzip" in (parsed.http_headers.get("Content-Encoding") or "") and _is_cut_gzip(record):
        return None, "bad_http"
    metadata = {}
    if truncated := record.headers.get("warc-truncated"):
        metadata["truncated"] = truncated
    page = RawPage(
        url=_uri(record),
        offset=record.offset,
        content=bytes(content),
        content_kind="html",
        charset=parsed.http_charset,
        date=record.headers.get("warc-date"),
        metadata=metadata,
    )
    return page, ""


def _is_cut_gzip(record: Record) -> bool:
    """Whether a gzip body lacks its end: fastwarc gives the beginning of such a body as good."""
    packed = _parse_http(record, "transfer")
    body = packed.reader.read() if packed else b""
    if not body.startswith(GZIP_MAGIC):
        return False
    unpacker = zlib.decompressobj(wbits=31)
    try:
        # Bounded steps: a small body may unpack to gigabytes.
        while body and not unpacker.eof:
            unpacker.decompress(body, CHUNK_BYTES)
            body = unpacker.unconsumed_tail
    except zlib.error:
        return True
    return not unpacker.eof


def _parse_http(
    record: Record, auto_decode: Literal["none", "transfer", "all"]
) -> WarcRecord | None:
    archive = ArchiveIterator(io.BytesIO(record.raw + b"\r\n\r\n"), auto_decode=auto_decode)
    return next(iter(archive), None)


def read_wet_pages(
    path: Path, name: str, counters: Counters, notes: list[str], max_page_bytes: int
) -> Iterator[RawPage]:
    """Texts of the conversion records; the length is counted in bytes, as ISO 28500 says."""
    for record in read_records(path, counters, notes, name):
        kind = record.headers.get("warc-type", "unknown").lower()
        counters[f"records.{kind}"] += 1
        if kind != "conversion":
            continue
        if len(record.block) > max_page_bytes:
            counters["dropped.page_too_large"] += 1
            continue
        yield RawPage(
            url=_uri(record),
            offset=record.offset,
            content=record.block,
            content_kind="text",
            date=record.headers.get("warc-date"),
        )


def _uri(record: Record) -> str:
    return record.headers.get("warc-target-uri", "").strip("<>")
