"""Plain files: by ending or by content, rows, whole files, and what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.config import LocalFilesSource
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import RawPage
from pipelines.sources.fetching.local_copy import local_copy
from pipelines.sources.file_formats import format_by_content, format_by_name, open_bytes
from pipelines.sources.local_files import LocalFiles

ROWS = [{"text": f"Zeile {n} ist da."} for n in range(50)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}


def shards_of(*paths: object, **settings: object) -> list[Shard]:
    tree = {"kind": "local_files", "paths": list(map(str, paths)), **settings}
    return LocalFiles().list_shards(LocalFilesSource.model_validate(tree), "")


def pages_of(
    path: Path, counters: Counters | None = None, notes: list[str] | None = None, **settings: object
) -> list[RawPage]:
    limit = settings.pop("max_page_bytes", 10**6)
    [shard] = shards_of(path, **settings)
    counters = Counter() if counters is None else counters
    notes = [] if notes is None else notes
    with local_copy(shard.url) as copy:
        assert copy == path  # read in place
        return list(LocalFiles().read_pages(copy, shard, counters, notes, limit))  # type: ignore[arg-type]


def texts(pages: list[RawPage]) -> list[str]:
    return [page.content.decode() for page in pages]


@pytest.mark.parametrize("ending", PACKERS)
def test_lines_of_json_whatever_they_are_packed_with(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows.jsonl{ending}"
    path.write_bytes(PACKERS[ending](LINES))
    counters: Counters = Counter()
    pages = pages_of(path, counters)
    assert texts(pages) == [row["text"] for row in ROWS]
    assert [page.offset for page in pages] == list(range(50))
    assert counters == {"records": 50}


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_all_parts_of_a_file_in_parts_are_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows.jsonl{ending}"
    path.write_bytes(PACKERS[ending](LINES) * 2)
    assert len(pages_of(path)) == 100


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_packed_file_that_ends_early_is_counted_and_noted(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows.jsonl{ending}"
    many = b"".join(
        json.dumps({"text": f"{n * 7919 % 65537} x"}).encode() + b"\n" for n in range(20_000)
    )
    path.write_bytes(PACKERS[ending](many)[:-40])
    counters: Counters = Counter()
    notes: list[str] = []
    pages = pages_of(path, counters, notes)
    assert len(pages) < 20_000 and [page.offset for page in pages] == list(range(len(pages)))
    assert counters["dropped.truncated_file"] == 1
    assert len(notes) == 1 and str(path) in notes[0] and f"line {len(pages)}" in notes[0]


def test_fields_of_a_row_are_kept(tmp_path: Path) -> None:
    row = {"body": "Text", "link": "https://x.test/", "title": "T", "date": "2026-01-02", "id": 17}
    path = tmp_path / "a.jsonl"
    path.write_text("\ufeff" + json.dumps(row) + "\n")
    [page] = pages_of(path, text_column="body", url_column="link")
    assert (page.content, page.url, page.title) == (b"Text", "https://x.test/", "T")
    assert (page.date, page.metadata) == ("2026-01-02", {"row_id": "17"})


def test_bad_lines_are_counted_and_told_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    lines = [
        '{"text": "good"}',
        "",
        '{"text": "cut',
        '["text"]',
        '{"txt": "x", "lang": "sw"}',
        '{"text": 5}',
        "[" * 100_000,
        '{"text": "also good"}',
    ]
    path.write_text("\n".join(lines))
    counters: Counters = Counter()
    notes: list[str] = []
    pages = pages_of(path, counters, notes)
    assert [(page.offset, page.content) for page in pages] == [(0, b"good"), (7, b"also good")]
    assert counters == {"records": 7, "dropped.bad_line": 5}
    assert [note.removeprefix(f"{path}, ").split(":")[0] for note in notes] == [
        f"line {number}" for number in (3, 4, 5, 6, 7)
    ]
    assert "no field 'text'; there are: 'txt', 'lang'" in notes[2]
    assert "'text' is int" in notes[3]


def test_many_bad_lines_are_told_as_a_number(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("x\n" * 500)
    notes: list[str] = []
    assert pages_of(path, Counter(), notes) == []
    assert len(notes) == 11 and notes[-1].endswith("490 more bad lines")


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path: Path) -> None:
    """Case C37."""
    path = tmp_path / "c37.jsonl"
    path.write_text(
        '{"text":"good"}\n{"text":"bad \\ud83d end"}\n{"text":"pair \\ud83d\\ude0a ok"}\n'
    )
    counters: Counters = Counter()
    assert texts(pages_of(path, counters)) == ["good", "bad \ufffd end", "pair \U0001f60a ok"]
    assert counters["replaced.surrogates"] == 1


def test_a_line_without_end_is_never_held(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"text": "' + b"x" * 5_000_000 + b'"}\n{"text": "after"}\n')
    counters: Counters = Counter()
    notes: list[str] = []
    assert texts(pages_of(path, counters, notes, max_page_bytes=1000)) == ["after"]
    assert counters == {"records": 2, "dropped.page_too_large": 1}
    assert notes == [f"{path}, line 1: more than 1002000 bytes"]


def test_a_text_that_is_larger_than_a_page_may_be_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps({"text": "ä" * n}) + "\n" for n in (51, 50)))
    counters: Counters = Counter()
    notes: list[str] = []
    assert texts(pages_of(path, counters, notes, max_page_bytes=100)) == ["ä" * 50]
    assert counters == {"records": 2, "dropped.page_too_large": 1}
    assert notes == [f"{path}, line 1: a text of 102 bytes, more than 100"]


def test_rows_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["eins", None], "link": ["http://x.test/", ""]}), path)
    counters: Counters = Counter()
    [page] = pages_of(path, counters, text_column="body", url_column="link")
    assert (page.offset, page.content, page.url) == (0, b"eins", "http://x.test/")
    assert counters == {"records": 2, "dropped.bad_row": 1}


def test_a_text_or_html_file_is_one_page(tmp_path: Path) -> None:
    for name, kind in (("ä.txt", "paragraphs"), ("b.html", "html")):
        path = tmp_path / name
        path.write_text("<p>Etwas Text.")
        [page] = pages_of(path)
        assert (page.content, page.content_kind, page.offset) == (b"<p>Etwas Text.", kind, 0)
        assert page.url == path.as_uri()
    counters: Counters = Counter()
    notes: list[str] = []
    assert pages_of(path, counters, notes, max_page_bytes=5) == []
    assert counters == {"records": 1, "dropped.page_too_large": 1} and "b.html" in notes[0]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a/b.warc.gz", "warc"),
        ("https://h/x.warc.wet.gz?sig=1", "wet"),
        ("dump-pages-articles.xml.bz2", "wikipedia"),
        ("X.HTML", "html"),
        ("rows.jsonl.zst", "jsonl"),
        ("part-0.parquet", "parquet"),
        ("noending", None),
        ("x.bin.gz", None),
    ],
)
def test_the_ending_tells_the_format(name: str, found: str | None) -> None:
    assert format_by_name(name) == found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"WARC/1.0\r\nWARC-Type: warcinfo\r\n\r\n", "warc"),
        (b"WARC/1.0\r\nWARC-Date: x\r\nWARC-Type: conversion\r\n\r\n", "wet"),
        (
            b"WARC/1.0\r\nWARC-Type: warcinfo\r\n\r\n\r\n\r\nWARC/1.0\r\n"
            b"WARC-Type: conversion\r\n\r\n",
            "wet",
        ),
        (b"WARC/1.0\r\n" + b"a: b\r\n" * 600, "warc"),
        (b"<!-- x -->" * 400, "text"),
        (b"PAR1....", "parquet"),
        (b'\xef\xbb\xbf{"text": 1}', "jsonl"),
        (b"\n<!doctype HTML><p>", "html"),
        (b'<?xml version="1.0"?>\n<html xmlns="x">', "html"),
        (b"<mediawiki xmlns=", "wikipedia"),
        ("Nur Text, auch auf Русский.".encode() * 300, "text"),
        (b"\x00\x01\x02\xff\xfe\x00", None),
        (b"", None),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_first_bytes_tell_the_format(
    tmp_path: Path, content: bytes, found: str | None, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(pack(content))
    assert format_by_content(path) == found


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.warc.wat.gz", b"", "a WAT file.*take the .warc or the .wet"),
        ("a.arc.gz", b"", "an ARC file"),
        ("a", b"filedesc://x", "an ARC file"),
        ("a.zip", b"", "a ZIP archive; unpack"),
        ("a.docx", b"", "a Word document"),
        ("a.pdf", b"", "a PDF"),
        ("a", b"PK\x03\x04", "a ZIP archive"),
        ("a.bin", b"\0\1\2", "cannot tell its format.*set `format` to one of jsonl, parquet"),
    ],
)
def test_what_is_not_read_is_called_by_its_name(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{name}.*{what}"):
        shards_of(tmp_path / name)


def test_globs_are_expanded_in_order_and_each_file_taken_once(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c[1].txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder").mkdir()
    found = shards_of(tmp_path / "*.txt", tmp_path / "a.txt", tmp_path / "c[1].txt")
    assert [Path(shard.name).name for shard in found] == ["a.txt", "b.txt", "c[1].txt"]
    for path, problem in ((tmp_path, "is a folder"), (tmp_path / "*.nothing", "no file matches")):
        with pytest.raises(ConfigError, match=problem):
            shards_of(path)


def test_formats_given_by_hand_win(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_bytes(LINES)
    assert len(pages_of(path, format="jsonl")) == 50 and len(pages_of(path)) == 1


def test_real_archives_and_dumps_go_to_their_readers(shared_data: Path) -> None:
    crawl, wiki = shared_data / "crawl", shared_data / "wiki"
    for path, kind in (
        (crawl / "commoncrawl" / "whirlwind.warc.gz", "html"),
        (crawl / "commoncrawl" / "whirlwind.warc.wet.gz", "text"),
        (wiki / "bgwiki-latest-pages-articles-shortened.xml.bz2", "wikitext"),
    ):
        [page] = pages_of(path)
        assert page.content_kind == kind and page.url.startswith("http")


def test_files_are_opened_by_their_bytes_not_their_name(tmp_path: Path) -> None:
    path = tmp_path / "plain.gz"
    path.write_bytes(b"no gzip at all")
    with open_bytes(path) as file:
        assert file.read() == b"no gzip at all"
