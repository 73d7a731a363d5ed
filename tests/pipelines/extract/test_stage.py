"""Pages to documents, and a mirror from its lists to tables."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.config import DataConfig
from pipelines.core.manifest import Counters, StageRecord, read_json, read_manifests
from pipelines.core.records import Document, Shard, table_to_documents
from pipelines.core.shards import StageFailed, run_step
from pipelines.core.store import Store
from pipelines.extract import stage
from pipelines.extract.documents import Reading, document_id, documents_of
from pipelines.extract.stage import batches, check_listed, extract_step, extract_units
from pipelines.sources import SAMPLE_MIRROR_VARIABLE, SOURCES, list_shards
from pipelines.sources.base import RawPage
from pipelines.sources.fetching.fetch import FetchError
from pipelines.sources.sample_catalogues import read_pages
from pipelines.sources.sample_mirror import mirror_folder, serve

RUSSIAN = "Это предложение написано по-русски и говорит о погоде."
GERMAN = "Dieser Satz ist auf Deutsch geschrieben und handelt vom Wetter."
READING = Reading.of({"extraction": {}, "language_identification": {}, "languages": "all"})


def texts(kind: str, *contents: str) -> list[str]:
    pages = [
        RawPage("", number, content.encode(), kind)  # type: ignore[arg-type]
        for number, content in enumerate(contents)
    ]
    shard = Shard("s", "s", "local_files", "local_files")
    return [document.text for document in documents_of(pages, shard, READING, Counter())]


def test_lines_are_paragraphs_where_no_blank_line_says_otherwise() -> None:
    lines = f"{RUSSIAN}\r\n{GERMAN}\nvier\n"
    parted = f"{RUSSIAN}\n{GERMAN}\n \n\nvier"
    assert texts("text", lines, parted) == [f"{RUSSIAN}\n\n{GERMAN}\n\nvier"] * 2
    assert texts("paragraphs", lines, parted) == [
        f"{RUSSIAN}\n\n{GERMAN}\n\nvier",
        f"{RUSSIAN}\n{GERMAN}\n\nvier",
    ]


def test_a_document_says_where_it_came_from() -> None:
    page = RawPage("http://x.test/a", 7, GERMAN.encode(), "text", date="2026-01-01", title="T")
    shard = Shard("crawl/a.wet.gz", "http://host/a", "commoncrawl", "common_crawl")
    [document] = documents_of([page], shard, READING, Counter())
    assert (document.url, document.offset, document.shard) == ("http://x.test/a", 7, shard.name)
    assert (document.source, document.date, document.title) == ("commoncrawl", "2026-01-01", "T")
    assert document.language == "de" and document.id == document_id(page, shard)


def test_section_titles_of_an_article_are_kept_beside_its_text() -> None:
    wikitext = f"{GERMAN}\n\n== Wetter ==\n{GERMAN} {GERMAN}\n"
    page = RawPage("", 0, wikitext.encode(), "wikitext", metadata={"page_id": "3"})
    shard = Shard("s", "s", "wikipedia", "wikipedia")
    [found] = documents_of([page], shard, READING, Counter())
    assert found.text == f"{GERMAN}\n\n{GERMAN} {GERMAN}"
    assert json.loads(found.metadata["sections"]) == [[1, 2, "Wetter"]]


def test_an_id_does_not_depend_on_how_a_dump_was_cut() -> None:
    def page(number: str) -> RawPage:
        return RawPage("", 500, b"", "wikitext", metadata={"page_id": number})

    def part(name: str) -> Shard:
        return Shard(name, "u", "wikipedia", "wikipedia", options={"file": "a.bz2"})

    whole = Shard("a.bz2", "u", "wikipedia", "wikipedia")
    ids = [document_id(page("1"), shard) for shard in (part("a#0-9"), part("a#400-900"), whole)]
    assert len(set(ids)) == 1
    assert document_id(page("2"), whole) != ids[0]


def test_foreign_paragraphs_that_leave_too_little_are_counted() -> None:
    wanted = Reading.of(
        {
            "extraction": {"min_characters": 1000},
            "language_identification": {"unit": "paragraph"},
            "languages": "all",
        }
    )
    counters: Counters = Counter()
    german = "\n".join([GERMAN] * 10)
    pages = [RawPage("", 0, f"{german}\n{RUSSIAN * 8}".encode(), "text")]
    shard = Shard("s", "s", "local_files", "local_files")
    assert list(documents_of(pages, shard, wanted, counters)) == []
    assert counters["dropped.too_short"] == 1


def document(number: int, language: str, text: str = "x") -> Document:
    return Document(str(number), text, "s", "", "s", number, language)


def test_batches_keep_the_order_of_each_language_and_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage, "ROWS_PER_BATCH", 3)
    monkeypatch.setattr(stage, "BUFFERED_CHARACTERS", 50)
    stream = [document(n, "abc"[n % 3], "x" * (n % 20)) for n in range(200)]
    found = list(batches(iter(stream)))
    assert all(len({member.language for member in batch}) == 1 for batch in found)
    assert max(map(len, found)) == 3
    for language in "abc":
        members = [d.offset for batch in found for d in batch if d.language == language]
        assert members == [d.offset for d in stream if d.language == language]
    assert [[d.id for d in b] for b in batches(iter(stream))] == [[d.id for d in b] for b in found]


def local(paths: list[Path], **settings: object) -> DataConfig:
    source = {"kind": "local_files", "paths": list(map(str, paths)), **settings}
    return DataConfig.model_validate({"run": {"name": "t"}, "sources": [source]})


def extract(config: DataConfig, store: Store) -> StageRecord:
    units = extract_units(config, list_shards(config))
    return run_step(extract_step(config), units, store, "t", inline=True, quiet=True)


def write_rows(path: Path, rows: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in rows))
    return path


def test_half_a_surrogate_pair_does_not_kill_the_shard(store: Store, tmp_path: Path) -> None:
    """Case C37."""
    path = tmp_path / "c37.jsonl"
    path.write_text(
        '{"text":"good"}\n{"text":"bad \\ud83d end"}\n{"text":"pair \\ud83d\\ude0a ok"}\n'
    )
    config = local([path])
    small = config.extraction.model_copy(update={"min_characters": 1})
    record = extract(config.model_copy(update={"extraction": small}), store)
    found = [
        member.text
        for output in record.outputs_of(part="documents")
        for member in table_to_documents(store.read_table(output.path))
    ]
    assert sorted(found) == ["bad \ufffd end", "good", "pair \U0001f60a ok"]
    assert record.counters["replaced.surrogates"] == 1


def test_an_exception_half_way_publishes_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C35: a reader that breaks off after 3 of 10 rows, then a second run."""
    config = local([write_rows(tmp_path / "ten.jsonl", [f"{GERMAN} {n}" for n in range(10)])])
    source = SOURCES["local_files"]
    whole = type(source).read_pages

    def breaks_off(*arguments: object) -> Iterator[RawPage]:
        for number, page in enumerate(whole(source, *arguments)):  # type: ignore[arg-type]
            if number == 3:
                raise OSError("the disk went away")
            yield page

    monkeypatch.setattr(stage, "ROWS_PER_BATCH", 1)
    with monkeypatch.context() as patch:
        patch.setattr(type(source), "read_pages", lambda self, *rest: breaks_off(*rest))
        with pytest.raises(StageFailed, match=r"ten\.jsonl.*the disk went away"):
            extract(config, store)
    assert store.keys("corpus") == []
    record = extract(config, store)
    [output] = record.outputs_of(part="documents")
    assert output.rows == 10 == store.read_table(output.path).num_rows
    assert record.counters["documents/de"] == 10


def test_tables_are_the_same_whatever_waits_in_memory(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{(GERMAN, RUSSIAN)[n % 2]} {n}" for n in range(700)]
    config = local([write_rows(tmp_path / "rows.jsonl", rows)])
    record = extract(config, store)
    monkeypatch.setattr(stage, "BUFFERED_CHARACTERS", 1000)
    other = extract(config, Store(str(tmp_path / "other")))
    assert [o.sha256 for o in record.outputs] == [o.sha256 for o in other.outputs]
    tables = record.outputs_of(part="documents")
    assert sum(output.rows or 0 for output in tables) == 700
    for output in tables:
        with store.open(output.path) as file:
            offsets = pq.read_table(file)["offset"].to_pylist()
        assert offsets == sorted(offsets)


def test_scores_are_kept_as_histograms(store: Store, tmp_path: Path) -> None:
    rows = [f"{(GERMAN, RUSSIAN)[n % 2]} {n}" for n in range(300)]
    record = extract(local([write_rows(tmp_path / "rows.jsonl", rows)]), store)
    [scores] = record.outputs_of(part="scores")
    histogram = read_json(store, scores)
    assert scores.rows is None
    for language in ("de", "ru"):
        documents = record.counters[f"documents/{language}"]
        assert sum(histogram[language].values()) == documents > 100


def test_the_settings_of_a_local_file_are_part_of_its_identity(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [GERMAN])

    def binding(**settings: object) -> object:
        config = local([path], **settings)
        [unit] = extract_units(config, list_shards(config))
        return extract_step(config).binding(unit)

    before = binding()
    assert binding() == before != binding(text_column="body")
    os.utime(path, ns=(1, 1))
    assert binding() != before


def test_a_shard_may_be_some_bytes_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    options = {"start": "2", "end": "6"}
    url = str(tmp_path / "f")
    part = Shard("f#2-6", url, "wikipedia", "wikipedia", 4, "part of sha1:0", options=options)
    with stage.opened(part) as path:
        assert path is not None and path.read_bytes() == b"2345"
    whole = Shard("f", url, "wikipedia", "wikipedia", 10)
    with stage.opened(whole) as path:
        assert path == tmp_path / "f"


def test_a_file_of_nothing_fails_with_what_was_found(store: Store, tmp_path: Path) -> None:
    (tmp_path / "x.warc.gz").write_bytes(gzip.compress(b"<html>an error page</html>"))
    with pytest.raises(StageFailed, match=r"x\.warc\.gz.*no whole record in \d+ bytes"):
        extract(local([tmp_path / "x.warc.gz"]), store)


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
    tables = record.outputs_of(part="documents")
    assert count["documents"] == sum(output.rows or 0 for output in tables)
    texts = {page.url: page.messages for page in read_pages()}
    exact = web = 0
    for output in tables:
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


def test_a_page_that_is_mostly_a_list_is_counted_and_dropped() -> None:
    items = "".join(f"* [[Fluss {number}]], im Norden\n" for number in range(40))
    title = "Liste der Flüsse"
    listed = RawPage("", 0, f"{GERMAN}\n{items}".encode(), "wikitext", title=title)
    told = RawPage("", 0, f"{GERMAN}\n".encode() * 40, "wikitext", title=title)
    shard, count = Shard("s", "s", "wikipedia", "wikipedia"), Counter[str]()
    [found] = documents_of([listed, told], shard, READING, count)
    assert found.text.count(GERMAN) == 40
    assert count == {"pages": 2, "dropped.list_page": 1}
