"""The kept page about the 250,000-piece vocabulary shows the kept figures."""

from __future__ import annotations

import json

from tests.benchmarks.__main__ import FOLDER
from tests.benchmarks.vocabulary_page import page_of
from tests.benchmarks.vocabulary_report import PAGE

FIGURES = FOLDER / "results" / "vocabulary_report.json"


def test_the_page_is_that_of_the_figures() -> None:
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))["figures"]
    text = PAGE.read_text(encoding="utf-8")

    assert text == page_of(figures), "run `python -m tests.benchmarks vocabulary_report` again"
    tables = [line for line in text.split("\n") if line.startswith("|")]
    widths = {line.count("|") for line in tables}
    assert len(tables) > 100 and widths <= {4, 5, 6, 12, 13, 14}


def test_fewer_tokens_than_xlmr_in_every_language_trained_on() -> None:
    """The issue's goal, on held-out text of the domain that it was trained on."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))["figures"]
    languages = figures["text"]["help"]["languages"]

    assert figures["pieces"] == 250_000 and len(languages) >= 30
    assert all(row["ratio"] < 1 for row in languages.values())
