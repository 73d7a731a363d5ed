"""A step of pretraining with a vocabulary of 250,002, against transformers: speed and peak memory.

One step alone (step_sides.py), and training end to end with the loader (training_sides.py). Each
side is a process of its own on the same cores, with as many threads; the two take turns, so that a
busy machine is busy for both, and the best of the turns counts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.machine import Skipped, on_cores
from tests.benchmarks.step_sides import HEADS, LAYERS, LENGTH, MASKED, ROWS, SEQUENCES, SIZE
from tests.benchmarks.training_sides import write

CORES = 2
TURNS = int(os.environ.get("BABELMILL_BENCH_TURNS", "2"))
STEPS = int(os.environ.get("BABELMILL_BENCH_STEPS", "8"))
"""Steps of a turn that are measured; the median counts."""
PRECISIONS = ("float32", "bfloat16")


def run(data: Path) -> dict[str, Any]:
    """All figures; invented ids need no data."""
    del data
    for package in ("transformers", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise Skipped(f"the peer needs {package}")
    figures: dict[str, Any] = {
        "shape": {
            "rows": ROWS,
            "layers": LAYERS,
            "hidden_size": SIZE,
            "heads": HEADS,
            "tokens": LENGTH * SEQUENCES,
            "masked": MASKED,
        }
    }
    for precision in PRECISIONS:
        figures[f"step, {precision}"] = compared("step_sides", precision, str(STEPS))
    with TemporaryDirectory(prefix="babelmill-bench-") as folder:
        write(Path(folder))
        for precision in PRECISIONS:
            figures[f"end to end, {precision}"] = compared(
                "training_sides", precision, str(STEPS), folder
            )
    return figures


def compared(module: str, *arguments: str) -> dict[str, Any]:
    """Both sides of a module, by turns, and their ratios."""
    sides: dict[str, list[dict[str, Any]]] = {"ours": [], "theirs": []}
    for _ in range(TURNS):
        for side, found in sides.items():
            found.append(measured(module, side, *arguments))
    best = {
        side: {
            "tokens_per_second": round(max(turn["tokens_per_second"] for turn in turns), 1),
            "peak_megabytes": round(max(turn["peak_megabytes"] for turn in turns)),
            "threads": turns[0]["threads"],
            "seconds_per_step": [turn["seconds_per_step"] for turn in turns],
        }
        for side, turns in sides.items()
    }
    ours, peer = best["ours"], best["theirs"]
    return {
        "ours": ours,
        "transformers": peer,
        "times_the_speed": round(ours["tokens_per_second"] / peer["tokens_per_second"], 2),
        "memory_share": round(ours["peak_megabytes"] / peer["peak_megabytes"], 3),
    }


def measured(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON on the last line of one side, in a process of its own."""
    command = on_cores(CORES, [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments])
    threads = {"OMP_NUM_THREADS": str(CORES), "MKL_NUM_THREADS": str(CORES)}
    done = subprocess.run(
        command, env=os.environ | threads, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
