"""Every real and every broken crawl file of the public data folder."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from pipelines.sources.archives.containers import UnsupportedArchive
from pipelines.sources.archives.warc_records import read_records
from pipelines.sources.warc import read_warc_pages, read_wet_pages
from tests.pipelines.sources.warc_samples import met_and_told, read

LINES = (Path(__file__).parent / "edge_files.txt").read_text().splitlines()
TABLE = [line.split() for line in LINES if not line.startswith("#")]
HEADS = [
    "CC-MAIN-20140820021334-00006-ip-10-180-136-8.ec2.internal.warc",
    "CC-MAIN-20200808165417-20200808195417-00395.head50.warc.gz",
    "CC-MAIN-20200808165417-20200808195417-00395.head50.warc.lz4",
    "whirlwind.warc.gz",
    "jwarc-cc.warc.gz",
]


def test_the_table_names_every_file(shared_data: Path) -> None:
    folder = shared_data / "crawl"
    there = {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "paths" not in path.name and path.suffix != ".md"
    }
    assert there == {row[0] for row in TABLE}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0].rpartition("/")[2])
def test_a_file_gives_what_is_whole_in_it(shared_data: Path, row: list[str]) -> None:
    name, pages, records, notes, *dropped = row
    path = shared_data / "crawl" / name
    reader = read_wet_pages if ".wet" in name else read_warc_pages
    if pages == "-":
        with pytest.raises(UnsupportedArchive, match=path.name):
            read(path, reader, 10**7)
        return
    found = read(path, reader, 10**7)
    expected = {key: int(count) for key, _, count in (item.partition("=") for item in dropped)}
    assert len(found.pages) == int(pages)
    assert found.counters["records"] == int(records)
    assert found.dropped == expected
    assert all(path.name in note for note in found.notes)
    damage = [note for note in found.notes if "no page in it: " not in note]
    assert len(damage) == int(notes)
    met, told = met_and_told(found)
    assert met == told
    kinds = [kind for kind in found.counters if kind.startswith("records.")]
    assert len(found.notes) - len(damage) == (not found.pages and bool(kinds))


@pytest.mark.parametrize("row", [row for row in TABLE if row[1] != "-" and row[3] == "0"])
def test_sound_files_hold_the_records_that_fastwarc_finds(
    shared_data: Path, row: list[str]
) -> None:
    path = shared_data / "crawl" / row[0]
    found: Counter[str] = Counter()
    with path.open("rb") as file:
        try:
            found.update(str(r.record_type) for r in ArchiveIterator(file, parse_http=False))
        except OSError:
            pytest.skip("fastwarc does not read it to its end")
    ours = Counter(record.kind for record in read_records(path, Counter(), [], path.name))
    assert sum(ours.values()) == sum(found.values())


@pytest.mark.parametrize("name", HEADS)
def test_pages_of_real_heads_are_those_that_fastwarc_decodes(shared_data: Path, name: str) -> None:
    path = shared_data / "crawl" / "commoncrawl" / name
    expected = []
    with path.open("rb") as file:
        kinds = WarcRecordType.response
        for record in ArchiveIterator(file, record_types=kinds, auto_decode="none"):
            if record.http_content_type in ("text/html", "application/xhtml+xml"):
                expected.append((record.headers["WARC-Target-URI"], record.reader.read()))
    found = read(path, read_warc_pages, 10**7)
    assert [(page.url, page.content) for page in found.pages] == expected and expected
    assert found.notes == [] and "wrong_digest" not in found.dropped


def test_the_real_texts_are_what_their_digests_say(shared_data: Path) -> None:
    path = shared_data / "crawl" / "commoncrawl" / "whirlwind.warc.wet.gz"
    page = read(path, read_wet_pages, 10**7).pages[0]
    assert page.url == "https://an.wikipedia.org/wiki/Escopete"
    assert page.content.decode("utf-8").startswith("Escopete")
    records = list(read_records(path, Counter(), [], "x"))
    digest = base64.b32encode(hashlib.sha1(page.content).digest()).decode()
    assert records[1].headers["warc-block-digest"] == f"sha1:{digest}"
    assert records[1].headers["warc-identified-content-language"] == "spa"


def test_charsets_of_the_real_head_come_from_its_headers(shared_data: Path) -> None:
    found = read(shared_data / "crawl" / "commoncrawl" / HEADS[1], read_warc_pages, 10**7)
    charsets = {(page.charset or "").lower() for page in found.pages}
    assert {"utf-8", "gb2312", "windows-1251"} <= charsets
