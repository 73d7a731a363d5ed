"""Which records are pages, and with what."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path

import brotli
import pytest

from pipelines.sources.archives.digests import matches
from tests.pipelines.sources.warc_samples import (
    HEAD,
    HTML,
    members,
    read_warc,
    read_wet,
    record,
    response,
)


def base32(algorithm: str, content: bytes) -> str:
    digest = hashlib.new(algorithm, content).digest()
    return f"{algorithm}:{base64.b32encode(digest).decode().rstrip('=')}"


def hexadecimal(algorithm: str, content: bytes) -> str:
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def test_bodies_are_decoded_and_other_answers_counted(tmp_path: Path) -> None:
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(HTML), HTML)
    records = [
        response(HEAD, HTML),
        response(HEAD + b"\r\nContent-Encoding: gzip", gzip.compress(HTML)),
        response(HEAD + b"\r\nContent-Encoding: br", brotli.compress(HTML)),
        response(HEAD + b"\r\nTransfer-Encoding: chunked", chunked),
        response(HEAD + b"\r\nTransfer-Encoding: chunked", HTML),
        response(b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html", HTML),
        response(b"HTTP/1.1 200 OK\r\nContent-Type: image/png", b"png"),
        response(HEAD, HTML * 40_000),
        response(HEAD + b"\r\nContent-Encoding: gzip", gzip.compress(HTML)[:-20]),
        response(HEAD + b"\r\nContent-Encoding: gzip", gzip.compress(b"\0" * 10_000_000)),
        response(b"not http", HTML),
        record("response", b"20080430204825\r\n", Content_Type="text/dns"),
    ]
    found = read_warc(tmp_path / "a", members(*records))
    assert found.contents == [HTML] * 5
    assert {page.charset for page in found.pages} == {"koi8-r"}
    assert found.dropped == {
        "http_status": 1,
        "content_type": 1,
        "page_too_large": 2,
        "bad_http": 2,
        "not_http": 1,
    }
    assert found.counters["odd.stored_decoded"] == 1
    assert found.counters["records.response"] == found.counters["records"] == 12


def test_a_page_without_a_type_is_told_by_the_crawler_or_by_its_start(tmp_path: Path) -> None:
    bare = b"HTTP/1.1 200"
    records = [
        response(bare, b"\xef\xbb\xbf\n<!DOCTYPE html><p>x"),
        response(bare, b"<p>x", WARC_Identified_Payload_Type="text/html"),
        response(bare, b"plain text"),
        response(b"HTTP/1.1 200 OK\r\nContent-Type: application/xhtml+xml", b"<html/>"),
    ]
    found = read_warc(tmp_path / "a", members(*records))
    assert [page.content[-4:] for page in found.pages] == [b"<p>x", b"<p>x", b"ml/>"]
    assert found.dropped == {"content_type": 1}


def test_records_go_by_their_type(tmp_path: Path) -> None:
    block = HEAD + b"\r\n\r\n" + HTML
    records = [
        record("warcinfo", b"software: x\r\n", Content_Type="application/warc-fields"),
        record("request", b"GET / HTTP/1.1\r\n\r\n", Content_Type="application/http"),
        record("metadata", HTML, Content_Type="text/html"),
        record("revisit", block, Content_Type="application/http; msgtype=response"),
        record("conversion", b"a text", Content_Type="text/plain"),
        record("continuation", HTML, WARC_Segment_Number="2"),
        record("resource", HTML, Content_Type="text/html; charset=gbk"),
        record("resource", b"png", Content_Type="image/png"),
        record("response", block, Content_Type="application/http", WARC_Segment_Number="1"),
        record("RESPONSE", block, Content_Type="application/http"),
    ]
    found = read_warc(tmp_path / "a", members(*records))
    assert [(page.content, page.content_kind, page.charset) for page in found.pages] == [
        (b"a text", "text", None),
        (HTML, "html", "gbk"),
        (HTML, "html", "koi8-r"),
    ]
    kinds = {k: n for k, n in found.counters.items() if k.startswith("records.")}
    once = ("warcinfo", "request", "metadata", "revisit", "conversion", "continuation")
    twice = ("resource", "response")
    assert kinds == {f"records.{n}": 1 for n in once} | {f"records.{n}": 2 for n in twice}
    assert found.dropped == {"content_type": 1, "segmented": 1}


def test_opt_out_headers_are_recorded_as_found(tmp_path: Path) -> None:
    head = HEAD + b"\r\nX-Robots-Tag: noindex, NoArchive\r\nx-robots-tag: otherbot: none"
    head += b"\r\nTDM-Reservation: 1"
    found = read_warc(tmp_path / "a", members(response(head, HTML), response(HEAD, HTML)))
    assert found.pages[0].metadata == {
        "robots": "noindex, NoArchive, otherbot: none",
        "tdm_reservation": "1",
    }
    assert found.pages[1].metadata == {}


def test_pages_that_were_cut_are_marked_and_counted(tmp_path: Path) -> None:
    packed = gzip.compress(HTML * 50)
    records = [
        response(HEAD, HTML, WARC_Truncated="length"),
        response(HEAD + b"\r\nContent-Length: 1000", HTML),
        response(HEAD + b"\r\nContent-Encoding: gzip", packed[:-9], WARC_Truncated="time"),
        response(HEAD + b"\r\nContent-Length: %d" % len(HTML), HTML),
    ]
    found = read_warc(tmp_path / "a", members(*records))
    assert [page.metadata.get("truncated") for page in found.pages] == [
        "length",
        "short",
        "time",
        None,
    ]
    assert (HTML * 50).startswith(found.pages[2].content)
    assert found.counters["truncated.crawler"] == 2 and found.counters["truncated.short"] == 1


BLOCK = HEAD + b"\r\n\r\n" + HTML


@pytest.mark.parametrize("algorithm", ["sha1", "md5", "sha256", "sha512"])
@pytest.mark.parametrize("write", [base32, hexadecimal])
def test_block_digests_decide(tmp_path: Path, algorithm: str, write: object) -> None:
    assert callable(write)
    right, wrong = write(algorithm, BLOCK), write(algorithm, BLOCK + b"x")
    records = [
        response(HEAD, HTML, WARC_Block_Digest=right),
        response(HEAD, HTML, WARC_Block_Digest=wrong),
        response(HEAD, HTML, WARC_Block_Digest=right.lower().replace(":", ": ")),
        response(HEAD, HTML, WARC_Block_Digest=right, WARC_Payload_Digest=wrong),
    ]
    found = read_warc(tmp_path / "a", members(*records))
    assert len(found.pages) == 3 and found.dropped == {"wrong_digest": 1}
    offset = len(records[0])
    assert found.notes == [f"a: record at {offset} is not what its digest says"]


def test_a_payload_digest_fits_any_reading_of_the_payload(tmp_path: Path) -> None:
    packed = gzip.compress(HTML)
    framed = b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    head = HEAD + b"\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked"
    records = [
        response(head, framed, WARC_Payload_Digest=base32("sha1", payload))
        for payload in (framed, packed, HTML, b"something else")
    ]
    found = read_warc(tmp_path / "a", members(*records))
    assert found.contents == [HTML] * 3 and found.dropped == {"wrong_digest": 1}


UNREADABLE = ["crc32:12345678", "sha1:", "sha1:not base 32!", "sha1", "sha1:0189"]


@pytest.mark.parametrize("digest", UNREADABLE)
def test_digests_that_cannot_be_read_decide_nothing(tmp_path: Path, digest: str) -> None:
    assert matches(digest, [HTML]) is None
    found = read_warc(tmp_path / "a", members(response(HEAD, HTML, WARC_Block_Digest=digest)))
    assert len(found.pages) == 1 and found.dropped == {}


def test_the_digest_of_nothing() -> None:
    # RFC 3174's algorithm on the empty string, as crawlers write it.
    assert matches("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", [b""]) is True
    assert matches("sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709", [b""]) is True


def test_digests_of_resources_and_texts_are_checked(tmp_path: Path) -> None:
    wrong = base32("sha1", b"other")
    found = read_warc(
        tmp_path / "a",
        members(record("resource", HTML, Content_Type="text/html", WARC_Payload_Digest=wrong)),
    )
    assert found.dropped == {"wrong_digest": 1}
    assert found.notes == [
        "a: record at 0 is not what its digest says",
        "a: no page in it: 1 resource",
    ]
    texts = [
        record("conversion", b"text", WARC_Block_Digest=base32("sha1", b"text")),
        record("conversion", b"text", WARC_Block_Digest=wrong),
    ]
    found = read_wet(tmp_path / "b", members(*texts))
    assert found.contents == [b"text"] and found.dropped == {"wrong_digest": 1}


def test_a_text_larger_than_a_page_may_be_is_counted(tmp_path: Path) -> None:
    found = read_wet(tmp_path / "a", members(record("conversion", b"x" * 101)), limit=100)
    assert found.pages == [] and found.dropped == {"page_too_large": 1}
    assert read_wet(tmp_path / "a", members(record("conversion", b"x" * 100)), limit=100).pages


def test_addresses_lose_the_brackets_that_wget_writes(tmp_path: Path) -> None:
    fields = {"WARC_Target_URI": "<http://x.test/>", "WARC_Date": "2024-01-01T00:00:00Z"}
    page = read_warc(tmp_path / "a", members(response(HEAD, HTML, **fields))).pages[0]
    assert (page.url, page.date) == ("http://x.test/", "2024-01-01T00:00:00Z")


def test_unknown_types_share_one_counter(tmp_path: Path) -> None:
    found = read_warc(tmp_path / "a", members(record("x" * 500, b""), record("Request", b"")))
    assert found.counters == {"records": 2, "records.unknown": 1, "records.request": 1}
