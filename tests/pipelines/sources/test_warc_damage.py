"""Damage costs what is damaged and nothing else, and is counted and named."""

from __future__ import annotations

import gzip
import hashlib
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from fastwarc.stream_io import Lz4Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources.archives.containers import UnsupportedArchive
from pipelines.sources.warc import read_wet_pages
from tests.pipelines.sources.warc_samples import (
    members,
    read_warc,
    read_wet,
    record,
    wet_record,
)

BODIES = [b"alpha text", b"beta text", b"gamma text" * 50]
RECORDS = [wet_record(body) for body in BODIES]
MEMBERS = [members(one) for one in RECORDS]


@pytest.mark.parametrize("cut", [30, 4])
def test_a_cut_tail_is_counted_and_never_a_document(tmp_path: Path, cut: int) -> None:
    """Case C01."""
    found = read_wet(tmp_path / "a.wet.gz", b"".join(MEMBERS)[:-cut])
    assert found.contents == BODIES[:2]
    assert found.dropped == {"truncated_record": 1}
    assert found.counters["bytes_lost"] == len(MEMBERS[2]) - cut
    assert len(found.notes) == 1 and "a.wet.gz" in found.notes[0] and "cut off" in found.notes[0]


@pytest.mark.parametrize(("cut", "whole"), [(30, False), (5, False), (4, True), (1, True)])
def test_a_plain_file_cut_in_its_last_record(tmp_path: Path, cut: int, whole: bool) -> None:
    found = read_wet(tmp_path / "a", b"".join(RECORDS)[:-cut])
    assert found.contents == BODIES[: 3 if whole else 2]
    # The text is whole when only its line ends are gone: it is given, and that is counted.
    assert found.counters["odd.record_end"] == whole
    assert found.dropped == ({} if whole else {"truncated_record": 1})


def test_a_damaged_member_costs_itself_only(tmp_path: Path) -> None:
    broken = bytearray(MEMBERS[1])
    broken[len(broken) // 2] ^= 0xFF
    broken[-6] ^= 0xFF  # and the checksum, whatever the bit above did
    found = read_wet(tmp_path / "a", MEMBERS[0] + bytes(broken) + MEMBERS[2])
    assert found.contents == [BODIES[0], BODIES[2]]
    assert found.dropped == {"damaged_member": 1}
    assert found.counters["bytes_lost"] == len(broken)
    assert f"at byte {len(MEMBERS[0])}" in found.notes[0]


@pytest.mark.parametrize("place", ["magic", "checksum", "size", "body"])
def test_every_part_of_a_member_is_checked(tmp_path: Path, place: str) -> None:
    broken = bytearray(MEMBERS[1])
    broken[{"magic": 0, "checksum": -8, "size": -4, "body": 20}[place]] ^= 0x01
    found = read_wet(tmp_path / "a", MEMBERS[0] + bytes(broken) + MEMBERS[2])
    assert found.contents == [BODIES[0], BODIES[2]]
    assert sum(found.dropped.values()) == 1 and found.counters["bytes_lost"] == len(broken)


ARCHIVE = [
    # Both ways through the reader: fields as crawlers write them, and in another case.
    record("conversion", b"%d " % i * (i + 3), WARC_Target_URI=f"http://x.test/{i}")
    if i % 2
    else wet_record(b"%d " % i * (i + 3), f"http://x.test/{i}")
    for i in range(12)
]
PARTS = [members(one) for one in ARCHIVE]
STARTS = [sum(map(len, PARTS[:i])) for i in range(len(PARTS) + 1)]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_happens_to_some_bytes_all_other_members_come_out_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(b"".join(PARTS))
    places = data.draw(st.sets(st.integers(0, len(content) - 1), max_size=5))
    for place in places:
        content[place] ^= data.draw(st.integers(1, 255))
    end = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    path = tmp_path_factory.getbasetemp() / "damaged"
    found = read_wet(path, bytes(content[:end]))
    sound = {
        i
        for i in range(len(PARTS))
        if STARTS[i + 1] <= end and not any(STARTS[i] <= p < STARTS[i + 1] for p in places)
    }
    urls = [int(page.url.rpartition("/")[2]) for page in found.pages]
    assert urls == sorted(set(urls)) and sound <= set(urls)
    for number, page in zip(urls, found.pages, strict=True):
        assert page.content == b"%d " % number * (number + 3)
    hurt = len(PARTS) - len(urls)
    cleanly_shorter = end in STARTS and len(urls) == STARTS.index(end)
    assert bool(found.notes) == bool(hurt) or cleanly_shorter


def test_offsets_are_those_of_the_unpacked_archive(tmp_path: Path) -> None:
    plain = b"".join(RECORDS)
    starts = [i for i in range(len(plain)) if plain.startswith(b"WARC/", i)]
    for content in (b"".join(MEMBERS), plain, gzip.compress(plain), zstandard.compress(plain)):
        assert [page.offset for page in read_wet(tmp_path / "a", content).pages] == starts


@pytest.mark.parametrize("packed", [True, False])
def test_length_is_counted_in_bytes_and_fields_go_by_name(tmp_path: Path, packed: bool) -> None:
    """Case C03."""
    text = "naïve café 東京"
    assert (len(text), len(text.encode())) == (13, 19)
    content = [wet_record(text.encode(), "http://x.test/q?t=a: b"), wet_record(b"beta text")]
    found = read_wet(tmp_path / "a", members(*content) if packed else b"".join(content))
    assert [page.content.decode() for page in found.pages] == [text, "beta text"]
    assert found.pages[0].url == "http://x.test/q?t=a: b"
    assert found.counters == {"records": 2, "records.conversion": 2} and found.notes == []


@pytest.mark.parametrize("length", [13, 18, 20, 100])
@pytest.mark.parametrize("packed", [True, False])
def test_a_wrong_length_is_flagged_and_the_next_record_survives(
    tmp_path: Path, packed: bool, length: int
) -> None:
    """Case C03, with a wrong length."""
    content = [wet_record("naïve café 東京".encode(), length=length), wet_record(b"beta text" * 30)]
    found = read_wet(tmp_path / "a", members(*content) if packed else b"".join(content))
    assert found.contents[-1] == b"beta text" * 30
    if packed and length == 20:
        # In a member of its own the record may end there, one line end short: counted, not hidden.
        assert found.counters["odd.record_end"] == 1
    else:
        assert len(found.pages) == 1 and sum(found.dropped.values()) == 1 and len(found.notes) == 1


def test_two_lengths_that_differ_are_no_length(tmp_path: Path) -> None:
    twice = record("conversion", BODIES[0], content_length="9")
    assert twice.count(b"-Length: 10\r\n") == twice.count(b"-length: 9\r\n") == 1
    found = read_wet(tmp_path / "a", members(twice) + MEMBERS[1])
    assert found.contents == [BODIES[1]] and found.dropped == {"wrong_length": 1}


def test_the_next_member_is_found_across_the_border_of_two_reads(tmp_path: Path) -> None:
    # The damaged member is as long as one read of the search, give or take the next one's mark.
    for shift in range(-4, 2):
        junk = b"\x1f\x8b\x08" + b"\xff" * (2**20 + shift)
        found = read_wet(tmp_path / "a", junk + MEMBERS[1])
        assert found.contents == [BODIES[1]], shift
        assert found.counters["bytes_lost"] == len(junk)


def test_a_length_that_takes_the_line_ends_in_is_wrong(tmp_path: Path) -> None:
    # 16 bytes are said: the text and its line ends. What follows are no line ends.
    longer = record("conversion", b"twelve bytes", Content_Length="16") + b"xxxx"
    for content in (members(longer) + MEMBERS[1], longer + RECORDS[1]):
        found = read_wet(tmp_path / "a", content)
        assert found.contents == [BODIES[1]] and found.dropped == {"wrong_length": 1}


def test_offsets_hold_in_plain_files_larger_than_a_read(tmp_path: Path) -> None:
    bodies = [hashlib.sha512(b"%d" % i).hexdigest().encode() * 40 for i in range(500)]
    records = [wet_record(body) for body in bodies]
    plain = b"".join(records)
    assert len(plain) > 2.4 * 2**20
    starts = [sum(map(len, records[:i])) for i in range(len(records))]
    for content in (plain, zstandard.compress(plain)):
        found = read_wet(tmp_path / "a", content)
        assert [page.offset for page in found.pages] == starts
        assert found.contents == bodies


def test_a_bomb_is_stopped_and_the_next_member_read(tmp_path: Path) -> None:
    bomb = gzip.compress(wet_record(b"\0" * 100_000_000), 1)
    path = tmp_path / "a"
    path.write_bytes(MEMBERS[0] + bomb + MEMBERS[2])
    tracemalloc.start()
    found = read_wet(path, path.read_bytes(), max_member_bytes=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.contents == [BODIES[0], BODIES[2]]
    assert found.dropped == {"bomb": 1} and found.counters["bytes_lost"] == len(bomb)
    assert "more than 1000000 bytes at byte" in found.notes[0]
    assert peak < 12_000_000


def test_a_member_exactly_as_large_as_the_limit_is_no_bomb(tmp_path: Path) -> None:
    size = len(RECORDS[2])
    assert len(read_wet(tmp_path / "a", MEMBERS[2], max_member_bytes=size).pages) == 1
    assert read_wet(tmp_path / "a", MEMBERS[2], max_member_bytes=size - 1).dropped == {"bomb": 1}


def test_an_archive_packed_as_one_large_member_is_no_bomb(tmp_path: Path) -> None:
    bodies = [hashlib.sha512(b"%d" % i).hexdigest().encode() * 3 for i in range(300)]
    records = [wet_record(body) for body in bodies]
    whole = gzip.compress(b"".join(records))
    found = read_wet(tmp_path / "a", whole + MEMBERS[0], max_member_bytes=10_000)
    assert found.contents == [*bodies, BODIES[0]]
    assert found.notes == [] and found.dropped == {}
    assert found.pages[-1].offset == sum(map(len, records))
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    found = read_wet(tmp_path / "a", bytes(broken) + MEMBERS[0], max_member_bytes=10_000)
    assert found.contents[-1] == BODIES[0] and 10 < len(found.pages) < 301
    assert found.dropped["damaged_member"] == 1 and found.counters["bytes_lost"] == len(whole)


@pytest.mark.parametrize("packing", ["members", "one member", "plain", "zstd"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, packing: str) -> None:
    peaks = []
    for count in (300, 3000):
        records = [wet_record(b"%08d" % i * 1250) for i in range(count)]  # 10 kB each
        plain = b"".join(records)
        pack = {"one member": gzip.compress, "plain": bytes, "zstd": zstandard.compress}
        content = members(*records) if packing == "members" else pack[packing](plain)
        path = tmp_path / "a"
        path.write_bytes(content)
        del records, plain, content
        tracemalloc.start()
        pages = read_wet_pages(path, "a", Counter(), [], 10**6, max_member_bytes=1_000_000)
        assert sum(1 for _ in pages) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] + 500_000 and peaks[1] < 8_000_000


def test_junk_between_records_is_counted(tmp_path: Path) -> None:
    found = read_wet(tmp_path / "a", RECORDS[0] + b"junk\r\n" * 20 + RECORDS[1])
    assert found.contents == BODIES[:2] and found.dropped == {"not_a_record": 1}
    assert found.counters["bytes_skipped"] == len(b"junk\r\n" * 20) - 2


def test_nul_bytes_after_the_last_member_are_no_damage(tmp_path: Path) -> None:
    found = read_wet(tmp_path / "a", b"".join(MEMBERS) + b"\0" * 3_000_000)
    assert found.contents == BODIES and found.notes == [] and found.dropped == {}


@pytest.mark.parametrize("packing", ["zstd", "zstd with a dictionary", "lz4"])
def test_other_packings_are_read_and_their_damage_is_counted(tmp_path: Path, packing: str) -> None:
    records = [wet_record(b"%04d" % i * 500) for i in range(200)]
    if packing == "lz4":
        with (tmp_path / "x.lz4").open("wb") as file:
            writer = Lz4Writer(file)
            writer.write(b"".join(records))
            writer.close()
        content = (tmp_path / "x.lz4").read_bytes()
    elif packing == "zstd":
        content = b"".join(map(zstandard.compress, records))
    else:
        dictionary = zstandard.train_dictionary(4000, records)
        packer = zstandard.ZstdCompressor(dict_data=dictionary)
        raw = dictionary.as_bytes()
        content = b"\x5d\x2a\x4d\x18" + len(raw).to_bytes(4, "little") + raw
        content += b"".join(map(packer.compress, records))
    found = read_wet(tmp_path / "a", content)
    assert found.contents == [b"%04d" % i * 500 for i in range(200)] and found.notes == []
    broken = bytearray(content)
    for place in range(len(content) * 2 // 3, len(content) * 2 // 3 + 40):
        broken[place] ^= 0xA5
    found = read_wet(tmp_path / "a", bytes(broken))
    assert found.contents == [b"%04d" % i * 500 for i in range(len(found.pages))]
    assert len(found.pages) < 200 and found.notes and found.dropped


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"filedesc://a.arc 0.0.0.0 2008 text/plain 73\n1 0 x\n", "an ARC file.*convert"),
        (gzip.compress(b"filedesc://a.arc 0.0.0.0 2008 text/plain 73\n", mtime=0), "an ARC file"),
        (zstandard.compress(b"filedesc://a.arc 0.0.0.0 2008 text/plain 73\n"), "an ARC file"),
        (b"BZh91AY&SY" + b"\0" * 50, "bzip2"),
        (b"\xfd7zXZ\0" + b"\0" * 50, "xz file; a WARC file is plain, or"),
    ],
)
def test_other_formats_are_refused_by_name(tmp_path: Path, content: bytes, what: str) -> None:
    with pytest.raises(UnsupportedArchive, match=f"crawl.warc.gz: .*{what}"):
        read_warc(tmp_path / "crawl.warc.gz", content)
