"""Every record that was met is a page, a drop or of a type without pages; notes stay few."""

from __future__ import annotations

import gzip
import random
import time
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from pipelines.sources.archives.warc_records import read_records
from tests.pipelines.sources.warc_samples import (
    HEAD,
    HTML,
    members,
    met_and_told,
    read_warc,
    read_wet,
    record,
    response,
    wet_record,
)

BODIES = [b"alpha text", b"beta text", b"gamma text" * 50]
RECORDS = [wet_record(body) for body in BODIES]
ARCHIVE = [
    record("warcinfo", b"software: x\r\n", Content_Type="application/warc-fields"),
    *(wet_record(b"%d " % i * (20 + i), f"http://x.test/{i}") for i in range(4)),
    record("request", b"GET / HTTP/1.1\r\n\r\n", Content_Type="application/http"),
    *(response(HEAD, HTML * (i + 1)) for i in range(4)),
    response(b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html", HTML),
    record("strange", b"x"),
]


@pytest.mark.parametrize("packing", ["gz", "one member", "plain", "zst"])
def test_records_are_pages_and_drops_and_types_without_pages(tmp_path: Path, packing: str) -> None:
    plain = b"".join(ARCHIVE)
    pack = {"gz": members(*ARCHIVE), "one member": gzip.compress(plain, mtime=0), "plain": plain}
    content = pack.get(packing) or zstandard.compress(plain)
    whole = read_warc(tmp_path / "a", content)
    assert met_and_told(whole) == (12, 12) and len(whole.pages) == 8
    chance = random.Random(7)
    hurt = 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(chance.randrange(4)):
            damaged[chance.randrange(len(damaged))] ^= chance.randrange(1, 256)
        del damaged[chance.choice([len(damaged), chance.randrange(len(damaged))]) :]
        found = read_warc(tmp_path / "a", bytes(damaged))
        met, told = met_and_told(found)
        assert met == told
        hurt += any(reason != "http_status" for reason in found.dropped)
    assert hurt > 50


@pytest.mark.parametrize("cut", [30, 4])
def test_a_cut_member_is_a_record_that_was_met(tmp_path: Path, cut: int) -> None:
    """Case C01."""
    found = read_wet(tmp_path / "a", members(*RECORDS)[:-cut])
    assert found.counters["records"] == 3 and found.dropped == {"truncated_record": 1}


@pytest.mark.parametrize("length", [0, 9, 18, 20, 100, 10**9, 10**14])
def test_a_wrong_length_in_a_plain_file_is_one_drop(tmp_path: Path, length: int) -> None:
    """Case C03."""
    text = "naïve café 東京".encode()
    found = read_wet(tmp_path / "a", wet_record(text, length=length) + RECORDS[1] + RECORDS[2])
    assert found.contents == BODIES[1:]
    assert found.counters["records"] == 3 and sum(found.dropped.values()) == 1


def test_a_record_whose_start_is_damaged_is_counted_and_noted(tmp_path: Path) -> None:
    found = read_wet(tmp_path / "a", RECORDS[0] + b"XXXX" + RECORDS[1][4:] + RECORDS[2])
    assert found.contents == [BODIES[0], BODIES[2]]
    assert found.counters["records"] == 3 and found.dropped == {"not_a_record": 1}
    end_of_block = len(RECORDS[0]) - len("\r\n\r\n")
    assert f"bytes at {end_of_block}" in found.notes[0]


def test_nul_bytes_in_a_plain_file_are_padding(tmp_path: Path) -> None:
    found = read_wet(tmp_path / "a", RECORDS[0] + b"\0" * 5000 + RECORDS[1] + b"\0" * 5000)
    assert found.contents == BODIES[:2] and found.notes == [] and found.dropped == {}
    assert found.counters["bytes_skipped"] == 10_000


def test_texts_and_pages_are_read_from_one_archive_whatever_its_name(tmp_path: Path) -> None:
    mixed = [wet_record(b"a text"), response(HEAD, HTML), record("request", b"GET /")]
    for read in (read_warc, read_wet):
        found = read(tmp_path / "looks.warc.gz", members(*mixed))
        assert [(page.content, page.content_kind) for page in found.pages] == [
            (b"a text", "text"),
            (HTML, "html"),
        ]
        assert found.notes == []


def test_a_file_without_a_page_says_what_it_holds(tmp_path: Path) -> None:
    content = [record("request", b"GET /")] * 3 + [record("warcinfo", b"x: y\r\n")]
    found = read_warc(tmp_path / "a.warc", members(*content))
    assert found.pages == [] and found.dropped == {}
    assert found.notes == ["a.warc: no page in it: 3 request, 1 warcinfo"]


@pytest.mark.parametrize(
    "form",
    [
        b"WARC/1.0\r\n",
        b"xWARC/1.0\r\n",
        b"WARC/1.0\r\nX: y\r\n",
        b"WARC/1.0\r\nContent-Length: 9\r\n\r\n",
        b"WARC/1.0\r\nContent-Length: 99999999\r\n\r\n",
    ],
)
def test_beginnings_without_end_cost_time_by_their_number_and_few_notes(
    tmp_path: Path, form: bytes
) -> None:
    path = tmp_path / "a"
    spent = []
    for count in (5_000, 20_000):
        path.write_bytes(b"WARC/1.0\r\n" + form * count + b"x\r\n")
        notes: list[str] = []
        counters: Counter[str] = Counter()
        begun = time.process_time()
        found = list(read_records(path, counters, notes, "a"))
        spent.append(time.process_time() - begun)
        assert found == [] and counters["records"] >= count
        assert len(notes) == 101 and notes[-1].endswith("more damaged places")
    # Four times the input: linear is 4 times the time, quadratic 16; a floor for coarse clocks.
    assert spent[1] < 10 * max(spent[0], 0.02)


def test_a_header_without_an_end_does_not_take_the_next_record(tmp_path: Path) -> None:
    half = b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://x.test/half\r\n"
    for content in (half + RECORDS[0], gzip.compress(half + RECORDS[0])):
        found = read_wet(tmp_path / "a", content)
        assert [page.url for page in found.pages] == ["http://x.test/"]
        assert found.counters["records"] == 2 and found.dropped == {"truncated_record": 1}


def test_a_header_may_name_the_format_within_a_line(tmp_path: Path) -> None:
    named = record("conversion", b"text", WARC_Target_URI="http://x.test/WARC/1.0")
    found = read_wet(tmp_path / "a", named + RECORDS[0])
    assert found.contents == [b"text", BODIES[0]]
    assert found.pages[0].url == "http://x.test/WARC/1.0"


def test_a_record_larger_than_the_limit_is_passed_over_in_a_plain_file(tmp_path: Path) -> None:
    content = RECORDS[0] + wet_record(b"x" * 3_000_000) + RECORDS[1]
    found = read_wet(tmp_path / "a", content, max_member_bytes=1_000_000)
    assert found.contents == BODIES[:2] and found.dropped == {"record_too_large": 1}
    cut = content[: len(RECORDS[0]) + 500_000]
    found = read_wet(tmp_path / "a", cut, max_member_bytes=1_000_000)
    assert found.contents == BODIES[:1] and found.dropped == {"truncated_record": 1}


def test_bytes_without_a_record_are_counted(tmp_path: Path) -> None:
    found = read_warc(tmp_path / "a", gzip.compress(b"<html>come back later</html>"))
    assert found.dropped == {"not_a_record": 1} and found.counters["bytes_skipped"] == 28
    assert "no WARC record in the 28 bytes" in found.notes[0]


def test_an_empty_file_is_noted(tmp_path: Path) -> None:
    found = read_wet(tmp_path / "a", b"")
    assert found.pages == [] and "empty" in found.notes[0]
