"""What Ray Train adds: the same training function in two workers of Ray Train and of torchrun.

The function, its sinks and its watch for stop notices are those of a real run on both sides, and
each worker is bound to a core of its own after its process group has been set up. Counted is the
time of day from the end of step 5 to the end of the last step, so all that happens between two
steps is in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.two_workers import FIRST, ROUNDS, STEPS, pin, prepare, two_cores

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SIDES = {"torchrun": TORCHRUN, "Ray Train": [sys.executable]}


def run(data: Path) -> dict[str, Any]:
    """Rounds of both, in turn and in changing order; invented ids need no data.

    Raises:
        Skipped: there are no two cores, or processes cannot be bound to them.
    """
    del data
    cores = two_cores()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for turn in range(ROUNDS):
            order = list(SIDES) if turn % 2 == 0 else list(reversed(SIDES))
            rounds.append({side: steps_per_second(Path(folder), side, turn) for side in order})
    added = sorted(speeds["torchrun"] / speeds["Ray Train"] - 1 for speeds in rounds)
    return {
        "cores": cores,
        "steps_per_second": {side: [round(speeds[side], 3) for speeds in rounds] for side in SIDES},
        "ray_adds": [round(share, 4) for share in added],
        "ray_adds_median": round(median(added), 4),
        "target": 0.03,
    }


def steps_per_second(folder: Path, side: str, turn: int) -> float:
    """Of one training, by the time at which its own event files say that steps ended."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    name = f"{turn}-{side.replace(' ', '-')}"
    command = [*SIDES[side], "-m", "tests.benchmarks.ray_overhead", side, str(folder), name]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=Path.cwd())
    assert done.returncode == 0, done.stdout + done.stderr
    board = folder / "store" / "runs" / name / "tensorboard"
    found = EventAccumulator(str(board), size_guidance={"scalars": 0}).Reload()
    ends = {event.step: event.wall_time for event in found.Scalars("train/loss")}
    assert list(ends) == list(range(1, STEPS + 1))
    return float((STEPS - FIRST) / (ends[STEPS] - ends[FIRST]))


def config_of(folder: Path, name: str) -> dict[str, Any]:
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
    }


def on_torchrun(folder: Path, name: str) -> None:
    """A worker of torchrun: the function that Ray Train's workers run."""
    import torch

    from model import ray_train
    from model.distributed import Worker
    from pipelines.core.store import Store

    torch.distributed.init_process_group("gloo")
    worker = Worker(torch.distributed.get_rank(), torch.distributed.get_world_size())
    pin(two_cores()[worker.rank])
    torch.set_num_threads(1)
    ray_train.draining_nodes = list  # outside Ray there are none to ask for
    config = config_of(folder, name)
    ray_train.pretrain_in_worker(config, Store(config["store"]), worker)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def pinned_in_worker(config: dict[str, Any]) -> dict[str, Any]:
    """What `model.ray_train` runs in a worker, on a core of its own."""
    import ray.train

    from model.ray_train import in_worker

    pin(two_cores()[ray.train.get_context().get_world_rank()])
    return in_worker(config)


def on_ray(folder: Path, name: str) -> None:
    """Start a Ray of its own, and train in two workers of it."""
    import ray

    from model import ray_train
    from model.config import ClusterSection

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path.cwd())}},
    )
    ray_train.in_worker = pinned_in_worker  # in this process, which hands it to Ray
    with tempfile.TemporaryDirectory() as scratch:
        ray_train.start_trainer(config_of(folder, name), ClusterSection(num_workers=2), scratch)
    ray.shutdown()


if __name__ == "__main__":
    {"torchrun": on_torchrun, "Ray Train": on_ray}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
