"""Two gloo workers, pinned to one core each, against one worker pinned to one core: the same global
batch (strong scaling), the same micro-batches, real tokens per second inside the loop, and what the
loop waits for its loader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.machine import Skipped

ROWS, LENGTH, TOKENS = 8_002, 128, 600_000
STEPS, FIRST = 25, 5
"""Steps of a run, and the first that counts: before it, memory and connections are set up."""
ROUNDS = 3
CHANGES: dict[str, Any] = {
    "encoder": {
        "layers": 4,
        "hidden_size": 256,
        "heads": 4,
        "feed_forward_size": 1024,
        "dropout": 0.1,
    },
    "pretraining": {
        "steps": STEPS,
        "warmup_steps": 5,
        "sequences_per_step": 32,
        "sequences_per_micro_batch": 8,
        "log_every_steps": 1,
        "evaluate_every_steps": STEPS,
        "checkpoint_every_steps": STEPS,
    },
}


def run(data: Path) -> dict[str, Any]:
    """Rounds of one worker and two, one after the other; invented ids need no data.

    Raises:
        Skipped: there are no two cores, or processes cannot be bound to them.
    """
    del data
    cores = two_cores()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        rounds = [
            {workers: in_process(Path(folder), workers, f"{turn}-{workers}") for workers in (1, 2)}
            for turn in range(ROUNDS)
        ]
    ratios = sorted(
        found[2]["tokens_per_second"] / found[1]["tokens_per_second"] for found in rounds
    )
    return {
        "scaling": "strong: a step has the same sequences with one worker and with two",
        "cores": cores,
        "tokens_per_second": each(rounds, "tokens_per_second", 0),
        "loader_idle_share": each(rounds, "loader_idle_share", 5),
        "times_one_worker": [round(ratio, 3) for ratio in ratios],
        "times_one_worker_median": round(median(ratios), 3),
        "loader_idle_share_median": {
            f"{workers} workers": round(
                median(found[workers]["loader_idle_share"] for found in rounds), 5
            )
            for workers in (1, 2)
        },
        "target": {"times_one_worker": 1.8, "loader_idle_share": 0.02},
    }


def each(rounds: list[dict[int, dict[str, float]]], name: str, digits: int) -> dict[str, Any]:
    """A figure of every round, with one worker and with two."""
    return {
        f"{workers} workers": [round(found[workers][name], digits) for found in rounds]
        for workers in (1, 2)
    }


def two_cores() -> list[int]:
    """Two of the cores that this process may use; not two threads of one where it has others.

    Raises:
        Skipped: there are no two, or processes cannot be bound to them.
    """
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        raise Skipped("needs two cores and a system that binds processes to them (Linux)")
    allowed = sorted(os.sched_getaffinity(0))
    apart = {siblings(core): core for core in reversed(allowed)}
    return sorted(apart.values())[:2] if len(apart) > 1 else allowed[:2]


def siblings(core: int) -> str:
    """The hardware threads that share that core, as Linux names them; itself where unknown."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    return path.read_text().strip() if path.is_file() else str(core)


def prepare(folder: Path) -> None:
    """Packed sequences and the job, in a folder."""
    from pipelines.core.config import merge
    from tests.benchmarks.reader import write_corpus

    _, job = write_corpus(folder, LENGTH, ROWS, TOKENS)
    (folder / "job.json").write_text(json.dumps(merge(job, CHANGES)), encoding="utf-8")


def in_process(folder: Path, workers: int, name: str) -> dict[str, float]:
    """Figures of a training in gloo workers that one process starts."""
    command = [sys.executable, "-m", "tests.benchmarks.two_workers", str(folder), str(workers)]
    done = subprocess.run(
        [*command, name], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def pin(core: int) -> None:
    """Bind every thread of this process, and those to come, to one core."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {core})


def train(worker: Any, folder: Path, name: str) -> None:
    """A worker of the training, on a core of its own."""
    from model.pretrain import pretrain
    from model.pretraining_job import PretrainingJob
    from pipelines.core.store import Store

    pin(two_cores()[worker.rank])
    job = PretrainingJob.model_validate_json((folder / "job.json").read_bytes())
    pretrain(job, Store(str(folder / "store")), name, worker, folder / f"cache-{name}")


def measured(folder: Path, name: str) -> dict[str, float]:
    """Of the steps that count, by the training's own record: real tokens per second of all workers,
    and the share of the time in which the first worker waited for its loader."""
    from model import checkpoint
    from pipelines.core.store import Store

    found, _ = checkpoint.latest_complete(Store(str(folder / "store")), name, optimizer=False)
    assert found is not None
    rows = [row for row in found.training["speed"] if row["step"] > FIRST]
    assert len(rows) == STEPS - FIRST
    # All rows are full, so that a step's time is one over its speed.
    seconds = [1 / row["tokens_per_second/real"] for row in rows]
    waited = sum(s * row["loader_idle_share"] for s, row in zip(seconds, rows, strict=True))
    return {
        "tokens_per_second": len(rows) / sum(seconds),
        "loader_idle_share": waited / sum(seconds),
    }


if __name__ == "__main__":
    from tests.model.gloo_workers import run_in_workers

    root, count, title = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    run_in_workers(count, train, root, title)
    print(json.dumps(measured(root, title)))
