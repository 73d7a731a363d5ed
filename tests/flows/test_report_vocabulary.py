"""What the report of a run says of its vocabulary, and of a mix that changes."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flows.report.html import page
from flows.report.read import read_run
from flows.report.tables import VocabularyReport
from flows.report.totals import verdict
from pipelines.core.held_out import is_held_out
from pipelines.core.run_file import config_key
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary
from pipelines.train_vocabulary.report import vocabulary_report
from tests.flows.report_runs import VOCABULARY, balance_table, build_run, printed, stage
from tests.pipelines.train_vocabulary.corpus import ALPHABETS, RUN, config, run, texts_of
from tests.pipelines.train_vocabulary.known_models import model_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    finished = Store(str(tmp_path_factory.mktemp("store")))
    build_run(finished, ("extract", "vocabulary"))
    return finished


def tree_of(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_the_page_tells_what_the_vocabulary_makes_of_held_out_text(store: Store) -> None:
    view = read_run(store, "r")
    tree = tree_of(page(view))
    section = next(node for node in tree.iter("section") if node.findtext("h2") == "Vocabulary")
    lead = " ".join(node.text or "" for node in section.iter("p"))
    rows = [[cell.text for cell in row.iter("td")] for row in section.iter("tr")]

    assert "trained on 41,000 of 42,500 distinct words, their counts weighed by q" in lead
    assert "1.43 tokens per word, 0.250 per character, 0.0497 % of the tokens unknown" in lead
    assert "0.846 times as many over all text, 0.829 as the mean" in lead
    assert ["en", "2,000", "160,000", "28,000", "40,000", "1.43", "0.250", "0.0500 %", "25"] in rows
    assert ["th", "80", "6,400", "–", "1,600", "–", "0.250", "0.0 %", "1"] in rows, "no words"
    assert ["sw", "240", "300", "0.800", "0", "0"] in rows
    assert ["Cyrillic", "3,000", "25.0 %", "1,000", "33.3 %"] in rows
    assert ["U+16A0", "ᚠ", "17"] in rows
    assert ["letters of several scripts", "<b>ж"] in rows
    assert "which are 99.996 % of the text" in "".join(section.itertext())


def test_fertility_is_told_in_the_terminal_and_the_verdict(store: Store) -> None:
    said = " ".join(verdict(read_run(store, "r")))

    assert "0.250 tokens per character and 1.43 per word, 0.0497 % of them unknown" in said
    assert "0.846 times as many as the vocabulary compared with" in said
    shown = printed(store, 80)
    assert "1.43 tokens per word, 0.250 per character, 0.0497 % unknown" in shown
    assert "0.846 times the tokens of compare_with; fewer in 8 of 9" in shown


def test_a_vocabulary_report_without_a_comparison_names_none(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    totals = {**VOCABULARY["totals"], "compared": None, "ratio": None, "tokens_per_word": None}
    languages = {"th": {**VOCABULARY["languages"]["th"], "compared": None, "ratio": None}}
    drawn = {**VOCABULARY["training"], "train_on": "lines", "sample_characters": 7_654_321}
    alone = {**VOCABULARY, "totals": totals, "languages": languages, "coverage": None,
             "training": drawn}  # fmt: skip
    stage(store, "vocabulary", ({"part": "report"}, alone))
    view = read_run(store, "r")
    text = "".join(tree_of(page(view)).itertext())

    assert "compared vocabulary" not in text and "times as many" not in text
    assert "trained on 7,654,321 characters of lines drawn by q" in text
    assert "0.250 tokens per character, 0.0497 % of them unknown." in " ".join(verdict(view))
    assert "- tokens per word" in printed(store, 80)


def test_the_vocabulary_stage_s_own_report_reads_as_the_page_s_table() -> None:
    pieces = ("▁hello", "▁world", *"helowrd", "▁", "ж")
    vocabulary = Vocabulary(model_of(pieces))
    written = vocabulary_report(
        vocabulary,
        [("en", "hello world Z"), ("ja", "日本")],
        {"en": Counter(map(ord, "hello Z"))},
        Vocabulary(model_of(("▁", *"helo"))),
    )
    read = VocabularyReport.model_validate_json(json.dumps(written))

    def kept(there: Any, here: Any) -> None:
        """Every number that the report shows is the one that was written."""
        if isinstance(here, dict):
            for name, value in here.items():
                if value is not None:
                    kept(there[name if name in there else str(name)], value)
        elif isinstance(here, list):
            for one, other in zip(there, here, strict=True):
                kept(one, other)
        else:
            assert there == here

    shown = json.loads(read.model_dump_json())
    kept(written, shown)
    assert shown["languages"]["en"]["compared"]["unknown_characters"] == 4  # w r d and Z
    assert shown["totals"]["ratio"] == written["totals"]["ratio"] is not None
    assert shown["pieces_by"]["script"][0] == {
        "script": "Latn", "name": "Latin", "pieces": 9, "share": 0.818182, "used": 2
    }  # fmt: skip
    assert shown["coverage"]["missing"][0]["character"] == "U+005A"


def test_phases_have_a_picture_only_where_there_are_several(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    pictures = []
    for phases in ([], [{"until": 0.6, "alpha": 0.7}, {"until": 1.0, "alpha": 0.3}]):
        stage(store, "balance", ({"part": "balance"}, balance_table(phases=phases)))
        pictures.append("Share of each language in each phase" in page(read_run(store, "r")))

    assert pictures == [False, True]


def test_what_the_stage_writes_is_what_the_page_shows(tmp_path: Path) -> None:
    store, other = Store(str(tmp_path / "store")), tmp_path / "other.model"
    other.write_bytes(model_of(("▁", *ALPHABETS["en"], *ALPHABETS["th"])))
    texts = {"en": texts_of("en", 60), "th": texts_of("th", 60)}
    settings = config(size=200, compare_with=str(other), packing__held_out_share=0.1)
    run(store, settings, texts)
    store.publish_bytes(config_key(RUN), f"[run]\nname = '{RUN}'\n".encode())
    view = read_run(store, RUN)

    assert view.vocabulary is not None and view.vocabulary.totals is not None
    for tag, row in view.vocabulary.languages.items():
        held_out = [n for n in range(60) if is_held_out(f"{tag}-{n}", 0.1, settings.run.seed)]
        assert row.lines == 3 * len(held_out) > 0
    assert view.vocabulary.totals.ratio is not None and view.vocabulary.totals.ratio < 1
    text = "".join(tree_of(page(view)).itertext())
    assert "200 pieces (202 rows with special tokens). Kind unigram, normalisation nmt_nfkc" in text
    assert "and fewer in 2 of them" in text
