"""`babelmill documents` gives what the stages give, in the order of the input."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.config import RunConfig, resolve
from flows.document_inputs import section_of
from flows.document_order import Stream, places
from flows.documents_command import Wanted, run_documents
from pipelines.core.manifest import Output, StageRecord
from pipelines.core.records import Document, documents_to_table, table_to_documents
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.run_stage import STAGES
from tests.flows.document_rows import WORDS, corpus, lines_of, sentence, write_rows
from tests.pipelines.sources.dump_files import FOOT, HEAD, page


def by_the_stages(store: Store, config: RunConfig, paths: list[Path]) -> dict[str, StageRecord]:
    """The records of the stages of a run, each in its own StageRun as the driver does it."""
    section = section_of([str(path) for path in paths])
    config = config.model_copy(update={"sources": [section]})
    names = ["extract", "filter", "deduplicate"]
    names += ["perplexity"] if config.perplexity.enabled else []
    return {
        name: STAGES[name](StageRun(store, "demo", inline=True, quiet=True), config)
        for name in names
    }


def documents_of(store: Store, record: StageRecord, part: str) -> list[Document]:
    return [
        document
        for output in record.outputs_of(part=part)
        for document in table_to_documents(store.read_table(output.path))
    ]


CASES: dict[str, tuple[list[str], str]] = {
    "demo": (["perplexity.enabled=false"], "deduplicate"),
    "derived thresholds": (
        [
            "perplexity.enabled=false",
            'filters=[{kind="language_score", derived=true, min_documents=5, min_score=0.1}]',
        ],
        "deduplicate",
    ),
    "perplexity": (
        [
            "perplexity.enabled=true",
            "perplexity.train_on=all",
            "perplexity.order=2",
            "perplexity.tokens=words",
            "perplexity.min_training_characters=100",
            'perplexity.keep=["head", "middle"]',
        ],
        "perplexity",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_documents_and_rejects_are_those_of_the_stages(
    store: Store, tmp_path: Path, case: str
) -> None:
    settings, last = CASES[case]
    paths = [write_rows(tmp_path / name, corpus(seed)) for seed, name in enumerate("ba")]
    records = by_the_stages(store, resolve("demo", settings=settings), paths)
    out, rejects = tmp_path / "out.jsonl", tmp_path / "rejects.jsonl"
    wanted = Wanted(str(out), rejects=str(rejects))
    stats = run_documents([str(path) for path in paths], wanted, settings=settings)

    expected = {d.id: d for d in documents_of(store, records[last], "unique")}
    found = lines_of(out)
    assert {row["id"]: row["text"] for row in found} == {d.id: d.text for d in expected.values()}
    assert all(row["metadata"] == expected[row["id"]].metadata for row in found)
    # In the order of the input: the files as they were named, their rows as they stand.
    order = [(str(path), row) for path in paths for row in range(60)]
    places = [order.index((row["shard"], row["offset"])) for row in found]
    assert places == sorted(places) and len({row["language"] for row in found}) == 3

    dropped = lines_of(rejects)
    extracted = {d.id for d in documents_of(store, records["extract"], "documents")}
    assert {row["id"] for row in dropped} == extracted - expected.keys()
    assert len(found) + len(dropped) == len(extracted)
    reasons = Counter(row["reason"] for row in dropped)
    counted: Counter[str] = Counter()
    for name in ("filter", "deduplicate", "perplexity"):
        counters = records[name].counters if name in records else {}
        for key, number in counters.items():
            if key.startswith(("rejected.", "dropped.")) and "/" not in key:
                counted[key.partition(".")[2]] += number
    assert reasons == counted and reasons["near_duplicates"] and reasons["duplicate_documents"]
    assert reasons["nothing_new"] if case == "demo" else True
    assert {d.reason: d.number for d in stats.drops if d.reason in reasons} == reasons
    assert stats.languages == Counter(row["language"] for row in found)
    if last == "perplexity":
        assert reasons["perplexity_tail"] and all("perplexity" in row["metadata"] for row in found)
    for note in records[last].notes:
        assert note in stats.notes


def test_pages_of_one_stream_come_in_their_order(tmp_path: Path) -> None:
    """All pages of a plain dump have the offset 0: only the order of reading tells them apart."""
    draw = random.Random(3)
    languages = [draw.choice(sorted(WORDS)) for _ in range(40)]
    pages = [
        page(
            f"Titel {place}", f"{sentence(language, draw)}\n\n{sentence(language, draw)}", number=n
        )
        for place, (language, n) in enumerate(
            zip(languages, draw.sample(range(1, 999), 40), strict=True)
        )
    ]
    path, out = tmp_path / "d.xml", tmp_path / "out.jsonl"
    path.write_text(HEAD + "".join(pages) + FOOT)
    run_documents([str(path)], Wanted(str(out)), settings=["filters=[]"])
    titles = [row["title"] for row in lines_of(out)]
    assert len(titles) > 30 and len({row["language"] for row in lines_of(out)}) == 3
    assert titles == sorted(titles, key=lambda title: int(title.split()[1]))


def test_rows_of_any_part_of_a_file_are_found(store: Store, tmp_path: Path) -> None:
    """Places and streams against a plain list, with row groups that cut the parts anywhere."""
    draw = random.Random(1)
    documents = [
        Document(str(place), f"text {place}", "s", "u", shard, place, language)
        for place, (shard, language) in enumerate(
            (shard, language)
            for shard in "xy"
            for language in ("de", "fr")
            for _ in range(draw.randrange(90, 300))
        )
    ]
    path = tmp_path / "t.parquet"
    pq.write_table(documents_to_table(documents), path, row_group_size=37)
    store.publish_file(path, "t.parquet")
    found = places(store, [Output(path="t.parquet", bytes=0, sha256="", rows=len(documents))])
    assert set(found) == {("x", "de"), ("x", "fr"), ("y", "de"), ("y", "fr")}
    for (shard, language), rows in found.items():
        stream = Stream(store, rows)
        members = [d for d in documents if (d.shard, d.language) == (shard, language)]
        for member in members:
            assert stream.take("another") is None
            row = stream.take(member.id)
            assert row is not None and row.document == member and row.number == int(member.id)
        assert stream.take(members[-1].id) is None


def test_what_differs_from_a_run_is_said(tmp_path: Path) -> None:
    """Perplexity is off unless spoken of; a base run is of another store."""
    rows, out = write_rows(tmp_path / "rows.jsonl", corpus(2)), tmp_path / "out.jsonl"
    wanted = Wanted(str(out), overwrite=True)
    stats = run_documents([str(rows)], wanted)
    assert any(note.startswith("perplexity is off here") for note in stats.notes)
    assert all("perplexity_bucket" not in row["metadata"] for row in lines_of(out))
    mine = tmp_path / "mine.toml"
    mine.write_text('[perplexity]\ntrain_on = "all"\n[deduplication]\nbase_run = "older"\n')
    stats = run_documents([str(rows)], wanted, file=mine)
    assert all("perplexity_bucket" in row["metadata"] for row in lines_of(out))
    assert any("base_run = 'older' is a run of another store" in note for note in stats.notes)
    assert not any("perplexity is off" in note for note in stats.notes)
    stats = run_documents([str(rows)], wanted, settings=["perplexity.enabled=true"])
    assert any('train_on = "wikipedia"' in note for note in stats.notes)


def test_a_preset_gives_its_sections(tmp_path: Path) -> None:
    short = "Der Zug fährt heute später ab, und die Reisenden warten auf dem Bahnsteig und lesen."
    rows, out = write_rows(tmp_path / "rows.jsonl", [*corpus(2), short]), tmp_path / "out.jsonl"
    store = Store(str(tmp_path / "store"))
    settings = ["perplexity.enabled=false"]
    records = by_the_stages(store, resolve("xlmr-base", settings=settings), [rows])
    run_documents([str(rows)], Wanted(str(out)), preset="xlmr-base")
    expected = {d.id for d in documents_of(store, records["deduplicate"], "unique")}
    demo = tmp_path / "demo.jsonl"
    run_documents([str(rows)], Wanted(str(demo)))
    assert {row["id"] for row in lines_of(out)} == expected
    assert {row["id"] for row in lines_of(demo)} != expected


def test_a_limit_stops_the_reading_of_each_input(tmp_path: Path) -> None:
    paths = [write_rows(tmp_path / name, corpus(seed, 40)) for seed, name in enumerate("ab")]
    out = tmp_path / "out.jsonl"
    stats = run_documents([*map(str, paths)], Wanted(str(out), limit=7), settings=["filters=[]"])
    assert stats.counters["documents"] == 14 and stats.counters["pages"] < 40
    assert stats.stopped == [*map(str, paths)]
    assert max(row["offset"] for row in lines_of(out)) < 20
    assert {row["shard"] for row in lines_of(out)} == {*map(str, paths)}
