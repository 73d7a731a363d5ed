"""The driver of the model stages: `python -m model.run_train STAGE --store URL --run RUN`.

Training is started here and runs in a group of workers (model/workers). What comes
out is written here, and is the same whatever was lost on the way. A signal makes the driver save
and leave with status 128 + its number; the same command goes on from there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from model import checkpoint
from model.config import ClusterSection
from model.data.cache_check import check_cache
from model.export_stage import export_step, export_units, publish_classifier
from model.finetune import FinetuningJob, scores_json
from model.plan import RunInputs, finetuning_units, pretraining_binding, pretraining_job
from model.pretraining_job import PretrainingJob
from model.start.origin import check_resume
from model.tasks import TASKS
from model.workers.failures import TrainingFailed
from model.workers.plain_output import PlainOutput
from pipelines.core.config import merge
from pipelines.core.driver import drive
from pipelines.core.manifest import StageRecord, read_stage
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store, local_file, write_parquet
from pipelines.core.vocabulary import open_vocabulary

QUIET_RAY = {
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # or every line of a worker appears twice
    "RAY_DEDUP_LOGS": "0",  # or lines are held back for seconds
    "RAY_COLOR_PREFIX": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}
RESULT = ("log", "evaluations", "unigram", "usage", "notes")
"""What metrics.json takes over from the last checkpoint: the same bytes each time."""
MEASURED = ("speed", "checkpoint_notes")
"""What speed.json takes over: never the same twice."""


def train_on_ray(
    loop: str, job: Mapping[str, Any], attempt: Attempt, run: str, cluster: ClusterSection
) -> checkpoint.Checkpoint:
    """Run a loop in a group of workers; see `model.workers.train_driver.train`."""
    # Importing Ray takes seconds, and export has no need of it.
    from model.workers.train_driver import train

    return train(loop, job, attempt, run, cluster)


def pretrain_unit(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Pretrain, and write the model and its metrics."""
    cluster = ClusterSection.model_validate(unit.arguments["cluster"])
    job = merge(config, {"pretraining": unit.arguments["pretraining"]})
    job.pop("cluster")
    run, trained = unit.arguments["run"], PretrainingJob.model_validate(job)
    check_resume(trained, attempt.store, f"runs/{run}/checkpoints/{attempt.unit_id}")
    check_cache(trained, attempt.store, unit.inputs)
    result = train_on_ray("pretrain", job, attempt, run, cluster)
    steps = trained.step_plan.steps
    if result.step != steps:
        raise TrainingFailed(f"training ended at step {result.step} of {steps}")
    record = result.training
    metrics = {
        "rows": job["rows"],
        "steps": steps,
        "tokens_seen": record["tokens_seen"],
        "final_loss": record["log"][-1]["loss"],
        **{name: record[name] for name in RESULT},
    }
    attempt.counters["steps"] = steps
    attempt.counters["tokens_seen"] = record["tokens_seen"]
    with local_file() as path:
        checkpoint.save_tensors(result.model, path)
        attempt.write_file(f"{attempt.unit_id}/model.safetensors", path, part="model")
    speed = {name: record[name] for name in MEASURED}
    for part, content in {"metrics": metrics, "speed": speed}.items():
        text = json.dumps(content, indent=1) + "\n"
        attempt.write_bytes(f"{attempt.unit_id}/{part}.json", text.encode("utf-8"), part=part)
    attempt.notes += [*record["notes"], *record["checkpoint_notes"]]


def finetune_unit(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Fine-tune one task, and write its scores and its model in the Hugging Face format."""
    run = unit.arguments["run"]
    cluster = ClusterSection.model_validate(unit.arguments["cluster"])
    inputs = RunInputs(attempt.store, run)
    [task] = [task for task in inputs.config.finetuning if task.name == unit.key]
    sha256 = inputs.vocabulary_sha256
    vocabulary = open_vocabulary(attempt.store, config["vocabulary_files"], sha256)
    unique = read_stage(attempt.store, run, "deduplicate").outputs_of(part="unique")
    examples = TASKS[task.kind].examples(task, attempt.store, unique, vocabulary, config["seed"])
    key = f"runs/{run}/checkpoints/{attempt.unit_id}/examples.parquet"
    with local_file() as path:
        write_parquet(examples.table, path)
        attempt.store.publish_file(path, key)
    job = FinetuningJob(
        seed=config["seed"],
        length=config["length"],
        rows=config["rows"],
        encoder=config["encoder"],
        task=task,
        labels=examples.labels,
        model=unit.input(config["model"]),
        examples=key,
    )
    result = train_on_ray("finetune", job.model_dump(mode="json"), attempt, run, cluster)
    counts = examples.counts()
    attempt.counters["cut"] += examples.cut
    attempt.counters.update({f"examples/{split}": count for split, count in counts.items()})
    attempt.counters.update({f"dropped.{why}": n for why, n in examples.dropped.items()})
    scores = scores_json(job, counts, examples.dropped, result.training).encode("utf-8")
    name = f"{task.name}/{attempt.unit_id}/scores.json"
    attempt.write_bytes(name, scores, part="scores", task=task.name)
    rows = examples.table["tokens"].slice(0, 8).to_pylist()
    publish_classifier(attempt, job, result.model, vocabulary, rows)


def run_train(stage: str, store: Store, run: str) -> StageRecord:
    """Run one model stage of a run, or find it finished.

    Raises:
        ConfigError: the configuration or the input does not allow it.
        FileNotFoundError: an earlier stage has not finished.
        StageFailed: it failed; the message says why.
    """
    inputs = RunInputs(store, run)
    if stage == "pretrain":
        read, unit = pretraining_binding(inputs, pretraining_job(inputs))
        step = Step("pretrain", 4, f"runs/{run}/pretrained", read, pretrain_unit, "model")
        units = [unit]
    elif stage == "export":
        step, units = export_step(inputs), export_units(inputs)
    else:
        read, units = finetuning_units(inputs)
        step = Step("finetune", 3, f"runs/{run}/finetune", read, finetune_unit, "task")
    return run_step(step, units, store, run, inline=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    for name, value in QUIET_RAY.items():
        os.environ.setdefault(name, value)
    sys.stdout, sys.stderr = PlainOutput(sys.stdout), PlainOutput(sys.stderr)
    stages = ["pretrain", "export", "finetune"]
    return drive("model.run_train", __doc__, run_train, stages, arguments)


if __name__ == "__main__":
    sys.exit(main())
