"""What binds the result of a model stage, and what does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model import checkpoint
from model.checkpoint.made_with import made_with
from model.config import PretrainingSection
from model.plan import (
    RunInputs,
    finetuning_units,
    pretraining_binding,
    pretraining_job,
)
from model.pretraining_job import PretrainingJob
from model.start.find_resume import resume_point
from pipelines.core.config import ConfigError, merge
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store

from .checkpoints import made
from .tiny import build, tiny_config, write_config

FREE = {
    "checkpoint_every_steps",
    "checkpoint_every_minutes",
    "keep_checkpoints",
    "prefetch_steps",
    "cache_gb",
    "activation_checkpointing",
    "shard_optimizer",
    "on_spike",
}
"""None of these changes a number that is computed."""

OTHER: dict[str, Any] = {
    "steps": 13,
    "tokens": 5000,
    "sequences_per_step": 9,
    "batches": [{"until": 0.1, "sequences": 4}],
    "sequences_per_micro_batch": 3,
    "lengths": [{"until": 0.5, "length": 12}],
    "start_from": None,  # has tests of its own
    "resume_from": None,
    "learning_rate": 1e-4,
    "warmup_steps": 3,
    "warmup_tokens": 100,
    "schedule": "polynomial",
    "power": 2.0,
    "decay_share": 0.2,
    "final_rate_share": 0.1,
    "weight_decay": 0.1,
    "beta1": 0.8,
    "beta2": 0.9,
    "epsilon": 1e-8,
    "max_gradient_norm": 0.5,
    "precision": "bfloat16",
    "compile": True,
    "activation_checkpointing": True,
    "shard_optimizer": True,
    "spike_factor": 3.0,
    "on_spike": "stop",
    "skip_steps": [4],
    "log_every_steps": 2,
    "evaluate_every_steps": 4,
    "checkpoint_every_steps": 3,
    "checkpoint_every_minutes": 0.0,
    "keep_checkpoints": 5,
    "prefetch_steps": 0,
    "cache_gb": 1.0,
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(str(tmp_path_factory.mktemp("plan") / "store"))
    build(store, tiny_config())
    return store


def binding(store: Store, **sections: Any) -> tuple[dict[str, Any], Unit]:
    write_config(store, tiny_config(**sections))
    inputs = RunInputs(store, "tiny")
    return pretraining_binding(inputs, pretraining_job(inputs))


def test_every_setting_of_pretraining_binds_or_is_named_as_free(tiny: Store) -> None:
    assert OTHER.keys() == PretrainingSection.model_fields.keys()
    write_config(tiny, tiny_config())
    inputs = RunInputs(tiny, "tiny")
    job = pretraining_job(inputs)
    plain, unit = pretraining_binding(inputs, job)
    given = job.pretraining.model_dump()
    for name, value in OTHER.items():
        if name in ("start_from", "resume_from"):
            continue
        assert value != given[name], f"{name} has to be another one for this test"
        section = PretrainingSection.model_validate(given | {name: value})
        changed, other = pretraining_binding(
            inputs, job.model_copy(update={"pretraining": section})
        )
        assert (changed == plain) == (name in FREE), name
        if name in FREE:
            assert other.arguments["pretraining"][name] == value
        assert other.inputs == unit.inputs


def test_the_job_of_a_worker_is_the_binding_and_what_does_not_bind(tiny: Store) -> None:
    config, unit = binding(tiny, pretraining={"cache_gb": 2.0, "on_spike": "stop"})
    job = merge(config, {"pretraining": unit.arguments["pretraining"]})
    assert job.pop("cluster") == {"use_gpu": False}
    assert PretrainingJob.model_validate(job) == pretraining_job(RunInputs(tiny, "tiny"))


def test_neither_workers_nor_their_threads_bind(tiny: Store) -> None:
    plain, _ = binding(tiny)
    for cluster in ({"num_workers": 3}, {"num_workers": [1, 4]}, {"cpus_per_worker": 2}):
        changed, unit = binding(tiny, cluster=cluster)
        assert changed == plain
        assert merge(unit.arguments["cluster"], cluster) == unit.arguments["cluster"]
    assert binding(tiny, cluster={"use_gpu": True})[0] != plain


def test_a_step_needs_a_micro_batch_for_each_worker(tiny: Store) -> None:
    with pytest.raises(ValueError, match=r"num_workers = 5: a step of 8 sequences has only 4 mic"):
        tiny_config(cluster={"num_workers": [1, 5]})
    tree = merge(tiny_config().model_dump(mode="json"), {"cluster": {"num_workers": 5}})
    inputs = RunInputs(tiny, "tiny")
    inputs.__dict__["tree"] = tree  # a file that another program wrote
    with pytest.raises(ConfigError, match=r"set that to 1 or less"):
        pretraining_job(inputs)


def test_a_schedule_that_does_not_fit_is_found_before_workers_start(tiny: Store) -> None:
    inputs = RunInputs(tiny, "tiny")
    changes = {"pretraining": {"tokens": 24 * 16, "warmup_steps": 2}}
    inputs.__dict__["tree"] = merge(tiny_config().model_dump(mode="json"), changes)
    with pytest.raises(ConfigError, match="warm-up takes 384 tokens, the training has 384"):
        pretraining_job(inputs)


def write_model(unit: Unit, config: dict[str, Any], attempt: Attempt) -> None:
    attempt.write_bytes(f"{attempt.unit_id}/model", b"weights", part="model")


def test_fine_tuning_waits_for_the_most_workers(tiny: Store) -> None:
    step = Step("pretrain", 1, "runs/tiny/pretrained", {}, write_model)
    run_step(step, [Unit("pretrain", ())], tiny, "tiny", inline=True, quiet=True)
    found = []
    for workers in (3, [1, 3], [2, 3]):
        write_config(tiny, tiny_config(cluster={"num_workers": workers}))
        read, [unit] = finetuning_units(RunInputs(tiny, "tiny"))
        assert unit.arguments["cluster"]["num_workers"] == read["num_workers"] == 3
        found.append(read)
    assert found[0] == found[1] == found[2]


UNIT = "runs/old/checkpoints/0123"


def settings(**values: Any) -> PretrainingSection:
    return PretrainingSection.model_validate({"steps": 20, "warmup_steps": 1, **values})


def job_made_with(store: Store) -> dict[str, Any]:
    job = pretraining_job(RunInputs(store, "tiny"))
    return made_with(job.encoder, job.length, job.vocabulary_sha256)


def of(own: dict[str, Any], step: int, size: int = 6) -> checkpoint.Checkpoint:
    """A checkpoint that says what it was made with."""
    found = made(step, size)
    return replace(found, training={**found.training, "made_with": own})


def test_what_is_resumed_binds_by_its_content(tiny: Store, tmp_path: Path) -> None:
    plain, _ = binding(tiny)
    own = job_made_with(tiny)
    checkpoint.save(tiny, UNIT, of(own, 8))
    first, _ = binding(tiny, pretraining={"resume_from": "old@8"})
    assert first != plain and first["pretraining"]["resume_from"] == "old/0123@8"
    assert first["resume"]["step"] == 8
    assert "model.safetensors" in first["resume"]["files"]
    again, _ = binding(tiny, pretraining={"resume_from": "old/0123@8"})
    assert again == first, "however it is named"
    checkpoint.save(tiny, UNIT, of(own, 8))
    assert binding(tiny, pretraining={"resume_from": "old@8"})[0] == first, "written again"
    checkpoint.save(tiny, UNIT, of(own, 8, size=7))
    assert binding(tiny, pretraining={"resume_from": "old@8"})[0] != first, "with other content"


def test_c44_a_checkpoint_that_is_not_there_is_an_error(store: Store) -> None:
    checkpoint.save(store, UNIT, made(8))
    for name, message in (
        ("old@9", r"pretraining\.resume_from = 'old@9': no whole checkpoint of step 9; .*old@8"),
        ("odl@8", r"no run 'odl' .*there are: old"),
        ("old", r"need RUN@STEP"),
    ):
        with pytest.raises(ConfigError, match=message):
            resume_point(store, settings(resume_from=name), 24, {})
    assert resume_point(store, settings(), 24, {}) is None


def test_a_checkpoint_from_after_the_end_is_refused(store: Store) -> None:
    checkpoint.save(store, UNIT, of({}, 20))
    with pytest.raises(ConfigError, match="is at step 20, and training ends at step 20"):
        resume_point(store, settings(resume_from="old@20"), 24, {})
    found = resume_point(store, settings(resume_from="old@20", steps=21), 24, {})
    assert found is not None and (found.name, found.step) == ("old/0123@20", 20)
