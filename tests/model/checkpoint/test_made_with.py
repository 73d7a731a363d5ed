"""Tensors of equal shapes of another model: nobody goes on from them in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.check import check_starts
from model import checkpoint
from model.checkpoint.made_with import (
    OF_NO_WEIGHT,
    VOCABULARY,
    check_made_with,
    differences,
    made_with,
)
from model.checkpoint_export import export_checkpoint
from model.config import EncoderSection
from model.distributed import Worker
from model.plan import RunInputs, pretraining_job
from model.pretrain import pretrain
from model.pretraining_job import PretrainingJob
from pipelines.core.config import ConfigError, merge
from pipelines.core.store import Store
from tests.model.tiny import build, tiny_config, write_config

OLD, NEW = "runs/tiny/checkpoints/aaaa", "runs/fork/checkpoints/bbbb"
RECIPE = {"steps": 3, "checkpoint_every_steps": 2, "keep_checkpoints": 3, "warmup_steps": 1}
MODERN: dict[str, Any] = {
    "norm": "pre",
    "positions": "rotary",
    "feed_forward": "geglu",
    "segments": 0,
}
OTHER: dict[str, Any] = {
    "preset": "demo",
    "layers": 3,
    "hidden_size": 384,
    "heads": 6,
    "feed_forward_size": 100,
    "norm": "pre",
    "positions": "rotary",
    "first_position": 0,
    "rotary_base": 1e5,
    "feed_forward": "geglu",
    "biases": False,
    "segments": 2,
    "next_sentence": True,
    "norm_epsilon": 1e-12,
    "dropout": 0.2,
    "attention_dropout": 0.0,
    "initializer_std": 0.01,
}


def test_every_setting_of_the_encoder_counts_or_is_named_as_free() -> None:
    assert OTHER.keys() == EncoderSection.model_fields.keys()
    plain = EncoderSection()
    for name, value in OTHER.items():
        # Not validated: one setting alone often makes no whole architecture.
        changed = plain.model_copy(update={name: value})
        found = differences(made_with(plain, 24, "a"), made_with(changed, 24, "a"))
        if name in OF_NO_WEIGHT or name == "rotary_base":  # positions are learnt
            assert found == [], name
        else:
            assert found and any(f"encoder.{name} = " in line for line in found), name


def test_of_rotary_positions_the_base_counts_and_no_length() -> None:
    plain = EncoderSection.model_validate(MODERN)
    own = made_with(plain, 24, None)
    assert differences(made_with(plain, 48, None), own) == []
    other = plain.model_copy(update={"rotary_base": 160_000.0})
    [line] = differences(made_with(other, 24, None), own)
    assert line == "encoder.rotary_base = 160000.0 there and 10000.0 here"
    learned = EncoderSection()
    [line] = differences(made_with(learned, 48, None), made_with(learned, 24, None))
    assert line == "packing.length = 48 there and 24 here"


def test_a_vocabulary_is_compared_where_both_sides_have_one() -> None:
    section = EncoderSection()
    ours, none = made_with(section, 24, "a" * 64), made_with(section, 24, None)
    assert differences(ours, none) == differences(none, ours) == []
    theirs = made_with(section, 24, "b" * 64)
    [line] = differences(theirs, ours)
    assert line == f"{VOCABULARY} = {'b' * 64!r} there and {'a' * 64!r} here"
    for training in ({}, {"made_with": None}, {"made_with": "demo"}):
        with pytest.raises(ConfigError, match=r"^here does not say .* an older version wrote it"):
            check_made_with(training, ours, "here")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A run `tiny` with checkpoints, and the text of a run `fork`, of another domain."""
    store = Store(str(tmp_path_factory.mktemp("made") / "store"))
    build(store, tiny_config(run={"name": "fork"}, pretraining=RECIPE), domain="other")
    build(store, tiny_config(pretraining=RECIPE))
    job = pretraining_job(RunInputs(store, "tiny"))
    pretrain(job, store, OLD, Worker(), tmp_path_factory.mktemp("cache"))
    return store


def planned(store: Store, run: str, **sections: Any) -> PretrainingJob:
    config = tiny_config(**merge({"run": {"name": run}, "pretraining": RECIPE}, sections))
    write_config(store, config)
    return pretraining_job(RunInputs(store, run))


def test_another_vocabulary_of_the_same_size(trained: Store) -> None:
    ours, theirs = (RunInputs(trained, run) for run in ("fork", "tiny"))
    assert ours.vocabulary.rows == theirs.vocabulary.rows, "so that all shapes are equal"
    with pytest.raises(ConfigError, match="holds another model: vocabulary") as error:
        planned(trained, "fork", pretraining={"resume_from": "tiny@2"})
    for inputs in (ours, theirs):
        assert inputs.vocabulary_sha256 in str(error.value)
    # start_from carries rows by their pieces
    assert planned(trained, "fork", pretraining={"start_from": "tiny@2"}).start is not None


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        ({"heads": 4}, "encoder.heads = 2 there and 4 here"),
        ({"norm_epsilon": 1e-12}, "encoder.norm_epsilon = 1e-05 there and 1e-12 here"),
    ],
)
def test_another_architecture_of_equal_shapes(
    trained: Store, tmp_path: Path, encoder: dict[str, Any], said: str
) -> None:
    begin = {"resume_from": "tiny@2"}
    with pytest.raises(ConfigError, match=r"resume_from = 'tiny@2' holds another") as error:
        planned(trained, "tiny", encoder=encoder, pretraining=begin)
    assert said in str(error.value)
    # babelmill check, before there is a vocabulary
    config = tiny_config(run={"name": "soon"}, encoder=encoder, pretraining=RECIPE | begin)
    with pytest.raises(ConfigError, match="holds another model: encoder"):
        check_starts(config, trained)
    check_starts(tiny_config(run={"name": "soon"}, pretraining=RECIPE | begin), trained)
    # A worker that is handed a job all the same.
    job = planned(trained, "tiny", pretraining=begin)
    job = PretrainingJob.model_validate(merge(job.model_dump(mode="json"), {"encoder": encoder}))
    with pytest.raises(ConfigError, match="holds another model: encoder"):
        pretrain(job, trained, NEW, Worker(), tmp_path)
    assert not trained.keys(NEW)


def test_dropout_may_be_another_and_the_fork_says_what_it_was_made_with(
    trained: Store, tmp_path: Path
) -> None:
    change = {"dropout": 0.0, "initializer_std": 0.01}
    job = planned(trained, "tiny", encoder=change, pretraining={"resume_from": "tiny@2"})
    pretrain(job, trained, NEW, Worker(), tmp_path)
    found, _ = checkpoint.latest_complete(trained, NEW)
    wanted, _ = checkpoint.latest_complete(trained, OLD)
    assert found is not None and wanted is not None and found.step == 3
    assert found.training["made_with"] == wanted.training["made_with"]
    assert found.training["made_with"][VOCABULARY] == job.vocabulary_sha256


def test_weights_and_exports_of_a_run_that_was_changed_since(
    trained: Store, tmp_path: Path
) -> None:
    """They go by the run's record, which must be what the checkpoint was made with."""
    planned(trained, "tiny", encoder={"heads": 4})
    with pytest.raises(ConfigError, match=r"run 'tiny' was changed since .*heads = 2 there and 4"):
        planned(trained, "fork", encoder={"heads": 4}, pretraining={"start_from": "tiny@2"})
    with pytest.raises(ConfigError, match=r"checkpoint tiny@2: .*heads = 2 there and 4 here"):
        export_checkpoint(RunInputs(trained, "tiny"), 2, tmp_path)
    planned(trained, "tiny")
    assert planned(trained, "fork", pretraining={"start_from": "tiny@2"}).start is not None


def test_a_fork_needs_an_update_after_its_beginning(trained: Store) -> None:
    begin = {"resume_from": "tiny@2", "steps": 4, "skip_steps": [3, 4]}
    with pytest.raises(ConfigError, match=r"leaves no update after it: all steps from 3 to 4"):
        planned(trained, "tiny", pretraining=begin)
    begin["skip_steps"] = [4]
    assert planned(trained, "tiny", pretraining=begin).resume is not None
