"""A worker of Ray Train: the loops as it runs them, what its nodes come to, metrics.

Nothing is reported to Ray during a step.
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

from model.distributed import Worker
from model.finetune import FinetuningJob, finetune
from model.notices import StopNotice, TrainingStopped
from model.pretrain import pretrain
from model.pretraining_job import PretrainingJob
from model.tensorboard import TensorBoardSink
from model.training_log import Sink
from model.update import UpdateRefusedError
from model.workers.failures import RepeatingError, reason_of, would_repeat
from pipelines.core.hashing import digest
from pipelines.core.store import Store

NODES_POLL_SECONDS = 1.0
STOP_POLL_SECONDS = 1.0
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
        with (
            StopNotice() as notice,
            nodes_told(notice, worker, config["needs"], config["most_workers"]),
        ):
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


@contextmanager
def nodes_told(
    notice: StopNotice, worker: Worker, needs: Mapping[str, float], most: int
) -> Iterator[None]:
    """Ask for a checkpoint when a node with workers will be taken away, and when there is room for
    more workers than before: Ray Train then starts the group again, without a question.

    Ray Train's own watcher marks every worker whose group loses a node. Its public way to read the
    mark makes all workers wait for each other through an actor, at each step; here the mark itself
    is read, beside the loop, which tells the other workers in a sum that it makes anyway.

    Args:
        notice: of this worker, the first.
        needs: resources of a worker, in Ray's terms.
        most: workers that the group may have.
    """
    done, may_grow = threading.Event(), worker.world_size < most

    def poll() -> None:
        told: list[str] = []
        room = most_at_once(needs, most, otherwise=worker.world_size) if may_grow else most
        while not done.wait(NODES_POLL_SECONDS):
            nodes = draining_nodes()
            if set(nodes) - set(told):
                notice.ask("save", f"Ray takes node {', '.join(nodes)} away")
                told = nodes
            if may_grow:
                now = most_at_once(needs, most, otherwise=room)
                if now > room:
                    notice.ask("save", f"there is room for {now} workers")
                room = now

    thread = threading.Thread(target=poll, name="nodes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=1.0)  # it may wait for Ray's control store, and holds nothing


def most_at_once(needs: Mapping[str, float], most: int, otherwise: int) -> int:
    """Workers for which the nodes that are alive have room, used or not, `most` at most;
    `otherwise` while Ray's control store does not answer."""
    try:
        nodes = ray.nodes()
    except Exception:  # of its driver; it is asked again
        return otherwise
    room = 0
    for node in nodes:
        has = node["Resources"] if node["Alive"] else {}
        room += min(int(has.get(name, 0.0) // value) for name, value in needs.items())
    return min(room, most)


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
