"""What Ray Train adds: the same training function in workers of Ray Train and of torchrun.

The function, its sinks and its watch for stop notices are those of a real run on both sides, and
each of two workers is bound to a core of its own after its process group has been set up. Counted
is the time of day between the ends of steps, from step 5 to the last, so all that happens between
two steps is in it; the median step of all rounds counts: cores of a shared machine come and go.

Ray's own processes (a dozen: control store, agents, actors that watch) take their time from
somewhere. With one worker another core is free for them, which is how a node with more cores than
workers is; two workers leave them nothing on two cores. Both are measured, and what they take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.benchmarks.two_workers import FIRST, STEPS, pin, prepare, two_cores

SIDES = ("torchrun", "Ray Train")
ROUNDS = 3
"""One pair of runs differs by more than Ray adds, where cores are shared; the median counts."""
BUSY = 0.7
"""Of a core: what a worker takes between two looks while it trains."""


def run(data: Path) -> dict[str, Any]:
    """Rounds of both, in turn and in changing order; invented ids need no data.

    Raises:
        Skipped: there are no two cores, or processes cannot be bound to them.
    """
    del data
    figures: dict[str, Any] = {"cores": two_cores(), "target": 0.03}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for workers, shown in ((1, "one worker, a core free"), (2, "two workers, no core free")):
            rounds = [
                {side: steps_of(Path(folder), side, workers, turn) for side in order_of(turn)}
                for turn in range(ROUNDS)
            ]
            figures[shown] = figures_of(rounds)
    return figures


def order_of(turn: int) -> list[str]:
    """Each side goes first in every other round."""
    return list(SIDES) if turn % 2 == 0 else list(reversed(SIDES))


def figures_of(rounds: list[dict[str, Steps]]) -> dict[str, Any]:
    """What Ray adds to the median step, and by rounds; the cores that all other processes took."""
    typical = {side: median([s for one in rounds for s in one[side].seconds]) for side in SIDES}
    return {
        "ray_adds": round(typical["Ray Train"] / typical["torchrun"] - 1, 4),
        "seconds_of_a_step": {side: round(seconds, 4) for side, seconds in typical.items()},
        "ray_adds_by_round": [
            round(median(one["Ray Train"].seconds) / median(one["torchrun"].seconds) - 1, 4)
            for one in rounds
        ],
        "cores_taken_beside_the_workers": {
            side: round(median(one[side].cores_beside for one in rounds), 3) for side in SIDES
        },
    }


class Steps(NamedTuple):
    """The steps of one training that count."""

    seconds: list[float]
    cores_beside: float
    """Processor time of the side's other processes over time of day, as a part of one core."""


def steps_of(folder: Path, side: str, workers: int, turn: int) -> Steps:
    """Of one training, by the time at which its own event files say that steps ended."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    name = f"{turn}-{workers}-{side.replace(' ', '-')}"
    command = [*launcher(side, workers), "-m", "tests.benchmarks.ray_overhead"]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with (folder / f"{name}.log").open("w+") as log:
        process = subprocess.Popen(
            [*command, side, str(folder), name, str(workers)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=Path.cwd(),
        )
        beside = cores_beside(process, workers)
        log.seek(0)
        assert process.returncode == 0, log.read()
    board = folder / "store" / "runs" / name / "tensorboard"
    found = EventAccumulator(str(board), size_guidance={"scalars": 0}).Reload()
    ends = {event.step: event.wall_time for event in found.Scalars("train/loss")}
    assert list(ends) == list(range(1, STEPS + 1))
    return Steps([ends[step] - ends[step - 1] for step in range(FIRST + 1, STEPS + 1)], beside)


def launcher(side: str, workers: int) -> list[str]:
    """What starts the program of a side, which on torchrun's is the worker's own."""
    if side == "Ray Train":
        return [sys.executable]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*torchrun, "--nproc-per-node", str(workers)]


def cores_beside(process: subprocess.Popen[bytes], workers: int) -> float:
    """Wait for its end; returns what the processes below it took, except for its workers.

    The workers are those that took most. Of the seconds in which each of them is busy the second
    half counts: before, Ray's workers still import.
    """
    import psutil

    samples: list[tuple[float, dict[int, float]]] = []
    while process.poll() is None:
        used = {}
        with suppress(psutil.Error):
            first = psutil.Process(process.pid)
            for one in (first, *first.children(recursive=True)):
                with suppress(psutil.Error):
                    used[one.pid] = sum(one.cpu_times()[:2])
        samples.append((time.monotonic(), used))
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    busy = []
    for (began, before), (ended, after) in pairwise(samples):
        taken = sorted((after[p] - before[p]) / (ended - began) for p in after.keys() & before)
        if len(taken) > workers and taken[-workers] > BUSY:
            busy.append(sum(taken[:-workers]))
    return median(busy[len(busy) // 2 :])


def config_of(folder: Path, name: str, workers: int) -> dict[str, Any]:
    """What a worker is given, on both sides."""
    return {
        "loop": "pretrain",
        "job": json.loads((folder / "job.json").read_bytes()),
        "store": str(folder / "store"),
        "folder": name,
        "stop_key": f"{name}/stop.json",
        "unit_id": f"{folder.name}-{name}",
        "run": name,
        "use_gpu": False,
        "cpus_per_worker": 1,
        "needs": {"CPU": 1.0},
        "most_workers": workers,
    }


def on_torchrun(folder: Path, name: str, workers: int) -> None:
    """A worker of torchrun: the function that Ray Train's workers run."""
    import torch

    from model.distributed import Worker
    from model.workers import ray_worker
    from pipelines.core.store import Store

    torch.distributed.init_process_group("gloo")
    worker = Worker(torch.distributed.get_rank(), torch.distributed.get_world_size())
    pin_among(worker.rank, worker.world_size)
    torch.set_num_threads(1)
    ray_worker.draining_nodes = list  # outside Ray there are none to ask for
    config = config_of(folder, name, workers)
    ray_worker.pretrain_in_worker(config, Store(config["store"]), worker)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def pin_among(rank: int, workers: int) -> None:
    """A core for each; one alone goes where the system puts it, out of the way of the others."""
    if workers > 1:
        pin(two_cores()[rank])


def pinned_in_worker(config: dict[str, Any]) -> dict[str, Any]:
    """What `model.workers.ray_worker` runs in a worker, on a core of its own."""
    import ray.train

    from model.workers.ray_worker import in_worker

    context = ray.train.get_context()
    pin_among(context.get_world_rank(), context.get_world_size())
    return in_worker(config)


def on_ray(folder: Path, name: str, workers: int) -> None:
    """Start a Ray of its own, and train in workers of it."""
    import ray

    from model.config import ClusterSection
    from model.workers import ray_train

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path.cwd())}},
    )
    ray_train.in_worker = pinned_in_worker  # in this process, which hands it to Ray
    with tempfile.TemporaryDirectory() as scratch:
        config = config_of(folder, name, workers)
        ray_train.start_trainer(config, ClusterSection(num_workers=workers), scratch)
    ray.shutdown()


if __name__ == "__main__":
    start = {"torchrun": on_torchrun, "Ray Train": on_ray}[sys.argv[1]]
    start(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
