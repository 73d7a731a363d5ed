"""Two gloo workers, pinned to one core each, against one worker pinned to one core: the same global
batch (strong scaling), the same micro-batches, real tokens per second inside the loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
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
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        raise Skipped("needs two cores and a system that binds processes to them (Linux)")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        rounds = [
            {workers: in_process(Path(folder), workers, f"{turn}-{workers}") for workers in (1, 2)}
            for turn in range(ROUNDS)
        ]
    ratios = sorted(speeds[2] / speeds[1] for speeds in rounds)
    return {
        "scaling": "strong: a step has the same sequences with one worker and with two",
        "tokens_per_second": {
            f"{workers} workers": [round(speeds[workers]) for speeds in rounds]
            for workers in (1, 2)
        },
        "times_one_worker": [round(ratio, 3) for ratio in ratios],
        "times_one_worker_median": round(ratios[len(ratios) // 2], 3),
        "target": 1.8,
    }


def prepare(folder: Path) -> None:
    """Packed sequences and the job, in a folder."""
    from pipelines.core.config import merge
    from tests.benchmarks.reader import write_corpus

    _, job = write_corpus(folder, LENGTH, ROWS, TOKENS)
    (folder / "job.json").write_text(json.dumps(merge(job, CHANGES)), encoding="utf-8")


def in_process(folder: Path, workers: int, name: str) -> float:
    """Tokens per second of a training in gloo workers that one process starts."""
    command = [sys.executable, "-m", "tests.benchmarks.two_workers", str(folder), str(workers)]
    done = subprocess.run(
        [*command, name], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    return float(done.stdout.splitlines()[-1])


def pin(core: int) -> None:
    """Bind every thread of this process, and those to come, to one core."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {core})


def train(worker: Any, folder: Path, name: str) -> None:
    """A worker of the training, on a core of its own."""
    from model.pretrain import pretrain
    from model.pretraining_job import PretrainingJob
    from pipelines.core.store import Store

    pin(worker.rank)
    job = PretrainingJob.model_validate_json((folder / "job.json").read_bytes())
    pretrain(job, Store(str(folder / "store")), name, worker, folder / f"cache-{name}")


def speed_of(folder: Path, name: str) -> float:
    """Real tokens per second of the steps that count, by the training's own record."""
    from model import checkpoint
    from pipelines.core.store import Store

    found, _ = checkpoint.latest_complete(Store(str(folder / "store")), name, optimizer=False)
    assert found is not None
    rows = [row for row in found.training["speed"] if row["step"] > FIRST]
    assert len(rows) == STEPS - FIRST
    return len(rows) / sum(1 / row["tokens_per_second/real"] for row in rows)


if __name__ == "__main__":
    from tests.model.workers import run_in_workers

    root, count, title = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    run_in_workers(count, train, root, title)
    print(speed_of(root, title))
