"""Which errors a restart would only repeat, and what a driver does with signals."""

from __future__ import annotations

import io
import signal

import pytest
import torch

from model.checkpoint import CheckpointDamaged
from model.config import ClusterSection
from model.update import LossSpikeError, NonFiniteError
from model.workers.failures import DriverStopped, reason_of, would_repeat
from model.workers.plain_output import PlainOutput
from pipelines.core.config import ConfigError
from pipelines.core.store import DamagedObject

REPEATED = [
    ConfigError("a setting"),
    DamagedObject("a file"),
    NonFiniteError("a loss"),
    LossSpikeError("a loss"),
    FileNotFoundError("an object"),
    PermissionError("an object"),
    KeyError("a mistake"),
    ValueError("a mistake"),
    AssertionError("a mistake"),
    ZeroDivisionError("a mistake"),
    torch.OutOfMemoryError("of the device"),
]
PASSING = [
    RuntimeError("Connection closed by peer"),
    torch.distributed.DistBackendError("NCCL"),
    ConnectionResetError("by peer"),
    TimeoutError("of the store"),
    OSError("please try again"),
    CheckpointDamaged("another is chosen"),
]


@pytest.mark.parametrize("error", REPEATED, ids=lambda error: type(error).__name__)
def test_what_would_come_again_uses_up_no_restart(error: Exception) -> None:
    assert would_repeat(error)


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_may_be_gone_is_tried_again(error: Exception) -> None:
    assert not would_repeat(error)


def test_our_own_errors_are_shown_as_they_are_and_others_with_their_kind() -> None:
    assert reason_of(DamagedObject("packed/x is damaged")) == "packed/x is damaged"
    assert reason_of(KeyError("x")) == "KeyError: 'x'"


def test_a_stopped_driver_ends_with_the_status_of_its_signal() -> None:
    assert DriverStopped(signal.SIGTERM).code == 143
    assert DriverStopped(signal.SIGINT).code == 130


def test_ray_waits_for_workers_as_the_configuration_says() -> None:
    from model.workers.ray_train import lost_workers, needs, waits

    cluster = ClusterSection(worker_timeout_seconds=7, pending_timeout_seconds=20)
    assert waits(cluster) == {
        "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "7",
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "20",
    }
    assert waits(ClusterSection())["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] == "30"
    assert needs(ClusterSection(use_gpu=True, cpus_per_worker=4)) == {"CPU": 4.0, "GPU": 1.0}
    told = lost_workers({1: RuntimeError("first\n\nlast line")}, cluster)
    assert "cluster.max_worker_failures = 3" in told
    assert told.endswith("worker 1: RuntimeError: last line")


def test_lines_of_workers_are_shown_as_they_wrote_them() -> None:
    stream = io.StringIO()
    shown = PlainOutput(stream)
    shown.write("(RayTrainWorker pid=5) [pretrain] step 1\n")
    shown.write("\x1b[36m(TrainController pid=5)\x1b[0m lost\n")
    shown.write("(PlacementGroupCleaner pid=6) Failed to query\n")
    shown.write("(TrainController pid=5) Actor with class name: 'PreemptionWatcher' and ID: 'x'\n")
    print("(PlacementGroupCleaner pid=6) printed, its end by itself", file=shown)
    shown.write("error: (RayTrainWorker pid=5) stays inside a line\n")
    assert stream.getvalue() == (
        "[pretrain] step 1\nlost\nerror: (RayTrainWorker pid=5) stays inside a line\n"
    )
