"""Small WARC records for tests, written by the specification and not by the code under test."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.core.manifest import Counters
from pipelines.sources.base import RawPage
from pipelines.sources.warc import read_warc_pages, read_wet_pages

HTML = b"<html><body>text</body></html>"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=koi8-r"


def record(kind: str, block: bytes, **fields: str) -> bytes:
    """A record; keyword names become field names (`WARC_Type` is WARC-Type)."""
    named = {"Content-Length": str(len(block)), "WARC-Target-URI": "http://x.test/a"}
    named |= {name.replace("_", "-"): value for name, value in fields.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"WARC/1.0\r\nWARC-Type: {kind}\r\n{lines}\r\n".encode() + block + b"\r\n\r\n"


def wet_record(body: bytes, uri: str = "http://x.test/", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = (
        "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Identified-Content-Language: fra,jpn\r\n"
        f"content-length: {size}\r\nWARC-Target-URI: {uri}\r\nContent-Type: text/plain\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


def response(head: bytes, body: bytes, **fields: str) -> bytes:
    named = {"Content-Type": "application/http; msgtype=response", **fields}
    return record("response", head + b"\r\n\r\n" + body, **named)


def members(*records: bytes) -> bytes:
    """Each record packed as a gzip member of its own."""
    return b"".join(gzip.compress(one, mtime=0) for one in records)


@dataclass
class Reading:
    """What a reader gave."""

    pages: list[RawPage]
    counters: Counters = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def contents(self) -> list[bytes]:
        return [page.content for page in self.pages]

    @property
    def dropped(self) -> dict[str, int]:
        return {
            name.removeprefix("dropped."): count
            for name, count in self.counters.items()
            if name.startswith("dropped.")
        }


NO_PAGES = ("warcinfo", "request", "metadata", "revisit", "continuation", "unknown")


def met_and_told(found: Reading) -> tuple[int, int]:
    """(records that were met, those that the counters account for)."""
    others = sum(found.counters[f"records.{kind}"] for kind in NO_PAGES)
    return found.counters["records"], len(found.pages) + sum(found.dropped.values()) + others


Reader = Callable[..., Iterator[RawPage]]


def read(path: Path, reader: Reader, limit: int = 10**6, **options: Any) -> Reading:
    reading = Reading([])
    pages = reader(path, path.name, reading.counters, reading.notes, limit, **options)
    reading.pages.extend(pages)
    return reading


def read_wet(path: Path, content: bytes, **options: Any) -> Reading:
    path.write_bytes(content)
    return read(path, read_wet_pages, **options)


def read_warc(path: Path, content: bytes, **options: Any) -> Reading:
    path.write_bytes(content)
    return read(path, read_warc_pages, **options)
