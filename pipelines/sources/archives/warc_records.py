"""WARC records (ISO 28500), read so that damage costs what is damaged and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pipelines.core.manifest import Counters
from pipelines.sources.archives.containers import (
    ARC_MAGIC,
    OTHERS,
    Unpacked,
    open_packed,
    refuse_other_formats,
)
from pipelines.sources.archives.damage import DamageLog, FileNotes
from pipelines.sources.archives.gzip_members import MAGIC as GZIP_MAGIC
from pipelines.sources.archives.gzip_members import GzipMembers, Member
from pipelines.sources.archives.warc_record import Record, parse_fields

RECORD_START = re.compile(rb"[Ww][Aa][Rr][Cc]/(?:0\.1[678]|1\.[01])\r?\n")
HEADER_STOP = re.compile(rb"\r?\n(?:(\r?\n)|(?=[Ww][Aa][Rr][Cc]/(?:0\.1[678]|1\.[01])\r?\n))")
"""A header's end (group 1), or a line that begins another record: no header holds one."""
MAX_HEADER_BYTES = 2**20
MAX_MEMBER_BYTES = 256_000_000
"""What a record may unpack to."""
MARK_BYTES = 16
"""More than a record's first line, which can lie across two reads."""
PROBE_BYTES = 2**24
MAX_SKIPPED = 16
"""A packed record of more than so many times the limit is not even skipped."""
COMMON_LENGTH = re.compile(rb"\nContent-Length: (\d{1,15})\r\n")
"""As nearly every crawler writes it; other forms take the way through `parse_fields`."""


def read_records(
    path: Path,
    counters: Counters,
    notes: list[str],
    name: str,
    max_member_bytes: int = MAX_MEMBER_BYTES,
) -> Iterator[Record]:
    """Yield the whole records of a WARC, WET or WAT file, in order.

    gzip (a member a record, or the whole file in one), Zstandard, LZ4 or plain, told by its first
    bytes. A record of a gzip member is given only when the member's checksum is right; but of an
    archive packed as one member larger than the limit, records are given before the checksum is
    known (WARC's own digests vouch for them), and damage is counted when it is met.

    Memory: one record (at most three times `max_member_bytes` while it is put together), whatever
    the size of the file.

    Counts `records`: those given, and one for each damaged record, member or stretch that was met:
    `dropped.truncated_record`, `.wrong_length`, `.damaged_member`, `.damaged_stream`, `.bomb`,
    `.record_too_large`, `.not_a_record`. Counts `bytes_lost` (compressed bytes of members that
    could not be read); `bytes_skipped` (unpacked bytes between records); `odd.record_end` (records,
    given all the same, that lack the two line ends after the block).
    Damage leaves a note with `name`; after 100 the rest is told as a number.

    Raises:
        UnsupportedArchive: ARC, bzip2, xz, ...
    """
    log = DamageLog(FileNotes(name, notes), counters)
    yield from _of_file(path, name, max_member_bytes, log)
    log.notes.close("more damaged places")


def _of_file(path: Path, name: str, limit: int, log: DamageLog) -> Iterator[Record]:
    with path.open("rb") as file:
        start = file.read(64)
        file.seek(0)
        if not start:
            log.notes.add(": the file is empty")
        elif start.startswith(GZIP_MAGIC) or _is_gzip_without_its_start(file, start):
            yield from _of_gzip(file, limit, log)
        else:
            refuse_other_formats(start, name)
            file.seek(0)
            packed = open_packed(file, start)
            text = Unpacked(packed or file, max_gap=None if packed is None else limit)
            if packed is None:
                text.size = path.stat().st_size
            else:
                text.need(len(start))
                refuse_other_formats(text.data, name)
            yield from _of_text(text, limit, log)
            if packed is not None and packed.problem:
                log.damage(
                    "damaged_stream", f"unpacking ended early, the rest is lost ({packed.problem})"
                )


def _is_gzip_without_its_start(file: BinaryIO, start: bytes) -> bool:
    """Whether a file that begins like nothing known holds gzip members all the same."""
    refused = (*OTHERS, ARC_MAGIC)
    if RECORD_START.match(start) or start.startswith(refused) or open_packed(file, start):
        return False
    return GzipMembers(file, 0, RECORD_START).find(0) is not None


def _of_gzip(file: BinaryIO, limit: int, log: DamageLog) -> Iterator[Record]:
    members = GzipMembers(file, limit, RECORD_START)
    offset = 0
    for member in members:
        if member.problem == "too large" and _holds_many(members, member.start, limit):
            # A whole archive packed as one member: its records are given as they come.
            stream = members.stream(member.start)
            text = Unpacked(stream, offset, max_gap=limit)
            yield from _of_text(text, limit, log)
            offset = text.base + len(text.data)
            if stream.finished:
                members.position = stream.end
                continue
            member.problem = stream.problem or member.problem
        if member.problem:
            _note_damage(member, limit, log)
            continue
        if not offset:
            refuse_other_formats(member.content, log.notes.name)
        record = _only_record(member.content, offset)
        if record is not None:
            log.counters["records"] += 1
            yield record
        else:
            yield from _of_text(Unpacked(None, offset, member.content), limit, log)
        offset += len(member.content)


def _only_record(content: bytes, offset: int) -> Record | None:
    """The record of a member that holds exactly one, in the usual form; None for anything else.

    This is the way of nearly all members; what it does not take is read by `_of_text`.
    """
    first_line = RECORD_START.match(content)
    head_end = content.find(b"\r\n\r\n")
    if first_line is None or head_end < 0:
        return None
    head = content[first_line.end() - 1 : head_end + 2]
    length = COMMON_LENGTH.search(head)
    if length is None or head.lower().count(b"\ncontent-length") > 1:
        return None
    if head_end + 8 + int(length[1]) != len(content) or content[-4:] != b"\r\n\r\n":
        return None
    return Record(offset, head, content[head_end + 4 : -4])


def _holds_many(members: GzipMembers, start: int, limit: int) -> bool:
    """Whether a large member holds a whole record of ordinary size and begins another."""
    probe = Unpacked(members.stream(start))
    probe.need(min(limit, PROBE_BYTES))
    probe.stream = None
    if not RECORD_START.match(probe.data):
        return False
    record = _read_one(probe, limit, DamageLog(FileNotes("", []), Counter()))
    return record is not None and RECORD_START.match(probe.data, probe.at + 4) is not None


def _note_damage(member: Member, limit: int, log: DamageLog) -> None:
    lost = member.end - member.start
    log.counters["bytes_lost"] += lost
    where = f"at byte {member.start}; {lost} compressed bytes lost"
    if member.problem == "too large":
        log.damage("bomb", f"a gzip member unpacks to more than {limit} bytes {where}")
    elif member.problem == "cut" and member.is_last:
        log.damage("truncated_record", f"the last gzip member is cut off {where}")
    else:
        log.damage("damaged_member", f"damaged gzip member ({member.problem}) {where}")


def _of_text(text: Unpacked, limit: int, log: DamageLog) -> Iterator[Record]:
    # What lies after a damaged record is its rest; after a sound one it was something itself.
    sound = True
    while True:
        gap_start, skipped = text.base + text.at, log.counters["bytes_skipped"]
        found, padding = _find_record(text, log)
        skipped = log.counters["bytes_skipped"] - skipped
        if skipped and sound and not padding:
            log.damage("not_a_record", f"no WARC record in the {skipped} bytes at {gap_start}")
        if not found:
            return
        record = _read_one(text, limit, log)
        text.forget()
        sound = record is not None
        if record is not None:
            log.counters["records"] += 1
            yield record


def _find_record(text: Unpacked, log: DamageLog) -> tuple[bool, bool]:
    """Go to the next record's start; what is skipped, blank lines apart, is counted.

    Returns:
        Whether there is one, and whether nothing but NUL bytes and line ends lay before it.
    """
    gap, padding = 0, True
    while True:
        found = RECORD_START.search(text.data, text.at)
        more = found is None and text.stream is not None
        stop = found.start() if found else len(text.data) - (MARK_BYTES if more else 0)
        if stop > text.at:
            between = text.data[text.at : stop].strip(b"\r\n")
            padding = padding and not between.strip(b"\r\n\0")
            if between:
                log.counters["bytes_skipped"] += len(between)
            gap += len(between)
            text.at = stop
        if found or not more:
            return found is not None, padding
        if text.max_gap is not None and gap > text.max_gap:
            log.damage(
                "bomb", f"no record in {gap} unpacked bytes at {text.base}; the rest is lost"
            )
            return False, True
        text.forget()
        if not text.need(len(text.data) + 1):
            text.stream = None


def _header_stop(text: Unpacked, start: int) -> re.Match[bytes] | None:
    """Where the header of the record at `start` stops; None if it goes on for too long.

    What was searched in vain is remembered: many beginnings without an end cost no more than one.
    """
    while True:
        searched = max(start + len("WARC/1.0"), text.no_stop_before - text.base)
        stop = HEADER_STOP.search(text.data, searched)
        if stop is not None:
            return stop
        searched = text.base + len(text.data) - 2 * MARK_BYTES  # a mark may lie across two reads
        text.no_stop_before = max(searched, text.no_stop_before)
        if len(text.data) - start > MAX_HEADER_BYTES or not text.need(len(text.data) + 1):
            return None


def _read_one(text: Unpacked, limit: int, log: DamageLog) -> Record | None:
    """Read the record at `text.at` and go behind it; a broken one is counted, and gone into."""
    start, first_line = text.at, RECORD_START.match(text.data, text.at)
    where = f"record at {text.base + start}"
    stop = _header_stop(text, start)
    if stop is None or stop[1] is None or first_line is None:
        log.damage("truncated_record", f"{where} has no whole header")
        text.at = start + len("WARC/") if stop is None else stop.end()
        return None
    head = text.data[first_line.end() - 1 : stop.start()] + b"\r\n"
    text.at = body = stop.end()
    length = parse_fields(head).get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        log.damage("wrong_length", f"{where} has no Content-Length")
        return None
    end = body + int(length)
    if text.stream is not None and int(length) > limit:
        _pass_over(text, int(length), limit, where, log)
        return None
    if not text.need(end):
        there = len(text.data) - body
        log.damage("truncated_record", f"{where} is cut off: {there} of {length} bytes")
        return None
    text.need(end + MARK_BYTES)
    if not _ends_well(text.data, end, log):
        log.damage("wrong_length", f"{where} does not end where its Content-Length ({length}) says")
        return None
    text.at = end
    return Record(text.base + start, head, text.data[body:end])


def _pass_over(text: Unpacked, length: int, limit: int, where: str, log: DamageLog) -> None:
    """Go behind a block that is larger than the limit, without holding it."""
    if text.size is not None and text.base + text.at + length > text.size:
        log.damage("truncated_record", f"{where}: {length} bytes were to come, more than there are")
    elif text.max_gap is not None and length > MAX_SKIPPED * limit:
        log.damage("bomb", f"{where} is said to have {length} bytes; the rest is lost")
        text.stream, text.at = None, len(text.data)
    elif text.skip(length) < length:
        log.damage("truncated_record", f"{where} is cut off: {length} bytes were to come")
    else:
        log.damage("record_too_large", f"{where} has {length} bytes, more than {limit}")


def _ends_well(data: bytes, end: int, log: DamageLog) -> bool:
    """Whether a block may end there: two line ends follow, or, counted, nothing or a record."""
    tail = data[end : end + 4]
    if tail == b"\r\n\r\n":
        return True
    if tail.strip(b"\r\n") and tail[:2] != b"\n\n" and not RECORD_START.match(data, end):
        return False
    log.counters["odd.record_end"] += 1
    return True
