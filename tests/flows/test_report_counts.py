"""What the report adds up: what was dropped, tokens, and the time of all steps of a stage."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from flows.report.dropped import dropped
from flows.report.html import page
from flows.report.read import RunView, read_run
from flows.report.totals import verdict
from pipelines.core.store import Store
from tests.flows.report_runs import (
    SENTENCES,
    VOCABULARY,
    balance_table,
    build_run,
    printed,
    stage,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    finished = Store(str(tmp_path_factory.mktemp("store")))
    build_run(finished)
    return finished


def text_of(view: RunView) -> str:
    tree = ElementTree.fromstring(page(view).removeprefix("<!DOCTYPE html>\n"))
    return "".join(tree.itertext())


def test_everything_dropped_is_listed_once_with_its_unit(store: Store) -> None:
    rows = dropped(read_run(store, "r"))

    assert [(row.stage, row.reason, row.count, row.unit) for row in rows] == [
        ("extract", "bytes_lost", 812, "bytes"),
        ("extract", "too_short", 5000, "documents"),
        ("extract", "not_text", 31, "documents"),
        ("filter", "length", 4000, "documents"),
        ("filter", "script", 90, "documents"),
        ("deduplicate", "nothing_new", 5500, "characters"),
        ("deduplicate", "duplicate_documents", 800, "documents"),
    ]
    shown = text_of(read_run(store, "r"))
    assert re.search(r"deduplicate\s*nothing new\s*characters\s*5,500", shown)


def test_units_of_what_was_dropped_and_nothing_of_what_was_not(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ())
    stage(store, "extract", counters={"dropped.truncated_file": 1, "dropped.bad_row": 2,
                                      "dropped_paragraphs.language": 3, "lost.damaged_stream": 4,
                                      "bytes_skipped": 0,
                                      "dropped_paragraphs.language/sw": 3})  # fmt: skip
    stage(store, "balance", ({"part": "balance"}, balance_table()),
          counters={"excluded": 5, "excluded_documents": 6})  # fmt: skip
    stage(store, "vocabulary", ({"part": "report"}, VOCABULARY),
          counters={"dropped.words_above_max_words": 0, "dropped.words_not_drawn": 688,
                    "dropped.characters/sw": 7, "dropped.characters/fi": 8})  # fmt: skip
    stage(store, "pack", counters={"dropped.lone_tokens/fi": 9, "dropped.lone_tokens/sw": 1,
                                   "held_out_dropped.lone_tokens/fi": 2, "empty_documents": 0,
                                   "held_out_empty_documents": 3, "tokens/fi": 100})  # fmt: skip
    stage(store, "finetune", counters={"dropped.rare_label:admin-docs": 11, "cut": 12})
    rows = dropped(read_run(store, "r"))

    found = {(row.stage, row.reason): (row.count, row.unit) for row in rows}
    assert len(found) == len(rows)
    assert found == {
        ("extract", "truncated_file"): (1, "files"),
        ("extract", "bad_row"): (2, "documents"),
        ("extract", "language"): (3, "paragraphs"),
        ("extract", "lost.damaged_stream"): (4, "streams"),
        ("balance", "excluded"): (5, "languages"),
        ("balance", "excluded_documents"): (6, "documents"),
        ("vocabulary", "words_not_drawn"): (688, "words"),
        ("vocabulary", "characters"): (15, "characters"),
        ("pack", "lone_tokens"): (10, "tokens"),
        ("pack", "lone_tokens (held out)"): (2, "tokens"),
        ("pack", "empty_documents (held out)"): (3, "documents"),
        ("finetune", "rare_label:admin-docs"): (11, "examples"),
        ("finetune", "cut"): (12, "examples"),
    }
    assert {(row.stage, row.reason) for row in rows if row.counts_records} == {
        ("extract", "bad_row"),
        ("finetune", "rare_label:admin-docs"),
    }, "what the picture shows"


def test_tokens_of_the_text_and_tokens_in_rows_are_told_apart(store: Store) -> None:
    whole = sum(SENTENCES.values())
    text = printed(store, 80)
    assert f"{whole * 20:,} text tokens in " in text
    assert f"{whole * 24:,} tokens in rows, special ones too; fill 96.0 %" in text

    shown = text_of(read_run(store, "r"))
    columns = r"text tokens\s*sequences\s*tokens in rows\s*fill\s*held-out text tokens"
    assert re.search(columns, shown)
    rows = rf"all languages\s*{whole * 20:,}\s*[\d,]+?\s*{whole * 24:,}\s*96.0 %\s*{whole:,}"
    assert re.search(rows, shown)
    assert f"{whole * 20:,} text tokens are packed" in " ".join(verdict(read_run(store, "r")))


def test_work_of_a_stage_is_that_of_all_its_steps(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ())
    words = stage(store, "vocabulary-words", ({"part": "words"}, 1))
    plan = stage(store, "vocabulary-plan", ({"part": "plan"}, 2), reads=(words.outputs[0].ref,))
    other = stage(store, "vocabulary-sample", ({"part": "sample"}, 3))
    last = stage(store, "vocabulary", ({"part": "report"}, VOCABULARY),
                 reads=(plan.outputs[0].ref,))  # fmt: skip
    for record, seconds in ((words, 4.0), (plan, 20.0), (last, 100.0), (other, 3000.0)):
        [key] = record.manifests
        manifest = json.loads(store.read_bytes(key))
        store.publish_bytes(key, json.dumps({**manifest, "seconds": seconds}).encode())

    stages = {stage.name: stage for stage in read_run(store, "r").stages}
    assert stages["vocabulary"].work_seconds == 124.0

    store.delete(plan.manifests[0])
    stages = {stage.name: stage for stage in read_run(store, "r").stages}
    assert stages["vocabulary"].work_seconds == 100.0
