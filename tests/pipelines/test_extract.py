"""Bytes to documents, and a mirror from its lists to tables."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.config import DataConfig, ExtractionSection
from pipelines.core.manifest import Counters, StageRecord, read_manifests
from pipelines.core.records import Shard, table_to_documents
from pipelines.core.shards import run_step
from pipelines.core.store import Store
from pipelines.extract import (
    charset_of,
    check_listed,
    clean,
    extract_step,
    extract_text,
    extract_units,
)
from pipelines.sources import SAMPLE_MIRROR_VARIABLE, list_shards
from pipelines.sources.base import RawPage
from pipelines.sources.fetch import FetchError
from pipelines.sources.sample_catalogues import read_pages
from pipelines.sources.sample_mirror import mirror_folder, serve

SHORT = ExtractionSection(min_characters=5)
RUSSIAN = "Это предложение написано по-русски и говорит о погоде."


@pytest.mark.parametrize(
    ("content", "declared", "charset"),
    [
        (b"\xef\xbb\xbf<p>x", "koi8-r", "utf-8"),
        (b'<meta charset="big5">x', "KOI8-R", "koi8-r"),
        (b'<meta charset="shift_jis">x', None, "shift_jis"),
        (b'<meta charset="shift_jis">x', "no-such-charset", "shift_jis"),
        (b'<META http-equiv=Content-Type content="text/html; charset=euc-kr">', None, "euc-kr"),
        (RUSSIAN.encode("cp1251"), None, "windows-1251"),
        (RUSSIAN.encode(), "bogus", "utf-8"),
    ],
)
def test_charset_comes_from_mark_header_page_detector(
    content: bytes, declared: str | None, charset: str
) -> None:
    assert codecs.lookup(charset_of(content, declared)).name == codecs.lookup(charset).name


def extract(content: bytes, kind: str = "html", config: ExtractionSection = SHORT) -> str | None:
    page = RawPage("http://x.test", 0, content, kind)  # type: ignore[arg-type]
    return extract_text(page, config, Counter())


def test_main_content_is_kept_in_paragraphs_and_navigation_left_out() -> None:
    page = (
        "<html><head><title>Titel</title></head><body><nav><ul><li><a href=/>Home</a></ul></nav>"
        f"<main><p>{RUSSIAN}</p><p>Zwei\u200dmal &amp; mehr Text in diesem Absatz.</p></main>"
        "<footer>Impressum</footer></body></html>"
    )
    right = f"{RUSSIAN}\n\nZwei\u200dmal & mehr Text in diesem Absatz."
    assert extract(page.encode()) == right


def test_each_line_of_a_wet_text_is_a_paragraph() -> None:
    text = "eins zwei\n\ndrei ÄÖ\r\nvier"
    assert extract(text.encode(), "text") == "eins zwei\n\ndrei ÄÖ\n\nvier"


def test_half_a_surrogate_pair_is_replaced_and_counted() -> None:
    counters: Counters = Counter()
    page = RawPage("http://x.test", 0, b"bad \xed\xa0\xbd end", "text")
    assert extract_text(page, SHORT, counters) is not None
    assert clean("bad \ud83d end", counters) == "bad \ufffd end"
    assert counters["replaced.surrogates"] == 1
    assert clean("pair \U0001f60a ok", counters) == "pair \U0001f60a ok"


def test_little_text_is_counted_by_reason() -> None:
    counters: Counters = Counter()
    for content in (b"", b"<p>x</p>"):
        page = RawPage("http://x.test", 0, content, "html")
        assert extract_text(page, SHORT, counters) is None
    assert counters == {"dropped.no_text": 1, "dropped.too_short": 1}


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(mirror_folder(tmp_path_factory.mktemp("mirror"))) as address:
        yield address


def config(languages: object = "all") -> DataConfig:
    tree = {
        "run": {"name": "t", "languages": languages},
        "sources": [
            {"kind": "common_crawl", "snapshot": "CC-MAIN-2026-44", "max_shards": 1},
            {
                "kind": "common_crawl",
                "snapshot": "CC-MAIN-2026-40",
                "format": "wet",
                "max_shards": 1,
            },
            {"kind": "wikipedia", "wikis": ["fi", "sw"], "date": "20261101"},
        ],
    }
    for source in tree["sources"]:  # type: ignore[attr-defined]
        source["server"] = "sample-mirror"
    return DataConfig.model_validate(tree)


def test_a_mirror_goes_from_lists_to_tables_and_every_page_is_accounted_for(
    mirror: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SAMPLE_MIRROR_VARIABLE, mirror)
    shards = list_shards(config())
    assert len(shards) == 4 and all("127.0.0.1" not in shard.name for shard in shards)
    assert all(shard.size and shard.etag for shard in shards)
    record = run_step(
        extract_step(config()),
        extract_units(config(), shards),
        store,
        "t",
        inline=True,
        quiet=True,
    )
    count = record.counters
    dropped = sum(n for name, n in count.items() if name.startswith("dropped."))
    assert count["pages"] == count["documents"] + dropped
    assert (
        count["records.response"] + count["records.conversion"] + _wiki_pages(store, record)
        == count["pages"]
    )
    assert count["documents"] == sum(output.rows or 0 for output in record.outputs)
    texts = {page.url: page.messages for page in read_pages()}
    exact = web = 0
    for output in record.outputs:
        documents = table_to_documents(store.read_table(output.path))
        tag = output.labels["language"]
        assert {document.language for document in documents} == {tag}
        assert [d.offset for d in documents] == sorted(d.offset for d in documents)
        assert not any(
            "{{" in d.text or "[[" in d.text for d in documents if d.source == "wikipedia"
        )
        for document in documents:
            if document.url in texts:
                web += 1
                exact += document.text == "\n\n".join(texts[document.url])
    # Charsets, gzip bodies, navigation: the text that went in comes out.
    assert exact / web > 0.97
    again = run_step(
        extract_step(config()),
        extract_units(config(), shards),
        store,
        "t",
        inline=True,
        quiet=True,
    )
    assert again.reused == 4 and again.outputs == record.outputs


def _wiki_pages(store: Store, record: StageRecord) -> int:
    return sum(
        manifest.counters.get("records", 0)
        for manifest in read_manifests(store, record)
        if "wiki/" in manifest.binding.key
    )


def test_other_languages_are_counted_and_unknown_ones_kept(
    mirror: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SAMPLE_MIRROR_VARIABLE, mirror)
    only = config(["fi", "ru"])
    units = extract_units(only, list_shards(only))
    count = run_step(extract_step(only), units, store, "t", inline=True, quiet=True).counters
    tags = {name.split("/")[1] for name in count if name.startswith("documents/")}
    assert tags == {"fi", "ru", "und"} and count["dropped.language"] > 100


@pytest.mark.parametrize(
    ("size", "etag", "reason"),
    [(4, None, "3 bytes now"), (3, "sha1:" + "0" * 40, "SHA-1 a9993e36")],
)
def test_a_file_that_is_not_the_listed_one_is_refused(
    tmp_path: Path, size: int, etag: str | None, reason: str
) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    with pytest.raises(FetchError, match=f"http://x/a.*{reason}"):
        check_listed(tmp_path / "f", Shard("a", "http://x/a", "s", "wikipedia", size, etag))
    right = "sha1:a9993e364706816aba3e25717850c26c9cd0d89d"
    check_listed(tmp_path / "f", Shard("a", "http://x/a", "s", "wikipedia", 3, right))


def test_the_address_is_no_part_of_a_unit(tmp_path: Path) -> None:
    one, other = (
        extract_units(config(), [Shard("a/b", f"http://{host}/a/b", "s", "common_crawl", 5, "e")])
        for host in ("x", "y")
    )
    assert extract_step(config()).binding(one[0]) == extract_step(config()).binding(other[0])
