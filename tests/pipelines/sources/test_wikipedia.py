"""Source wikipedia: which pages are articles, what a server lists, ranges of a large file."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from pipelines.config import WikipediaSource
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import RawPage
from pipelines.sources.fetching.fetch import fetch
from pipelines.sources.wikipedia import Wikipedia
from pipelines.sources.wikipedia_listing import cut_ranges, database_of
from tests.pipelines.sources.dump_files import FOOT, HEAD, multistream, page

STREAMS = [
    bz2.compress(HEAD.encode()),
    bz2.compress(page("Erste Seite", "Text eins.").encode()),
    bz2.compress((page("Zwei", "Text zwei. " * 50, number=6) + FOOT).encode()),
]
WHOLE = Shard("dewiki/d.bz2", "", "wikipedia", "wikipedia", options={"wiki": "dewiki"})


def read(
    path: Path, content: bytes, shard: Shard = WHOLE, limit: int = 10**6
) -> tuple[list[RawPage], Counters, list[str]]:
    path.write_bytes(content)
    counters: Counters = Counter()
    notes: list[str] = []
    return list(Wikipedia().read_pages(path, shard, counters, notes, limit)), counters, notes


def test_every_stream_is_read(tmp_path: Path) -> None:
    """Case C06."""
    pages, counters, notes = read(tmp_path / "d", b"".join(STREAMS))
    assert [found.title for found in pages] == ["Erste Seite", "Zwei"]
    assert pages[0].url == "https://de.wikipedia.org/wiki/Erste_Seite"
    assert pages[0].metadata == {"page_id": "5", "wiki": "dewiki"}
    sizes = [len(stream) for stream in STREAMS]
    assert [found.offset for found in pages] == [sizes[0], sizes[0] + sizes[1]]
    assert pages[0].namespaces == {"datei", "kategorie", "medium"}
    assert pages[0].date == "2026-11-01T00:00:00Z" and pages[0].content == b"Text eins."
    assert notes == [] and counters == {"records": 2}


def test_trailing_junk_is_noted(tmp_path: Path) -> None:
    """Case C06."""
    pages, counters, notes = read(tmp_path / "d", b"".join(STREAMS) + b"\0\0\0")
    assert len(pages) == 2
    assert counters == {"records": 2, "bytes_lost": 3}
    assert len(notes) == 1 and "dewiki/d.bz2" in notes[0]


def test_a_cut_stream_is_counted_as_truncated(tmp_path: Path) -> None:
    """Case C06."""
    cut = b"".join(STREAMS[:2]) + STREAMS[2][: len(STREAMS[2]) // 2]
    pages, counters, notes = read(tmp_path / "d", cut)
    assert [found.title for found in pages] == ["Erste Seite"]
    assert counters["lost.truncated_stream"] == counters["lost.truncated_dump"] == 1
    assert all("dewiki/d.bz2" in note for note in notes)


def test_a_file_cut_between_two_streams_is_counted_as_truncated(tmp_path: Path) -> None:
    pages, counters, notes = read(tmp_path / "d", b"".join(STREAMS[:2]))
    assert len(pages) == 1 and counters == {"records": 1, "lost.truncated_dump": 1}
    assert "</mediawiki>" in notes[0]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_pages_of_a_file_of_one_stream_are_told_by_their_number(
    tmp_path: Path, pack: object
) -> None:
    xml = HEAD + page("A", "a", 1) + page("B", "b", 2) + FOOT
    pages, counters, _ = read(tmp_path / "d", pack(xml.encode()))  # type: ignore[operator]
    assert [(found.offset, found.metadata["page_id"]) for found in pages] == [(0, "1"), (0, "2")]
    assert counters == {"records": 2}


def test_other_pages_are_counted(tmp_path: Path) -> None:
    content = (
        HEAD
        + page("Diskussion:A", "x", ns=1)
        + page("Diskussion:Alt", "x", ns=None)
        + page("B", "#REDIRECT [[A]]", extra='<redirect title="A" />')
        + page("B2", "#ПЕРЕНАПРАВЛЕНИЕ [[A]]")
        + page("B3", "#WEITERLEITUNG: [[A#b]]")
        + page("C", "{{Begriffsklärung}} A ist B")
        + page("C2 (значения)", "A")
        + page("D", "y" * 1_000_001)
        + page("E", "Text.")
        + page("E: a colon", "Text.", ns=None)
        + page("F.css", "a {}", more="<model>css</model>")
        + page("G", "return {}", more="<model>Scribunto</model>")
        + "<page><title>H</title><ns>0</ns><revision><text>a & b</text></revision></page>"
        + "</mediawiki>"
    )
    pages, counters, notes = read(tmp_path / "d", bz2.compress(content.encode()))
    assert [found.title for found in pages] == ["E", "E: a colon"]
    assert counters == {
        "records": 13,
        "dropped.namespace": 2,
        "dropped.redirect": 3,
        "dropped.disambiguation": 2,
        "dropped.page_too_large": 1,
        "dropped.content_model": 2,
        "dropped.broken_page": 1,
    }
    assert len(notes) == 1 and "no XML" in notes[0]


def test_the_last_revision_of_a_page_counts(tmp_path: Path) -> None:
    old = "<revision><id>1</id><timestamp>2001</timestamp><text>alt</text></revision>"
    content = HEAD + page("A", "neu", extra=old) + FOOT
    pages, _, _ = read(tmp_path / "d", content.encode())
    assert [(found.content, found.date) for found in pages] == [(b"neu", "2026-11-01T00:00:00Z")]


def test_addresses_are_those_of_the_wiki(tmp_path: Path) -> None:
    head = HEAD.replace("Wikipedia:Hauptseite", "Portal/Start")
    pages, _, _ = read(tmp_path / "d", (head + page("Ä/B (c)?", "x") + FOOT).encode())
    assert pages[0].url == "https://de.wikipedia.org/wiki/%C3%84/B_(c)%3F"
    without = "<mediawiki>" + page("A b", "x") + FOOT
    pages, _, _ = read(tmp_path / "d", without.encode())
    assert pages[0].url == "https://de.wikipedia.org/wiki/A_b"


# Listing and ranges


def write_dump(root: Path, files: dict[str, bytes], *, status: str = "done") -> None:
    folder = root / "dewiki" / "20261101"
    folder.mkdir(parents=True)
    listed = {}
    for name, content in files.items():
        (folder / name).write_bytes(content)
        listed[name] = {"size": len(content), "sha1": hashlib.sha1(content).hexdigest()}
    job = {"status": status, "files": listed}
    (folder / "dumpstatus.json").write_text(json.dumps({"jobs": {"articlesmultistreamdump": job}}))


def config(range_megabytes: int = 128, date: str = "20261101") -> WikipediaSource:
    return WikipediaSource(
        kind="wikipedia", wikis=["de"], date=date, range_megabytes=range_megabytes
    )


STEM = "dewiki-20261101-pages-articles-multistream"
INCOMPRESSIBLE = [hashlib.shake_256(bytes([n % 251, n // 251])).hexdigest(4200) for n in range(720)]
PAGES = [
    page(f"Seite {n}", f"Text {n}. {letters}", n + 1) for n, letters in enumerate(INCOMPRESSIBLE)
]
DUMP, INDEX, OFFSETS = multistream(PAGES)


def test_a_file_is_listed_with_size_and_check_sum(tmp_path: Path) -> None:
    write_dump(tmp_path, {f"{STEM}.xml.bz2": DUMP, f"{STEM}-index.txt.bz2": INDEX})
    [shard] = Wikipedia().list_shards(config(), str(tmp_path))
    assert shard.name == f"dewiki/20261101/{STEM}.xml.bz2" and shard.size == len(DUMP)
    assert shard.etag == "sha1:" + hashlib.sha1(DUMP).hexdigest() and shard.date == "20261101"


def identities(pages: list[RawPage]) -> list[tuple[int, str, str, bytes]]:
    return [(p.offset, p.metadata["page_id"], p.url, p.content) for p in pages]


def test_ranges_hold_together_the_pages_of_the_whole_file(tmp_path: Path) -> None:
    assert len(DUMP) > 2_500_000
    write_dump(tmp_path, {f"{STEM}.xml.bz2": DUMP, f"{STEM}-index.txt.bz2": INDEX})
    shards = Wikipedia().list_shards(config(range_megabytes=1), str(tmp_path))
    whole, _, _ = read(tmp_path / "whole", DUMP)
    assert len(whole) == 720 and len(shards) == 3
    assert len({shard.name for shard in shards}) == 3
    pages: list[RawPage] = []
    records = 0
    for shard in shards:
        start, end = int(shard.options["start"]), int(shard.options["end"])
        assert shard.name == f"dewiki/20261101/{STEM}.xml.bz2#{start}-{end}"
        assert shard.options["file"] == f"dewiki/20261101/{STEM}.xml.bz2"
        assert sum(len(key) + len(value) for key, value in shard.options.items()) < 500
        assert shard.size == end - start and not (shard.etag or "").startswith("sha1:")
        fetch(shard.url, tmp_path / "part", byte_range=(start, end))
        found, counters, notes = read(tmp_path / "part", (tmp_path / "part").read_bytes(), shard)
        assert notes == [] and set(counters) == {"records"}
        assert all(page.namespaces == {"datei", "kategorie", "medium"} for page in found)
        pages += found
        records += counters["records"]
    assert identities(pages) == identities(whole) and records == 720


SMALL, _, SMALL_OFFSETS = multistream([p[:200] + "</text></revision></page>" for p in PAGES], 40)


@pytest.mark.parametrize("size", [1, 1500, 6_000, 9_000, 20_000, len(SMALL)])
def test_ranges_of_every_size_lose_and_repeat_nothing(tmp_path: Path, size: int) -> None:
    ranges = cut_ranges(SMALL_OFFSETS, len(SMALL), size)
    assert ranges[0][0] == 0 and ranges[-1][1] == len(SMALL)
    assert all(left[1] == right[0] for left, right in zip(ranges, ranges[1:], strict=False))
    assert all(end - start >= size for start, end in ranges[:-1])
    assert size > 1 or len(ranges) == len(SMALL_OFFSETS) + 1
    pages = []
    for start, end in ranges:
        options = {"start": str(start), "end": str(end), "file_size": str(len(SMALL))}
        part = Shard("a#", "", "wikipedia", "wikipedia", options=options)
        found, counters, notes = read(tmp_path / "d", SMALL[start:end], part)
        assert notes == [] and set(counters) <= {"records"}
        pages += found
    whole, _, _ = read(tmp_path / "d", SMALL)
    assert len(whole) == 720
    assert [(p.offset, p.metadata["page_id"], p.content) for p in pages] == [
        (p.offset, p.metadata["page_id"], p.content) for p in whole
    ]


def test_a_cut_range_is_counted(tmp_path: Path) -> None:
    start, end = OFFSETS[2], OFFSETS[4]
    options = {"start": str(start), "end": str(end), "file_size": str(len(DUMP))}
    part = Shard("a#1-2", "", "wikipedia", "wikipedia", options=options)
    pages, counters, notes = read(tmp_path / "d", DUMP[start : OFFSETS[3]], part)
    assert len(pages) == 100 and counters == {"records": 100, "lost.truncated_range": 1}
    assert f"listed to {end}" in notes[0]


def test_a_file_without_an_index_is_one_shard(tmp_path: Path) -> None:
    write_dump(tmp_path, {f"{STEM}.xml.bz2": DUMP})
    assert len(Wikipedia().list_shards(config(range_megabytes=1), str(tmp_path))) == 1


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"BZh91AY&SY no stream", "not the index"),
        (bz2.compress(b"page:5:x\n"), "not the index"),
        (bz2.compress(b"99999999:5:x\n"), "begins at 99999999"),
        (bz2.compress(b""), "begins at no line"),
    ],
)
def test_a_wrong_index_is_named(tmp_path: Path, index: bytes, message: str) -> None:
    write_dump(tmp_path, {f"{STEM}.xml.bz2": DUMP, f"{STEM}-index.txt.bz2": index})
    with pytest.raises(ConfigError, match=rf"index\.txt\.bz2 .*{message}"):
        Wikipedia().list_shards(config(range_megabytes=1), str(tmp_path))


def test_parts_have_their_own_indexes(tmp_path: Path) -> None:
    names = [f"{STEM}1.xml-p1p360.bz2", f"{STEM}2.xml-p361p720.bz2"]
    indexes = [f"{STEM}-index1.txt-p1p360.bz2", f"{STEM}-index2.txt-p361p720.bz2"]
    files = {}
    for number, (name, index_name) in enumerate(zip(names, indexes, strict=True)):
        content, index, _ = multistream(PAGES[360 * number :][:360])
        files |= {name: content, index_name: index}
    write_dump(tmp_path, files)
    shards = Wikipedia().list_shards(config(range_megabytes=1), str(tmp_path))
    assert [shard.options["file"].rpartition("/")[2] for shard in shards] == sorted(names * 2)


def test_a_dump_that_is_not_done_is_refused(tmp_path: Path) -> None:
    write_dump(tmp_path, {f"{STEM}.xml.bz2": DUMP}, status="in-progress")
    with pytest.raises(ConfigError, match="in-progress.*another date"):
        Wikipedia().list_shards(config(), str(tmp_path))


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    write_dump(tmp_path, {f"{STEM}.xml.bz2": DUMP})
    (tmp_path / f"dewiki/20261101/{STEM}.xml.bz2").write_bytes(DUMP[:-9])
    with pytest.raises(ConfigError, match=f"{len(DUMP) - 9} bytes.*says {len(DUMP)}"):
        Wikipedia().list_shards(config(), str(tmp_path))


def test_latest_is_the_date_that_the_server_says(tmp_path: Path) -> None:
    write_dump(tmp_path, {f"{STEM}.xml.bz2": DUMP})
    folder = tmp_path / "dewiki/latest"
    folder.mkdir()
    (folder / "dewiki-latest-sha1sums.txt").write_text(f"00  {STEM}.xml.bz2\n")
    dated = Wikipedia().list_shards(config(), str(tmp_path))
    assert Wikipedia().list_shards(config(date="latest"), str(tmp_path)) == dated


def test_latest_without_check_sums_is_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "dewiki/latest"
    folder.mkdir(parents=True)
    (folder / "dewiki-latest-pages-articles-multistream.xml.bz2").write_bytes(DUMP)
    [shard] = Wikipedia().list_shards(config(date="latest"), str(tmp_path))
    assert (
        shard.date is None and shard.size == len(DUMP) and shard.name.startswith("dewiki/latest/")
    )


def test_language_tags_stand_for_their_wikis() -> None:
    assert database_of("sw") == "swwiki" and database_of("zh_yue") == "zh_yuewiki"
    assert database_of("yue") == database_of("zh-yue") == "zh_yuewiki"
    assert database_of("be-tarask") == "be_x_oldwiki" and database_of("nds-nl") == "nds_nlwiki"


# Real dumps


REAL = {
    "aawiki-20260101-pages-meta-current.xml.bz2": (507, 1),
    "bgwiki-latest-pages-articles-shortened.xml.bz2": (3, 1),
    "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2": (206, 98),
    "enwiki-pages-articles-sample.xml.bz2": (3, 2),
    "itwiki-small-dump.xml.gz": (747, 577),
    "smallwiki-latest-pages-articles.xml.bz2": (2004, 903),
    "tinywiki-latest-pages-articles.xml.bz2": (8, 6),
}


@pytest.mark.parametrize("name", REAL)
def test_real_dumps_are_read_whole(shared_data: Path, name: str) -> None:
    counters: Counters = Counter()
    notes: list[str] = []
    path = shared_data / "wiki" / name
    pages = list(Wikipedia().read_pages(path, WHOLE, counters, notes, 10**8))
    assert notes == [] and counters["records"] == REAL[name][0]
    assert len(pages) == REAL[name][1]
    dropped = sum(count for reason, count in counters.items() if reason.startswith("dropped."))
    assert dropped + len(pages) == counters["records"]
    places = [(found.offset, found.metadata["page_id"]) for found in pages]
    # tinywiki was put together by hand: its pages share their numbers.
    assert len(set(places)) == len(places) or name.startswith("tinywiki")
