"""The driver of the model stages: `python -m model.run_train STAGE --store URL --run RUN`.

The only file of the model path that knows Ray: it starts a group of workers, and the loops of
pretrain.py and finetune.py run in each of them. Restarts go by our own checkpoints, never by Ray's.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from model import checkpoint
from model.config import ClusterSection
from model.distributed import Worker
from model.export_stage import export_step, export_units, publish_classifier
from model.finetune import FinetuningJob, finetune, scores_json
from model.plain_output import PlainOutput
from model.plan import RunInputs, finetuning_units, pretraining_binding, pretraining_job
from model.pretrain import NonFiniteError, pretrain
from model.tasks import TASKS
from model.training_data import PretrainingJob
from pipelines.core.config import ConfigError, merge
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


class TrainingFailed(RuntimeError):
    """Training stopped; the message says at which step and why."""


def pretrain_in_worker(config: Mapping[str, Any], store: Store, worker: Worker) -> None:
    """Pretraining as one worker runs it."""
    cache = Path(tempfile.gettempdir()) / "babelmill-packed" / config["unit_id"]
    job = PretrainingJob.model_validate(config["job"])
    pretrain(job, store, config["folder"], worker, cache)
    shutil.rmtree(cache, ignore_errors=True)  # another worker of this node may be first


def finetune_in_worker(config: Mapping[str, Any], store: Store, worker: Worker) -> None:
    """Fine-tuning as one worker runs it."""
    finetune(FinetuningJob.model_validate(config["job"]), store, config["folder"], worker)


LOOPS: dict[str, Callable[[Mapping[str, Any], Store, Worker], None]] = {
    "pretrain": pretrain_in_worker,
    "finetune": finetune_in_worker,
}


def failure_key(folder: str) -> str:
    """Where workers leave the reason of a failure that a restart would only repeat."""
    return f"{folder}/failure.json"


def in_worker(config: dict[str, Any]) -> None:
    """What Ray runs in every worker; a loss that is no number ends training without a restart."""
    import ray.train
    import ray.train.torch

    context = ray.train.get_context()
    device = ray.train.torch.get_device() if config["use_gpu"] else torch.device("cpu")
    torch.set_num_threads(config["cpus_per_worker"])
    worker = Worker(context.get_world_rank(), context.get_world_size(), device)
    store = Store(config["store"])
    try:
        LOOPS[config["loop"]](config, store, worker)
    except NonFiniteError as error:
        if worker.leads:
            reason = json.dumps({"error": str(error)}).encode("utf-8")
            store.publish_bytes(failure_key(config["folder"]), reason)


def train_on_ray(
    loop: str, job: Mapping[str, Any], attempt: Attempt, run: str, cluster: ClusterSection
) -> checkpoint.Checkpoint:
    """Run a loop in a group of workers; returns its last checkpoint.

    Raises:
        ConfigError: the cluster is too small.
        TrainingFailed: a loss or gradient was not finite, or no result came out.
    """
    import pyarrow.fs
    import ray.train.torch

    wait_for_cluster(cluster)
    store, folder = attempt.store, f"runs/{run}/checkpoints/{attempt.unit_id}"
    store.delete(failure_key(folder))
    # A new name each time, so that Ray never resumes by itself; leftovers of killed drivers go.
    scratch, name = f"{folder}/ray", uuid.uuid4().hex
    store.delete(scratch)
    trainer = ray.train.torch.TorchTrainer(
        in_worker,
        train_loop_config={
            "loop": loop,
            "job": dict(job),
            "store": store.url,
            "folder": folder,
            "unit_id": attempt.unit_id,
            "use_gpu": cluster.use_gpu,
            "cpus_per_worker": cluster.cpus_per_worker,
        },
        torch_config=ray.train.torch.TorchConfig(backend="nccl" if cluster.use_gpu else "gloo"),
        scaling_config=ray.train.ScalingConfig(
            num_workers=cluster.num_workers,
            use_gpu=cluster.use_gpu,
            resources_per_worker=needs(cluster),
        ),
        run_config=ray.train.RunConfig(
            name=name,
            storage_path=store.path(scratch),
            storage_filesystem=pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(store.filesystem)),
            logging_config=ray.train.LoggingConfig(log_level="WARNING"),
            failure_config=ray.train.FailureConfig(max_failures=cluster.max_worker_failures),
        ),
    )
    try:
        trainer.fit()
    finally:
        store.delete(scratch)
    if store.exists(failure_key(folder)):
        raise TrainingFailed(json.loads(store.read_bytes(failure_key(folder)))["error"])
    result, passed_over = checkpoint.latest_complete(store, folder)
    if result is None:
        raise TrainingFailed(f"training left no whole checkpoint in {folder}: {passed_over}")
    return result


def needs(cluster: ClusterSection) -> dict[str, float]:
    """What one worker needs, in Ray's terms."""
    gpus = {"GPU": 1.0} if cluster.use_gpu else {}
    return {"CPU": float(cluster.cpus_per_worker), **gpus}


def wait_for_cluster(cluster: ClusterSection) -> None:
    """Connect, and wait until the cluster can hold all workers; Ray itself would wait for ever.

    Raises:
        ConfigError: it cannot within cluster.pending_timeout_seconds.
    """
    import ray

    if not ray.is_initialized():
        ray.init(log_to_driver=True, configure_logging=False)
    wanted = {name: value * cluster.fewest_workers for name, value in needs(cluster).items()}
    deadline = time.monotonic() + cluster.pending_timeout_seconds
    while True:
        there = ray.cluster_resources()
        short = {name: v for name, v in wanted.items() if there.get(name, 0.0) < v}
        if not short:
            return
        if time.monotonic() > deadline:
            raise ConfigError(
                f"cluster.num_workers = {cluster.num_workers}: the workers need {wanted}, the "
                f"cluster has { ({name: there.get(name, 0.0) for name in wanted}) } after "
                f"{cluster.pending_timeout_seconds} s"
            )
        time.sleep(1.0)


def pretrain_unit(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Pretrain, and write the model and its metrics."""
    cluster = ClusterSection.model_validate(unit.arguments["cluster"])
    job = merge(config, {"pretraining": unit.arguments["pretraining"]})
    job.pop("cluster")
    result = train_on_ray("pretrain", job, attempt, unit.arguments["run"], cluster)
    steps = job["pretraining"]["steps"]
    if result.step != steps:
        raise TrainingFailed(f"training ended at step {result.step} of {steps}")
    record = result.training
    metrics = {
        "rows": job["rows"],
        "steps": steps,
        "tokens_seen": record["tokens_seen"],
        "final_loss": record["log"][-1]["loss"],
        "log": record["log"],
        "evaluations": record["evaluations"],
        "unigram": record["unigram"],
        "usage": record["usage"],
    }
    attempt.counters["steps"] = steps
    attempt.counters["tokens_seen"] = record["tokens_seen"]
    with local_file() as path:
        checkpoint.save_tensors(result.model, path)
        attempt.write_file(f"{attempt.unit_id}/model.safetensors", path, part="model")
    content = (json.dumps(metrics, indent=1) + "\n").encode("utf-8")
    attempt.write_bytes(f"{attempt.unit_id}/metrics.json", content, part="metrics")


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
        step = Step("pretrain", 2, f"runs/{run}/pretrained", read, pretrain_unit, "model")
        units = [unit]
    elif stage == "export":
        step, units = export_step(inputs), export_units(inputs)
    else:
        read, units = finetuning_units(inputs)
        step = Step("finetune", 2, f"runs/{run}/finetune", read, finetune_unit, "task")
    return run_step(step, units, store, run, inline=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    for name, value in QUIET_RAY.items():
        os.environ.setdefault(name, value)
    sys.stdout = PlainOutput(sys.stdout)
    stages = ["pretrain", "export", "finetune"]
    return drive("model.run_train", __doc__, run_train, stages, arguments)


if __name__ == "__main__":
    sys.exit(main())
