"""Ray Train around the loops: a group of workers, and how often and when it is started again.

This file, the driver's, and ray_worker.py are the only ones of the model path that import Ray. Ray
starts the workers, notices those that are lost or hang, and starts the group again; what training
goes on from are our own checkpoints, never Ray's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import ray
import ray.train
import ray.train.torch

from model.config import ClusterSection
from model.workers.failures import RepeatingError, TrainingFailed, reason_of
from model.workers.ray_worker import in_worker

START_SECONDS = 30
"""Longest that Ray waits for one group of workers before it looks anew at what there is."""


class EndAtOnce(ray.train.UserCallback):  # type: ignore[misc]
    """In the controller: an error that a restart would only repeat uses up no restart."""

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """End the run, quietly: Ray restarts after a worker's error, not after a controller's."""
        for error in worker_exceptions.values():
            if isinstance(error, RepeatingError):
                raise ray.train.ControllerError(error)


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
            elastic_resize_monitor_interval_s=cluster.resize_seconds,
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
