"""What the model stages read from a run: its configuration and the records of earlier stages.

Everything that can be wrong is found here, before any worker starts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from model.checkpoint.made_with import made_with
from model.config import ModelConfig
from model.pretraining_job import MaskingSettings, PretrainingJob, SharesPhase
from model.schedules import check_schedule
from model.start.find_resume import resume_point
from model.start.warm_start import start_point
from model.tasks import check_tasks
from pipelines.core.config import ConfigError, validate
from pipelines.core.manifest import Output, StageRecord, read_json, read_stage
from pipelines.core.records import MIXED
from pipelines.core.run_file import config_key, read_run_file
from pipelines.core.shards import Unit
from pipelines.core.store import Store
from pipelines.core.vocabulary import VOCABULARY_PARTS, Vocabulary, open_vocabulary, vocabulary_part
from pipelines.core.wordpiece import WordPieceVocabulary

RESULT_NEUTRAL = (
    "checkpoint_every_steps",
    "checkpoint_every_minutes",
    "keep_checkpoints",
    "prefetch_steps",
    "cache_gb",
    "activation_checkpointing",
    "shard_optimizer",
    "on_spike",
)
"""Settings of [pretraining] that cannot change the result, and so do not bind it. They can be
changed after a failure, and training goes on from its checkpoint."""


@dataclass(frozen=True)
class RunInputs:
    """A run as the model path sees it."""

    store: Store
    run: str

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The run's resolved configuration as a plain tree.

        Raises:
            ConfigError: the store has no such run.
        """
        return read_run_file(self.store, self.run)

    @cached_property
    def config(self) -> ModelConfig:
        """The sections of the model path."""
        own = {name: part for name, part in self.tree.items() if name in ModelConfig.model_fields}
        return validate(ModelConfig, own, origin=config_key(self.run))

    def setting(self, section: str, name: str) -> Any:
        """A setting of the data path.

        Raises:
            ConfigError: the resolved configuration lacks it.
        """
        try:
            return self.tree[section][name]
        except KeyError:
            raise ConfigError(f"{config_key(self.run)}: {section}.{name} is missing") from None

    def stage(self, name: str) -> StageRecord:
        """The record of an earlier stage."""
        return read_stage(self.store, self.run, name)

    @cached_property
    def vocabulary_files(self) -> dict[str, Output]:
        """The vocabulary stage's files by part."""
        return {output.labels["part"]: output for output in self.stage("vocabulary").outputs}

    @cached_property
    def vocabulary(self) -> Vocabulary | WordPieceVocabulary:
        """The trained vocabulary."""
        return open_vocabulary(self.store, self.vocabulary_keys, self.vocabulary_sha256)

    @property
    def vocabulary_from(self) -> str | None:
        """vocabulary.start_from; TOML leaves out what is not given."""
        found: str | None = self.tree["vocabulary"].get("start_from")
        return found

    @property
    def vocabulary_keys(self) -> dict[str, str]:
        """Keys of the files that hold the vocabulary itself, by part."""
        files = self.vocabulary_files
        return {part: files[part].path for part in VOCABULARY_PARTS if part in files}

    @property
    def vocabulary_sha256(self) -> str:
        """What packed files name as their vocabulary."""
        files = self.vocabulary_files
        part = vocabulary_part(files)
        if part is None:
            raise ConfigError(f"the vocabulary stage wrote only {sorted(files)}: run it again")
        return files[part].sha256

    @cached_property
    def balance(self) -> Output:
        """The table of the balance stage."""
        [output] = self.stage("balance").outputs_of(part="balance")
        return output


def by_language(outputs: Sequence[Output]) -> dict[str, list[str]]:
    """Keys of files by language, in the record's order: it is the order of their rows."""
    files: dict[str, list[str]] = {}
    for output in outputs:
        files.setdefault(output.labels["language"], []).append(output.path)
    return dict(sorted(files.items()))


def pretraining_job(inputs: RunInputs) -> PretrainingJob:
    """Put together what pretraining reads.

    Raises:
        ConfigError: there is nothing to train on, or a setting does not allow it.
    """
    config, pack = inputs.config, inputs.stage("pack")
    config.pretraining.check_workers(config.cluster.most_workers)
    length, mode = inputs.setting("packing", "length"), inputs.setting("packing", "mode")
    config.pretraining.check_lengths(length, mode)
    check_schedule(config.pretraining, length)
    train = by_language(pack.outputs_of(part="train"))
    if not train:
        raise ConfigError("the packing stage wrote no training sequence; look at its counters")
    pretraining = config.pretraining
    own = made_with(config.encoder, length, inputs.vocabulary_sha256)
    resume = resume_point(inputs.store, pretraining, length, own, inputs.run)
    if resume is not None:
        pretraining = pretraining.model_copy(update={"resume_from": resume.name})
    table = read_json(inputs.store, inputs.balance)
    masking = {name: inputs.setting("masking", name) for name in MaskingSettings.model_fields}
    return PretrainingJob(
        seed=inputs.setting("run", "seed"),
        length=length,
        mode=mode,
        rows=inputs.vocabulary.rows,
        encoder=config.encoder,
        pretraining=pretraining,
        evaluation=config.evaluation,
        masking=MaskingSettings.model_validate(masking),
        phases=phases_of(table, train),
        without_text=[
            r["language"] for r in table["rows"] if not {r["language"], MIXED} & train.keys()
        ],
        train=train,
        held_out=by_language(pack.outputs_of(part="held-out")),
        unigram=inputs.vocabulary_files["unigram"].ref,
        vocabulary=inputs.vocabulary_keys,
        vocabulary_sha256=inputs.vocabulary_sha256,
        start=start_point(inputs),
        resume=resume,
    )


def phases_of(table: Mapping[str, Any], languages: Collection[str]) -> list[SharesPhase]:
    """The mix of the packed languages over the training, from the balance table.

    Sequences that hold several languages at once (packing.mix_languages) are one source, whose
    mix was made when they were packed.

    Raises:
        ConfigError: a packed language has no share in any phase.
    """
    if set(languages) == {MIXED}:
        return [SharesPhase(until=1.0, shares={MIXED: 1.0})]
    phases = [
        SharesPhase(
            until=phase["until"],
            shares={r["language"]: r["q"] for r in phase["rows"] if r["language"] in languages},
        )
        for phase in table["phases"]
    ]
    if unknown := set(languages).difference(*(phase.shares for phase in phases)):
        raise ConfigError(
            f"packed sequences are of {sorted(unknown)}, which the balance table does not have: "
            f"run the stages balance and pack again"
        )
    return phases


def pretraining_binding(inputs: RunInputs, job: PretrainingJob) -> tuple[dict[str, Any], Unit]:
    """The configuration that binds the result, and the unit with what does not bind it.

    Neither the number of workers nor their threads bind it: at any number the same micro-batches
    are computed, with the same dropout, and results differ by the order of floating-point sums
    only. So a run may go on with other workers than it began with.
    """
    config = job.model_dump(mode="json")
    free = {name: config["pretraining"].pop(name) for name in RESULT_NEUTRAL}
    cluster = inputs.config.cluster
    config["cluster"] = {"use_gpu": cluster.use_gpu}
    refs = [output.ref for output in inputs.stage("pack").outputs]
    refs += [inputs.vocabulary_files["unigram"].ref, inputs.balance.ref]
    arguments = {
        "pretraining": free,
        "cluster": cluster.model_dump(mode="json"),
        "run": inputs.run,
    }
    return config, Unit("pretrain", tuple(refs), arguments)


def finetuning_units(inputs: RunInputs) -> tuple[dict[str, Any], list[Unit]]:
    """The configuration that binds the fine-tuned heads, and one unit a task.

    Raises:
        ConfigError: there is no task, or a task's settings cannot work.
    """
    config, length = inputs.config, inputs.setting("packing", "length")
    tasks = {task.name: task for task in config.finetuning}
    if not tasks:
        raise ConfigError("finetuning is empty: name a task, or leave the stage out")
    check_tasks(config.finetuning, length)
    [model] = inputs.stage("pretrain").outputs_of(part="model")
    unique = inputs.stage("deduplicate").outputs_of(part="unique")
    # Fine-tuning is short: it waits for all workers that there may be.
    cluster = config.cluster.model_copy(update={"num_workers": config.cluster.most_workers})
    read = {
        "seed": inputs.setting("run", "seed"),
        "length": length,
        "rows": inputs.vocabulary.rows,
        "encoder": config.encoder.model_dump(mode="json"),
        "tasks": {name: task.model_dump(mode="json") for name, task in tasks.items()},
        "num_workers": cluster.num_workers,
        "use_gpu": cluster.use_gpu,
        "model": model.path,
        "vocabulary_files": inputs.vocabulary_keys,
    }
    parts = [model, *(inputs.vocabulary_files[part] for part in inputs.vocabulary_keys), *unique]
    refs = tuple(output.ref for output in parts)
    arguments = {"cluster": cluster.model_dump(mode="json"), "run": inputs.run}
    return read, [Unit(name, refs, arguments) for name in tasks]
