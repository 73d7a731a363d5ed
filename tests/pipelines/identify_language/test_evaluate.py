"""The figures by hand, and the program through the real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.config import LanguageIdentificationSection
from pipelines.identify_language.evaluate import evaluate, language_scores, main, summary
from tests.benchmarks.language import rows_of_lingua

RIGHT = ["de", "de", "de", "nl", "nl", "af"]
GIVEN = ["de", "de", "nl", "nl", "und", "nl"]


def test_macro_f1_by_hand() -> None:
    # de: P 2/2, R 2/3, F1 0.8. nl: P 1/3, R 1/2, F1 0.4. af: never given, F1 0. und: no class.
    figures = summary(RIGHT, GIVEN)
    assert figures["accuracy"] == pytest.approx(3 / 6)
    assert figures["macro_f1"] == pytest.approx((0.8 + 0.4 + 0) / 3)
    assert figures["languages"] == 3 and figures["texts"] == 6
    assert figures["confusions"] == [["af", "nl", 1], ["de", "nl", 1], ["nl", "und", 1]]


def test_known_languages_are_counted_by_themselves() -> None:
    # Without the Afrikaans text nl has P 1/2, R 1/2.
    figures = summary(RIGHT, GIVEN, {"de", "nl"})
    assert figures["texts"] == 5 and figures["macro_f1"] == pytest.approx((0.8 + 0.5) / 2)
    assert summary(RIGHT, GIVEN, {"xx"})["accuracy"] is None


def test_scores_of_each_language() -> None:
    scores = language_scores(RIGHT, GIVEN)
    assert scores["de"] == {
        "texts": 3,
        "accuracy": pytest.approx(2 / 3),
        "f1": pytest.approx(0.8),
    }
    assert scores["af"]["f1"] == 0 and language_scores([], []) == {}


def test_labels_of_any_form_meet_the_models_tags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        ("deu_Latn", "Die Universität liegt mitten in der Stadt am Fluss."),
        ("zho_Hans", "这是一个用简体字写的句子，我们来看看它说什么。"),
        ("el", "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι."),
        ("xho_Latn", "Bonke abantu bazalwa bekhululekile belingana ngesidima."),
    ]
    config = LanguageIdentificationSection()
    figures = evaluate(rows, config)
    assert figures["known"]["accuracy"] == 1 and figures["known"]["languages"] == 3
    assert figures["all"]["accuracy"] == 0.75 and not figures["by_language"]["xh"]["known"]
    assert figures == evaluate(iter(rows * 1), config)
    file = tmp_path / "rows.tsv"
    file.write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    assert main([str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == figures


def test_a_line_without_a_tab_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.tsv"
    file.write_text("de\tGut.\nhalt\n", encoding="utf-8")
    assert main([str(file)]) == 2
    assert f"error: {file}, line 2: want a label, a tab" in capsys.readouterr().err
    assert main([str(file), "--model-file", "x"]) == 2
    assert "needs path and sha256" in capsys.readouterr().err


def test_sentences_of_lingua_are_told_as_measured(shared_data: Path) -> None:
    """Every twentieth sentence; the whole set is a benchmark."""
    rows = rows_of_lingua(shared_data)["lingua sentences"]
    assert len(rows) > 52_000 and len({label for label, _ in rows}) == 53
    figures = evaluate(rows[::20], LanguageIdentificationSection())
    assert figures["known"]["accuracy"] > 0.87 and figures["known"]["macro_f1"] > 0.85
    assert figures["all"]["accuracy"] < figures["known"]["accuracy"]
