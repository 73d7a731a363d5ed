"""The balance table and the stage that writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines.config import BalanceSection, DataConfig
from pipelines.core.config import ConfigError
from pipelines.core.manifest import StageRecord, read_json
from pipelines.core.shards import run_step
from pipelines.core.store import Store
from pipelines.rebalance import balance_step, balance_table, balance_units, sizes_by_language

SENTENCES = {"en": 1_000_000, "sw": 10_000, "yo": 100, "xh": 7}
SIZES = {
    tag: {"documents": n // 5, "sentences": n, "characters": 50 * n, "bytes": 60 * n}
    for tag, n in SENTENCES.items()
}
UNCAPPED = 1e9


def table(sizes: Any = SIZES, **settings: Any) -> dict[str, Any]:
    found = balance_table(BalanceSection(**{"max_repeats": UNCAPPED, **settings}), sizes)
    assert json.loads(json.dumps(found)) == found
    return found


def q_of(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["language"]: row["q"] for row in rows}


def by_formula(alpha: float, sizes: dict[str, int]) -> dict[str, float]:
    whole = sum(n**alpha for n in sizes.values())
    return {tag: n**alpha / whole for tag, n in sizes.items()}


IN_MIX = {tag: n for tag, n in SENTENCES.items() if n >= 20}


def test_without_phases_there_is_one_from_begin_to_end() -> None:
    found = table()
    assert q_of(found["rows"]) == pytest.approx(by_formula(0.3, IN_MIX))
    [phase] = found["phases"]
    assert (phase["until"], phase["alpha"]) == (1.0, 0.3)
    assert q_of(phase["rows"]) == q_of(found["rows"]) == q_of(found["vocabulary"]["rows"])
    assert found["rows"][1] == {
        "language": "sw",
        "p": pytest.approx(10_000 / 1_010_100),
        "q": phase["rows"][1]["q"],
        "repeats": pytest.approx(phase["rows"][1]["q"] * 1_010_100 / 10_000),
        "capped": False,
        "weighted": False,
        **SIZES["sw"],
    }


def test_phases_have_their_own_shares_and_the_rows_their_mean_by_length() -> None:
    phases = [
        {"until": 0.5, "alpha": 0.7},
        {"until": 0.8, "alpha": 0.5},
        {"until": 1.0, "alpha": 0.3},
    ]
    found = table(phases=phases, vocabulary_alpha=0.0)
    assert [phase["until"] for phase in found["phases"]] == [0.5, 0.8, 1.0]
    for phase in found["phases"]:
        assert q_of(phase["rows"]) == pytest.approx(by_formula(phase["alpha"], IN_MIX))
    wanted = {
        tag: 0.5 * by_formula(0.7, IN_MIX)[tag]
        + 0.3 * by_formula(0.5, IN_MIX)[tag]
        + 0.2 * by_formula(0.3, IN_MIX)[tag]
        for tag in IN_MIX
    }
    assert q_of(found["rows"]) == pytest.approx(wanted)
    assert q_of(found["vocabulary"]["rows"]) == pytest.approx(dict.fromkeys(IN_MIX, 1 / 3))


def test_a_language_that_one_phase_caps_is_marked() -> None:
    phases = [{"until": 0.5, "alpha": 1.0}, {"until": 1.0, "alpha": 0.3}]
    found = table(phases=phases, max_repeats=8)
    rows = {row["language"]: row for row in found["rows"]}
    assert [row["capped"] for row in found["phases"][0]["rows"]] == [False, False, False]
    assert rows["yo"]["capped"] and not rows["en"]["capped"]
    assert rows["yo"]["repeats"] == pytest.approx((1 + 8) / 2)


@pytest.mark.parametrize("unit", ["documents", "sentences", "characters", "bytes"])
def test_the_unit_is_what_p_counts(unit: str) -> None:
    sizes = {
        "en": {"documents": 1, "sentences": 60, "characters": 700, "bytes": 800},
        "sw": {"documents": 3, "sentences": 40, "characters": 300, "bytes": 200},
    }
    found = table(sizes, unit=unit)
    assert found["unit"] == unit
    p = {row["language"]: row["p"] for row in found["rows"]}
    whole = sum(size[unit] for size in sizes.values())
    assert p == pytest.approx({tag: size[unit] / whole for tag, size in sizes.items()})


def test_languages_left_out_are_named_with_their_sizes_and_why() -> None:
    sizes = {**SIZES, "zu": dict.fromkeys(SIZES["en"], 0)}
    assert table(sizes)["excluded"] == [
        {"language": "xh", **SIZES["xh"], "reason": "fewer than balance.min_sentences = 20"},
        {"language": "zu", **sizes["zu"], "reason": "no text in the deduplicated corpus"},
    ]
    with pytest.raises(ConfigError, match="min_sentences = 2000000: no language .* 1000000"):
        table(min_sentences=2_000_000)


def test_weights_hold_in_every_phase_and_in_the_vocabulary() -> None:
    phases = [{"until": 0.5, "alpha": 1.0}, {"until": 1.0, "alpha": 0.3}]
    found = table(phases=phases, weights={"yo": 0.01})
    for rows in (found["rows"], found["vocabulary"]["rows"], *(p["rows"] for p in found["phases"])):
        assert q_of(rows)["yo"] == pytest.approx(0.01)
    assert [row["weighted"] for row in found["rows"]] == [False, False, True]


def test_weights_are_checked_against_the_languages_of_the_mix() -> None:
    with pytest.raises(ConfigError, match=r"balance\.weights: 'yot' has no text; .* 'yo'"):
        table(weights={"yot": 0.01})
    with pytest.raises(ConfigError, match=r"balance\.weights names xh, .* left out: fewer"):
        table(weights={"xh": 0.01})
    assert BalanceSection(weights={"swh": 0.1}).weights == {"sw": 0.1}
    with pytest.raises(ValueError, match="name a language twice"):
        BalanceSection(weights={"swh": 0.1, "sw": 0.1})


def test_sizes_come_from_the_counters_of_a_stage() -> None:
    counters = {"documents/sw": 2, "sentences/sw": 5, "bytes/en": 9, "dropped.x/sw": 8, "bytes": 1}
    assert sizes_by_language(counters) == {
        "sw": {"documents": 2, "sentences": 5, "characters": 0, "bytes": 0},
        "en": {"documents": 0, "sentences": 0, "characters": 0, "bytes": 9},
    }


def run_stage(store: Store, **balance: Any) -> StageRecord:
    config = DataConfig.model_validate(
        {
            "run": {"name": "r", "languages": ["en", "sw", "yo", "xh", "zu"]},
            "sources": [{"kind": "local_files", "paths": ["x.jsonl"]}],
            "balance": balance,
        }
    )
    counters = {f"{m}/{tag}": n for tag, size in SIZES.items() for m, n in size.items()}
    step = balance_step(config, counters)
    return run_step(step, balance_units([]), store, "r", inline=True, quiet=True)


def test_the_stage_writes_the_table_and_says_who_is_left_out_or_capped(store: Store) -> None:
    record = run_stage(store)
    [output] = record.outputs_of(part="balance")
    assert read_json(store, output) == table(
        {**SIZES, "zu": dict.fromkeys(SIZES["en"], 0)}, max_repeats=8
    )
    assert record.counters == {
        "languages": 3,
        "excluded": 2,
        "excluded_documents": 1,
        "excluded_sentences": 7,
        "excluded_characters": 350,
        "excluded_bytes": 420,
    }
    assert any("min_sentences = 20 " in note and "xh (7)" in note for note in record.notes)
    assert any("no text" in note and "zu (0)" in note for note in record.notes)
    assert any(note.startswith("training until 1, alpha = 0.3: held at 8") for note in record.notes)
    assert run_stage(store).reused == 1


def test_weights_that_do_not_fit_stop_the_stage_before_it_begins(store: Store) -> None:
    with pytest.raises(ConfigError, match="'zz' has no text"):
        run_stage(store, weights={"zz": 0.1})
