from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from flows.config import resolve
from flows.filters_command import dry_run, run_config, sampled, show_filters
from pipelines.core.config import ConfigError
from pipelines.core.manifest import read_manifests, read_stage
from pipelines.core.records import documents_to_table
from pipelines.core.run_file import config_key
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store, local_file
from pipelines.identify_language.thresholds import score_histogram
from tests.pipelines.filters.pages import document

GOOD = "A long and good sentence stands in the middle of this page, and nobody drops it at all."
FILTERS = [{"kind": "length", "min_characters": 60}, {"kind": "letters"}]


def lay_out(unit: Unit, config: Any, attempt: Attempt) -> None:
    number = int(unit.key)
    pages = [
        document(GOOD, number=number, language_score=0.95),
        document(f"short a{number}", number=100 + number, language_score=0.2),
        document("1 2 3 " * 20, "de", number=200 + number, url="https://a.example/[x]"),
    ]
    for language in ("en", "de"):
        own = [page for page in pages if page.language == language]
        name = f"{language}/part-{attempt.unit_id}"
        attempt.write_table(name, documents_to_table(own), part="documents", language=language)
    with local_file(".json") as path:
        path.write_text(json.dumps(score_histogram(pages)))
        attempt.write_file(f"scores/part-{attempt.unit_id}.json", path, part="scores")


@pytest.fixture
def run(store: Store) -> Store:
    config = resolve("demo", settings={"filters": FILTERS, "store.url": store.url})
    tree = config.model_dump(mode="json", exclude_none=True)
    store.publish_bytes(config_key("demo"), tomli_w.dumps(tree).encode())
    units = [Unit(str(number), ()) for number in range(6)]
    step = Step("extract", 1, "in", {}, lay_out)
    run_step(step, units, store, "demo", inline=True, quiet=True)
    return store


def test_the_run_s_own_filters_are_tried_and_nothing_is_written(
    run: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    before = run.sizes("")
    show_filters(run.url, "demo")
    assert run.sizes("") == before

    shown = capsys.readouterr().out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["length", "6", "33.3%", "48", "6", "48", ""] in cells
    assert ["letters", "6", "33.3%", "720", "6", "720", ""] in cells
    assert ["kept", "", "33.3%", "", "6", str(6 * len(GOOD)), ""] in cells
    assert ["length", "too_short", "en", "6", "6"] in cells
    assert ["letters", "few_letters", "de", "6", "6"] in cells
    assert "share of words with a letter 0 < 0.7  https://a.example/[x]" in shown
    assert shown.count("short a0") == 1


def test_a_person_s_settings_replace_the_run_s(run: Store, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[filters]]\nkind = "length"\nmin_characters = 1000\n')
    config = run_config(run, "demo", file)
    report = dry_run(run, "demo", config, None, [])
    assert [entry.name for entry in report.filters] == ["length"]
    assert report.kept == 0 and report.documents == 18

    config = run_config(run, "demo", None, ["filters.0.min_characters=5"])
    assert dry_run(run, "demo", config, None, []).kept == 12


def test_a_sample_is_the_same_every_time_and_smaller(run: Store) -> None:
    config, notes = run_config(run, "demo"), list[str]()
    report = dry_run(run, "demo", config, 2, notes)
    assert report.documents == 6 and notes == ["2 of 6 shards were read"]
    manifests = read_manifests(run, read_stage(run, "demo", "extract"))
    chosen = [m.binding.key for m in sampled(manifests, 7, 2)]
    assert chosen == [m.binding.key for m in sampled(manifests, 7, 2)]
    assert [m.binding.key for m in sampled(list(reversed(manifests)), 7, 2)] == chosen[::-1]
    assert any(sampled(manifests, seed, 2) != sampled(manifests, 7, 2) for seed in range(9))
    assert set(chosen) < {m.binding.key for m in sampled(manifests, 7, 3)}
    assert sampled(manifests, 7, 99) == sampled(manifests, 7, None) == manifests


def test_thresholds_that_come_from_the_data_are_derived(run: Store) -> None:
    derived = "[{kind = 'language_score', derived = true, min_documents = 2}]"
    config, notes = run_config(run, "demo", None, [f"filters={derived}"]), list[str]()
    report = dry_run(run, "demo", config, None, notes)
    # en: six of 0.2, six of 0.95: the median less the deviation is under the floor of 0.3
    assert report.filters[0].alone["low_language_score", "en"].documents == 6
    assert any(note.startswith("en") or "en" in note for note in notes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["filters.0.min_charcters=5"], "did you mean 'min_characters'"),
        (["filters=[]"], "has no"),
        (["filters.0.kind=lenth"], "filters.0"),
    ],
)
def test_wrong_settings_are_named(run: Store, settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        show_filters(run.url, "demo", settings=settings)


def test_a_run_that_is_not_there_or_has_not_extracted_is_named(run: Store) -> None:
    with pytest.raises(ConfigError, match="no run 'other'"):
        show_filters(run.url, "other")
    run.publish_bytes(config_key("early"), run.read_bytes(config_key("demo")))
    with pytest.raises(ConfigError, match="early.*stage 'extract' .* has not finished"):
        show_filters(run.url, "early")
