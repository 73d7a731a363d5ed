"""The balance table in the report, with all that the stage can write into it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from matplotlib.text import Text

from flows.report import plots
from flows.report.html import page
from flows.report.read import read_run
from flows.report.tables import Balance
from pipelines.core.store import Store
from tests.flows.report_runs import balance_table, build_run, printed, stage


def test_phases_weights_and_the_vocabularys_share_are_told(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    phases = [{"until": 0.6, "alpha": 0.7}, {"until": 1.0, "alpha": 0.3}]
    table = balance_table(phases=phases, vocabulary_alpha=0.5, weights={"sw": 0.002})
    stage(store, "balance", ({"part": "balance"}, table))
    view = read_run(store, "r")

    assert view.balance is not None and view.balance.alphas == "0.7, then 0.3"
    text = page(view)
    assert "with alpha = 0.7, then 0.3 the largest, en" in text
    assert "q until 0.6 (alpha = 0.7)" in text and "q of the vocabulary (alpha = 0.5)" in text
    de, sw = (next(r for r in table["rows"] if r["language"] == tag) for tag in ("de", "sw"))
    p = {row["language"]: row["p"] for row in table["rows"]}
    whole = sum(share**0.7 for tag, share in p.items() if tag != "sw")
    early = 0.998 * p["de"] ** 0.7 / whole
    assert view.balance.phases[0].of("de") == pytest.approx(early)
    assert de["q"] == pytest.approx(
        0.6 * early
        + 0.4 * next(r["q"] for r in table["phases"][1]["rows"] if r["language"] == "de")
    )
    assert sw["weighted"] and sw["q"] == pytest.approx(0.002)
    assert "set by balance.weights: sw" in printed(store, 80)


def test_a_cap_that_holds_in_some_phase_is_not_told_as_one_that_holds_always(
    tmp_path: Path,
) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    phases = [{"until": 0.5, "alpha": 1.0}, {"until": 1.0, "alpha": 0.3}]
    table = balance_table(phases=phases)
    stage(store, "balance", ({"part": "balance"}, table))
    sw = next(row for row in table["rows"] if row["language"] == "sw")
    assert sw["capped"] and sw["repeats"] == pytest.approx((1 + 8) / 2), "1 in the first phase"

    words = "held at balance.max_repeats = 8 in at least one phase; the mean is shown"
    assert words in printed(store, 80)
    assert "sw" in printed(store, 80) and "4.50*" in printed(store, 80)
    view = read_run(store, "r")
    assert view.balance is not None
    assert "q and repeats are means over the phases of training." in page(view)
    assert "<th scope='col'>held at the cap in at least one phase</th>" in page(view)
    labels = " ".join(_texts(view.balance))
    assert "cap: 8 (hatched: held at it in at least one phase)" in labels
    assert "mean over phases" in labels


def test_with_one_alpha_the_cap_holds_as_it_says(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract", "balance"))
    view = read_run(store, "r")
    assert view.balance is not None

    assert " * held at balance.max_repeats = 8\n" in re.sub(r" +\n", "\n", printed(store, 80))
    assert "phase" not in " ".join(_texts(view.balance))
    assert "The cap of 8 repeats holds back 4 of them;" in page(view)


def _texts(balance: Balance) -> list[str]:
    """All words of the picture of shares."""
    found = plots._shares(balance, 40).findobj(Text)
    return [text.get_text() for text in found if isinstance(text, Text)]


def test_many_languages_left_out_are_counted_in_the_terminal_and_named_on_the_page(
    tmp_path: Path,
) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    table = balance_table()
    reason = table["excluded"][0]["reason"]
    names = [f"l{i:02}" for i in range(60)]
    table["excluded"] = [{"language": n, "sentences": 3, "reason": reason} for n in names]
    stage(store, "balance", ({"part": "balance"}, table))

    text = " ".join(printed(store, 80).split())
    assert "too little text (60; sentences): l00 (3), l01 (3)" in text
    assert "l39 (3) and 20 more, in the report" in text and "l40" not in text
    whole = page(read_run(store, "r"))
    assert all(name in whole for name in names)
