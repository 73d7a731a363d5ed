from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.check import preflight
from flows.check_settings import check_settings, check_weights
from flows.config import PROJECT, RunConfig, resolve
from pipelines.core.config import ConfigError
from tests.pipelines.core.foreign_folders import unigram_folder
from tests.pipelines.train_vocabulary.known_models import model_of

WEIGHTS = "balance.weights"


def run_with(tmp_path: Path, **settings: Any) -> RunConfig:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "a"}\n')
    sources = [{"kind": "local_files", "paths": [str(texts)]}]
    store = str(tmp_path / "store")
    return resolve("demo", settings={"sources": sources, "store.url": store, **settings})


def weighted(languages: Any, weights: dict[str, float]) -> RunConfig:
    return resolve("demo", settings={"run.languages": languages, WEIGHTS: weights})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"de": 0.1}, r"balance\.weights: 'de' is no language of run\.languages = \['fi', 'sw'\]"),
        ({"swa-Arab": 0.1}, r"'sw-Arab' is no language .*did you mean 'sw'\?"),
        ({"fi": 0.5, "sw": 0.3}, r"all 2 languages sum to 0\.8; need 1"),
        ({"fi": 1.0}, r"sum to 1 and leave nothing for sw"),
    ],
)
def test_weights_that_do_not_fit_the_languages_of_the_run_end_the_check(
    tmp_path: Path, weights: dict[str, float], message: str
) -> None:
    config = run_with(tmp_path, **{"run.languages": ["fi", "sw"], WEIGHTS: weights})
    with pytest.raises(ConfigError, match=message):
        preflight(config)


@pytest.mark.parametrize(
    ("languages", "weights"),
    [
        (["fi", "sw"], {"fi": 0.5}),
        (["fi", "sw"], {"FI": 0.5, "swh": 0.5}),
        (["fi", "sw"], {}),
        (["fi", "sw", "de"], {"de": 0.1, "fi": 0.1}),
        ("all", {"de": 0.5, "xh": 0.1}),
    ],
)
def test_weights_that_fit_or_may_fit_are_taken(languages: Any, weights: dict[str, float]) -> None:
    check_weights(weighted(languages, weights))


def test_a_vocabulary_to_compare_with_that_is_none_ends_the_check(tmp_path: Path) -> None:
    setting = "vocabulary.compare_with"
    absent, other, good = (tmp_path / name for name in ("absent", "other", "good"))
    other.write_text("no model\n")
    good.write_bytes(model_of(["▁a", "b"]))
    with pytest.raises(ConfigError, match=r"compare_with = '.*absent': .*No such file"):
        preflight(run_with(tmp_path, **{setting: str(absent)}))
    with pytest.raises(ConfigError, match=r"compare_with = '.*other': .*it is another file$"):
        preflight(run_with(tmp_path, **{setting: str(other)}))
    with pytest.raises(ConfigError, match=r"compare_with = .*Is a directory"):
        preflight(run_with(tmp_path, **{setting: str(tmp_path)}))
    preflight(run_with(tmp_path, **{setting: str(good)}))


def test_what_a_run_starts_from_is_looked_at_by_the_check(tmp_path: Path) -> None:
    vocabulary, weights = "vocabulary.start_from", "pretraining.start_from"
    folder = unigram_folder(tmp_path / "xlmr", model_of(["▁", "a"]))
    # No text is asked for a vocabulary that is there already, whatever `size` is.
    preflight(run_with(tmp_path, **{vocabulary: str(folder), "vocabulary.size": 250_000}))
    with pytest.raises(ConfigError, match=r"vocabulary\.start_from = '/no/such': need a folder"):
        preflight(run_with(tmp_path, **{vocabulary: "/no/such"}))
    with pytest.raises(ConfigError, match=r"vocabulary\.start_from = 'absent': stage 'vocabulary'"):
        preflight(run_with(tmp_path, **{vocabulary: "absent"}))
    with pytest.raises(ConfigError, match=r"pretraining\.start_from = '.*xlmr': no config\.json"):
        preflight(run_with(tmp_path, **{weights: str(folder)}))
    with pytest.raises(ConfigError, match=r"pretraining\.start_from = 'absent@5': no run 'absent'"):
        preflight(run_with(tmp_path, **{weights: "absent@5"}))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("models/xlmr", str(PROJECT / "models" / "xlmr")),
        ("./xlmr", str(PROJECT / "xlmr")),
        ("s3://bucket/xlmr", "s3://bucket/xlmr"),
        ("old", "old"),
        ("old@500", "old@500"),
        ("old/0123456789abcdef@500", "old/0123456789abcdef@500"),
    ],
)
def test_folders_to_start_from_lie_below_the_checkout_and_runs_keep_their_names(
    given: str, path: str
) -> None:
    config = resolve("demo", settings={"pretraining.start_from": given})
    assert config.pretraining.start_from == path
    assert config.vocabulary.start_from is None
    if "@" not in given:
        assert (
            resolve("demo", settings={"vocabulary.start_from": given}).vocabulary.start_from == path
        )


def test_a_plain_path_to_compare_with_lies_below_the_checkout() -> None:
    settings = {"vocabulary.compare_with": "models/other.model", "vocabulary.size": 500}
    section = resolve("demo", settings=settings).vocabulary
    assert section.compare_with == str(PROJECT / "models" / "other.model")
    assert section.size == 500
    assert resolve("demo").vocabulary.compare_with is None


def test_a_memory_limit_that_no_text_fits_ends_the_check(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as failure:
        preflight(run_with(tmp_path, **{"vocabulary.max_memory_gb": 0.001}))
    said = str(failure.value)
    # The demo's 12,000 pieces: 280 MB and 300 bytes each.
    assert "max_memory_gb = 0.001: training 12,000 pieces needs 0.3 GB" in said
    assert "the limit is 0.001 GB; set it above 0.3" in said
    preflight(run_with(tmp_path, **{"vocabulary.max_memory_gb": 0.3}))


def test_shares_that_rows_of_several_languages_do_not_follow_are_a_note() -> None:
    mixed = {"packing.mix_languages": True}
    [note] = check_settings(resolve("demo", settings={**mixed, WEIGHTS: {"fi": 0.5}}))
    assert note.startswith("packing.mix_languages: ")
    assert "alpha = 0.3, phases, weights do not act on them" in note
    natural = {**mixed, "balance.alpha": 1.0, "balance.phases": []}
    assert check_settings(resolve("demo", settings=natural)) == []
    assert check_settings(resolve("demo", settings={WEIGHTS: {"fi": 0.5}})) == []


def test_a_normalization_that_wordpiece_does_not_use_is_a_note(tmp_path: Path) -> None:
    set_by_preset = run_with(tmp_path, **{"vocabulary.kind": "wordpiece"})
    [note] = [note for note in preflight(set_by_preset).notes if "normalization" in note]
    assert "'nmt_nfkc_joiners' has no effect with kind = 'wordpiece'" in note
    section = set_by_preset.vocabulary
    unset = type(section)(kind="wordpiece", size=section.size)
    assert check_settings(set_by_preset.model_copy(update={"vocabulary": unset})) == []
    assert check_settings(resolve("demo")) == []


def test_settings_that_a_vocabulary_which_is_taken_does_not_read_are_a_note(
    tmp_path: Path,
) -> None:
    start = {"vocabulary.start_from": "old"}
    [note] = check_settings(resolve("demo", settings={**start, "vocabulary.byte_fallback": True}))
    assert note.startswith(
        "vocabulary: size = 12000, normalization = 'nmt_nfkc_joiners', byte_fallback = True "
        "without effect beside start_from = 'old', "
    )
    assert note.endswith("; add_pieces makes it larger")
    settings = {**start, "vocabulary.kind": "wordpiece", "vocabulary.lowercase": True}
    [note] = check_settings(resolve("demo", settings=settings))
    assert "lowercase = True without effect" in note and "add_pieces" not in note
    config = resolve("demo", settings=start)
    section = config.vocabulary
    for idle in ({}, {"train_on": "lines"}, {"num_threads": 3, "add_pieces": 5}):
        given = type(section)(start_from="old", **idle)
        notes = check_settings(config.model_copy(update={"vocabulary": given}))
        assert ["train_on = 'lines' without" in note for note in notes] == (
            [True] if "train_on" in idle else []
        )
