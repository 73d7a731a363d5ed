"""Ray Train around the loops: a group of workers, restarts, stop notices, metrics.

The only file of the model path that imports Ray. Ray starts the workers, notices those that are
lost or hang, and starts the group again; what training goes on from are our own checkpoints, never
Ray's, and nothing is reported to Ray during a step.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import ray.util.metrics
import torch

from model.config import ClusterSection
from model.distributed import Worker
from model.failures import RepeatingError, TrainingFailed, reason_of, would_repeat
from model.finetune import FinetuningJob, finetune
from model.notices import StopNotice, TrainingStopped
from model.pretrain import pretrain
from model.pretraining_job import PretrainingJob
from model.tensorboard import TensorBoardSink
from model.training_log import Sink
from model.update import UpdateRefusedError
from pipelines.core.hashing import digest
from pipelines.core.store import Store

DRAIN_POLL_SECONDS = 1.0
STOP_POLL_SECONDS = 1.0
START_SECONDS = 30
"""Longest that Ray waits for one group of workers before it looks anew at what there is."""
Loop = Callable[[Mapping[str, Any], Store, Worker], None]


def pretrain_in_worker(config: Mapping[str, Any], store: Store, worker: Worker) -> None:
    """Pretraining as one worker runs it."""
    job, folder, run = PretrainingJob.model_validate(config["job"]), config["folder"], config["run"]
    # Another person's, or another run's, is another folder: the first to end takes its own away.
    root = Path(tempfile.gettempdir()) / f"babelmill-packed-{os.getuid()}"
    cache = root / digest([store.url, run])[:16] / config["unit_id"]
    if worker.leads:  # it tells the others what it is asked, in the sums of a step
        board = TensorBoardSink(store, f"runs/{run}/tensorboard")
        sinks: list[Sink] = [RayMetricsSink(run), board]
        with StopNotice() as notice, drains_told(notice):
            notice.watch(store, config["stop_key"], STOP_POLL_SECONDS)
            pretrain(job, store, folder, worker, cache, sinks=sinks, notice=notice)
    else:
        pretrain(job, store, folder, worker, cache)
    shutil.rmtree(cache, ignore_errors=True)  # another worker of this node may be first


def finetune_in_worker(config: Mapping[str, Any], store: Store, worker: Worker) -> None:
    """Fine-tuning as one worker runs it."""
    finetune(FinetuningJob.model_validate(config["job"]), store, config["folder"], worker)


LOOPS: dict[str, Loop] = {"pretrain": pretrain_in_worker, "finetune": finetune_in_worker}


def in_worker(config: dict[str, Any]) -> dict[str, Any]:
    """What Ray runs in every worker.

    Returns:
        Nothing after the last step; {"step": N, "why": ...} when training was told to stop there;
        {"error": ...} when all workers alike refuse to go on.

    Raises:
        RepeatingError: an error of this worker that a restart would only repeat.
    """
    context = ray.train.get_context()
    device = ray.train.torch.get_device() if config["use_gpu"] else torch.device("cpu")
    torch.set_num_threads(config["cpus_per_worker"])
    worker = Worker(context.get_world_rank(), context.get_world_size(), device)
    try:
        LOOPS[config["loop"]](config, Store(config["store"]), worker)
    except TrainingStopped as stopped:
        return {"step": stopped.step, "why": stopped.why}
    except UpdateRefusedError as error:
        return {"error": str(error)}
    except Exception as error:
        if would_repeat(error):
            raise RepeatingError(reason_of(error)) from error
        raise
    return {}


class EndAtOnce(ray.train.UserCallback):  # type: ignore[misc]
    """In the controller: an error that a restart would only repeat uses up no restart."""

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """End the run, quietly: Ray restarts after a worker's error, not after a controller's."""
        for error in worker_exceptions.values():
            if isinstance(error, RepeatingError):
                raise ray.train.ControllerError(error)


@contextmanager
def drains_told(notice: StopNotice) -> Iterator[None]:
    """Ask for a checkpoint when Ray says that a node with one of the workers will be taken away.

    Ray Train's own watcher marks every worker. Its public way to read the mark makes all workers
    wait for each other through an actor, at each step; here the mark itself is read, beside the
    loop, which tells the other workers in a sum that it makes anyway.
    """
    done = threading.Event()

    def poll() -> None:
        told: list[str] = []
        while not done.wait(DRAIN_POLL_SECONDS):
            nodes = draining_nodes()
            if set(nodes) - set(told):
                notice.ask("save", f"Ray takes node {', '.join(nodes)} away")
                told = nodes

    thread = threading.Thread(target=poll, name="drains", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def draining_nodes() -> list[str]:
    """Nodes with workers of this group that Ray is about to take away; none where it is unknown."""
    try:
        from ray.train.v2._internal.execution.context import get_train_context

        info = get_train_context().preemption_context.preemption_info
    except (ImportError, AttributeError):  # no public interface: another Ray may lack it
        return []
    return list(info.preempted_node_ids) if info is not None else []


class RayMetricsSink:
    """What training measures as Ray metrics; Prometheus sees them as ray_babelmill_NAME.

    KIND/NAME becomes babelmill_NAME (train), babelmill_NAME{language=...} (evaluation) or
    babelmill_checkpoint_NAME; a part behind a slash of a training value is its tag `kind`.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._gauges: dict[str, Any] = {}

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Set the gauges of these values."""
        self._set("babelmill_step", {}, step)
        for name, value in values.items():
            own, _, part = name.partition("/")
            tag = "language" if kind == "evaluation" else "kind"
            prefix = "babelmill_checkpoint_" if kind == "checkpoint" else "babelmill_"
            self._set(prefix + own, {tag: part} if part else {}, value)

    def _set(self, name: str, tags: dict[str, str], value: float) -> None:
        if name not in self._gauges:
            keys = ("run", *tags)
            self._gauges[name] = ray.util.metrics.Gauge(name, name.replace("_", " "), keys)
        self._gauges[name].set(value, {"run": self._run, **tags})

    def close(self) -> None:
        """Nothing is held: Ray exports the last values until the worker ends."""


def start_trainer(
    config: Mapping[str, Any], cluster: ClusterSection, scratch: str
) -> dict[str, Any]:
    """Run a loop in a group of workers to its end, with restarts; returns what `in_worker` does.

    Args:
        config: of `in_worker`.
        scratch: folder of this machine for Ray's own records. They are not kept on the store: Ray
            does not try again when a store stumbles, and nothing is read from them.

    Raises:
        TrainingFailed: no restart was left, or would have helped.
    """
    os.environ |= waits(cluster)
    trainer = ray.train.torch.TorchTrainer(
        in_worker,
        train_loop_config=dict(config),
        torch_config=ray.train.torch.TorchConfig(
            backend="nccl" if cluster.use_gpu else "gloo",
            timeout_s=cluster.worker_timeout_seconds,
        ),
        scaling_config=ray.train.ScalingConfig(
            num_workers=cluster.num_workers,
            use_gpu=cluster.use_gpu,
            resources_per_worker=needs(cluster),
        ),
        run_config=ray.train.RunConfig(
            name="train",
            storage_path=scratch,
            callbacks=[EndAtOnce()],
            logging_config=ray.train.LoggingConfig(log_level="WARNING"),
            failure_config=ray.train.FailureConfig(
                max_failures=cluster.max_worker_failures,
                # Counted are mostly groups that could not start in time, for want of nodes.
                controller_failure_limit=cluster.max_worker_failures
                + max(3, -(-cluster.pending_timeout_seconds // START_SECONDS)),
            ),
        ),
    )
    try:
        result = trainer.fit()
    except ray.train.ControllerError as error:
        cause = error.controller_failure
        if isinstance(cause, RepeatingError):
            raise TrainingFailed(str(cause)) from None
        raise TrainingFailed(f"Ray could not start the workers: {reason_of(cause)}") from None
    except ray.train.WorkerGroupError as error:
        raise TrainingFailed(lost_workers(error.worker_failures, cluster)) from None
    ended = dict(result.return_value)
    if "error" in ended:
        raise TrainingFailed(ended["error"])
    return ended


def lost_workers(errors: Mapping[int, Exception], cluster: ClusterSection) -> str:
    """What a person should know when the last restart is used up."""
    last = {
        rank: next((line for line in reversed(str(error).splitlines()) if line.strip()), "")
        for rank, error in errors.items()
    }
    lines = [
        f"  worker {rank}: {type(errors[rank]).__name__}: {text}" for rank, text in last.items()
    ]
    return (
        f"workers were lost {cluster.max_worker_failures + 1} times, which is more than "
        f"cluster.max_worker_failures = {cluster.max_worker_failures}; run again to go on from the "
        f"last checkpoint. The last time:\n" + "\n".join(lines)
    )


def waits(cluster: ClusterSection) -> dict[str, str]:
    """How long Ray Train waits for a worker's sign of life, and for a group to start.

    With a range of workers Ray counts the nodes every 20 seconds, and so may wait in vain for one
    that is gone.
    """
    start = min(START_SECONDS, cluster.pending_timeout_seconds)
    return {
        "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": str(cluster.worker_timeout_seconds),
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(start),
    }


def needs(cluster: ClusterSection) -> dict[str, float]:
    """What one worker needs, in Ray's terms."""
    gpus = {"GPU": 1.0} if cluster.use_gpu else {}
    return {"CPU": float(cluster.cpus_per_worker), **gpus}


def connect() -> None:
    """Become a driver of the cluster, unless this process is one already."""
    if not ray.is_initialized():
        ray.init(
            log_to_driver=True,
            configure_logging=False,
            # A worker that hangs cannot leave its process group; it is killed instead.
            runtime_env={"env_vars": {"TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "5"}},
        )


def shortage(cluster: ClusterSection) -> str | None:
    """What the cluster lacks to hold the fewest workers; None when it can hold them."""
    wanted = {name: value * cluster.fewest_workers for name, value in needs(cluster).items()}
    there = ray.cluster_resources()
    if all(there.get(name, 0.0) >= value for name, value in wanted.items()):
        return None
    has = {name: there.get(name, 0.0) for name in wanted}
    return f"the workers need {wanted}, the cluster has {has}"
