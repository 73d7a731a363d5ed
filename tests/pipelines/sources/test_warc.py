"""Damage costs what is damaged and nothing else."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from pathlib import Path

import brotli
import pytest
from fastwarc.warc import ArchiveIterator

from pipelines.core.manifest import Counters
from pipelines.sources.base import RawPage
from pipelines.sources.warc import read_warc_pages, read_wet_pages


def wet_record(body: bytes, uri: str = "http://x.test/", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = (
        "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Identified-Content-Language: fra,jpn\r\n"
        f"content-length: {size}\r\nWARC-Target-URI: {uri}\r\nContent-Type: text/plain\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


def response(head: bytes, body: bytes) -> bytes:
    block = head + b"\r\n\r\n" + body
    fields = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://x.test/a\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return fields.encode() + block + b"\r\n\r\n"


def read_wet(path: Path, content: bytes) -> tuple[list[RawPage], Counters, list[str]]:
    path.write_bytes(content)
    counters: Counters = Counter()
    notes: list[str] = []
    pages = list(read_wet_pages(path, "crawl/a.wet.gz", counters, notes, 10**6))
    return pages, counters, notes


def read_warc(path: Path, content: bytes, limit: int = 10**6) -> tuple[list[RawPage], Counters]:
    path.write_bytes(content)
    counters: Counters = Counter()
    return list(read_warc_pages(path, "crawl/a.warc.gz", counters, [], limit)), counters


MEMBERS = [
    gzip.compress(wet_record(body)) for body in (b"alpha text", b"beta text", b"gamma text" * 50)
]


@pytest.mark.parametrize("cut", [30, 4])
def test_a_cut_tail_is_counted_and_never_a_document(tmp_path: Path, cut: int) -> None:
    pages, counters, notes = read_wet(tmp_path / "a", b"".join(MEMBERS)[:-cut])
    assert [page.content for page in pages] == [b"alpha text", b"beta text"]
    assert counters["dropped.truncated_record"] == 1
    assert counters["bytes_lost"] == len(MEMBERS[2]) - cut
    assert len(notes) == 1 and "crawl/a.wet.gz" in notes[0]


def test_a_damaged_member_costs_itself_only(tmp_path: Path) -> None:
    broken = bytearray(MEMBERS[1])
    broken[len(broken) // 2] ^= 0xFF
    broken[-6] ^= 0xFF  # and the checksum, whatever the bit above did
    pages, counters, notes = read_wet(tmp_path / "a", MEMBERS[0] + bytes(broken) + MEMBERS[2])
    assert [page.content for page in pages] == [b"alpha text", b"gamma text" * 50]
    assert counters["dropped.damaged_member"] == 1
    assert counters["bytes_lost"] == len(broken)
    assert f"at byte {len(MEMBERS[0])}" in notes[0]


def test_offsets_are_those_of_the_uncompressed_archive(tmp_path: Path) -> None:
    pages, _, _ = read_wet(tmp_path / "a", b"".join(MEMBERS))
    plain = b"".join(gzip.decompress(member) for member in MEMBERS)
    assert [page.offset for page in pages] == [
        i for i in range(len(plain)) if plain.startswith(b"WARC/", i)
    ]
    assert [p.offset for p in read_wet(tmp_path / "b", plain)[0]] == [p.offset for p in pages]


@pytest.mark.parametrize("packed", [True, False])
def test_length_is_counted_in_bytes_and_fields_go_by_name(tmp_path: Path, packed: bool) -> None:
    text = "naïve café 東京"
    first = wet_record(text.encode(), "http://x.test/q?t=a: b")
    content = [first, wet_record(b"beta text")]
    raw = b"".join(map(gzip.compress, content)) if packed else b"".join(content)
    pages, counters, _ = read_wet(tmp_path / "a", raw)
    assert [page.content.decode() for page in pages] == [text, "beta text"]
    assert pages[0].url == "http://x.test/q?t=a: b"
    assert counters["records"] == 2


@pytest.mark.parametrize("packed", [True, False])
def test_a_wrong_length_is_flagged_and_the_next_record_survives(
    tmp_path: Path, packed: bool
) -> None:
    content = [wet_record("naïve café 東京".encode(), length=13), wet_record(b"beta text")]
    raw = b"".join(map(gzip.compress, content)) if packed else b"".join(content)
    pages, counters, notes = read_wet(tmp_path / "a", raw)
    assert [page.content for page in pages] == [b"beta text"]
    assert counters["dropped.wrong_length"] == 1
    assert len(notes) == 1


def test_bodies_are_decoded_and_other_answers_counted(tmp_path: Path) -> None:
    html = b"<html><body>text</body></html>"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=koi8-r"
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(html), html)
    records = [
        response(head, html),
        response(head + b"\r\nContent-Encoding: gzip", gzip.compress(html)),
        response(head + b"\r\nContent-Encoding: br", brotli.compress(html)),
        response(head + b"\r\nTransfer-Encoding: chunked", chunked),
        response(head + b"\r\nTransfer-Encoding: chunked", html),
        response(b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html", html),
        response(b"HTTP/1.1 200 OK\r\nContent-Type: image/png", b"png"),
        response(head, html * 40_000),
        response(head + b"\r\nContent-Encoding: gzip", gzip.compress(html)[:-20]),
    ]
    pages, counters = read_warc(tmp_path / "a", b"".join(map(gzip.compress, records)))
    assert [page.content for page in pages] == [html] * 5
    assert {page.charset for page in pages} == {"koi8-r"}
    assert counters["dropped.http_status"] == 1
    assert counters["dropped.content_type"] == 1
    assert counters["dropped.page_too_large"] == 1
    assert counters["dropped.bad_http"] == 1
    assert counters["records.response"] == 9


@pytest.mark.parametrize(
    "name",
    [
        "whirlwind.warc.gz",
        "jwarc-cc.warc.gz",
        "CC-MAIN-20200808165417-20200808195417-00395.head50.warc.gz",
    ],
)
def test_real_crawl_files_give_every_record_that_fastwarc_finds(
    shared_data: Path, name: str
) -> None:
    path = shared_data / "crawl" / "commoncrawl" / name
    counters: Counters = Counter()
    notes: list[str] = []
    pages = list(read_warc_pages(path, name, counters, notes, 10**7))
    types = Counter(
        str(record.record_type) for record in ArchiveIterator(path.open("rb"), parse_http=False)
    )
    if not notes:
        assert counters["records"] == sum(types.values())
        assert all(counters[f"records.{kind}"] == n for kind, n in types.items())
    left_out = sum(
        counters[f"dropped.{why}"]
        for why in ("http_status", "content_type", "page_too_large", "bad_http")
    )
    assert len(pages) + left_out == counters["records.response"]
    assert pages or name.startswith("jwarc")


def test_real_wet_file_keeps_its_text(shared_data: Path) -> None:
    path = shared_data / "crawl" / "commoncrawl" / "whirlwind.warc.wet.gz"
    counters: Counters = Counter()
    notes: list[str] = []
    pages = list(read_wet_pages(path, path.name, counters, notes, 10**7))
    raw = zlib.decompress(path.read_bytes(), wbits=31) if pages else b""
    assert notes == [] and pages and counters["records.conversion"] == len(pages)
    assert raw == b"" or raw.startswith(b"WARC/1.0")


def test_an_empty_file_is_noted(tmp_path: Path) -> None:
    pages, _, notes = read_wet(tmp_path / "a", b"")
    assert pages == [] and "empty" in notes[0]
