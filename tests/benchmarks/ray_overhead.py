"""The same loop under Ray Train and in plain gloo workers: two workers, pinned to one core each,
real tokens per second inside the loop from step 5 to the end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.machine import Skipped
from tests.benchmarks.two_workers import ROUNDS, in_process, prepare, speed_of


def run(data: Path) -> dict[str, Any]:
    """Rounds of both, one after the other; invented ids need no data.

    Raises:
        Skipped: there are no two cores, or processes cannot be bound to them.
    """
    del data
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        raise Skipped("needs two cores and a system that binds processes to them (Linux)")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        rounds = [
            (in_process(Path(folder), 2, f"{turn}-plain"), on_ray(Path(folder), f"{turn}-ray"))
            for turn in range(ROUNDS)
        ]
    added = sorted(plain / under_ray - 1 for plain, under_ray in rounds)
    return {
        "tokens_per_second": {
            "plain gloo workers": [round(plain) for plain, _ in rounds],
            "Ray Train": [round(under_ray) for _, under_ray in rounds],
        },
        "ray_adds": [round(share, 4) for share in added],
        "ray_adds_median": round(added[len(added) // 2], 4),
        "target": 0.03,
    }


def on_ray(folder: Path, name: str) -> float:
    """Tokens per second of the same training under Ray Train, with a Ray of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.ray_overhead", str(folder), name]
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    return float(done.stdout.splitlines()[-1])


def pin_workers() -> None:
    """Bind the Ray Train workers below this process to a core each, as soon as they are there."""
    import psutil

    found: list[psutil.Process] = []
    while len(found) < 2:
        time.sleep(0.2)
        found = [
            child
            for child in psutil.Process().children(recursive=True)
            if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::RayTrainWorker")
        ]
    for _ in range(20):  # threads that are made later inherit the core of the one that makes them
        for core, worker in enumerate(found):
            for thread in worker.threads():
                os.sched_setaffinity(thread.id, {core})
        time.sleep(0.2)


def train(folder: Path, name: str) -> None:
    """Start Ray, and train in two workers of it."""
    import json

    import ray

    from model.config import ClusterSection
    from model.ray_train import start_trainer

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path.cwd())}},
    )
    threading.Thread(target=pin_workers, daemon=True).start()
    config = {
        "loop": "pretrain",
        "job": json.loads((folder / "job.json").read_bytes()),
        "store": str(folder / "store"),
        "folder": name,
        "stop_key": f"{name}/stop.json",
        "unit_id": name,
        "run": name,
        "use_gpu": False,
        "cpus_per_worker": 1,
    }
    with tempfile.TemporaryDirectory() as scratch:
        start_trainer(config, ClusterSection(), scratch)
    ray.shutdown()


if __name__ == "__main__":
    train(Path(sys.argv[1]), sys.argv[2])
    print(speed_of(Path(sys.argv[1]), sys.argv[2]))
