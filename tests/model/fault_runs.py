"""Tiny trainings that are disturbed, and the one that is not.

A run is built once, and each test trains in a copy of its store. What an undisturbed training gives
comes from gloo workers without Ray, in a few seconds. Both are made once for all tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from model import checkpoint
from model.distributed import Worker
from model.plan import RunInputs, pretraining_job
from model.pretrain import pretrain
from pipelines.core.manifest import read_json, read_stage
from pipelines.core.store import Store
from tests.model.gloo_workers import run_in_workers
from tests.model.tiny import build, tiny_config, write_config

ROOT = Path(__file__).resolve().parents[2]
STEPS, INTERVAL, BATCH = 200, 20, 24
ENCODER = {"hidden_size": 128, "heads": 4, "feed_forward_size": 512}
"""A step takes about 45 milliseconds or more, so that there is a second between two checkpoints,
and training lasts longer than it takes to disturb it."""
TRAINING = {
    "steps": STEPS,
    "sequences_per_step": BATCH,
    "sequences_per_micro_batch": 4,
    "checkpoint_every_steps": INTERVAL,
    "evaluate_every_steps": STEPS,
    "learning_rate": 1e-3,
}
PATIENCE = 300.0
FINAL = ("log", "evaluations", "usage")


@cache
def built_run(base: Path) -> Store:
    """A store below that folder with a run that is ready for pretraining; read only."""
    store = Store(str(base / "fault-runs" / "built"))
    build(store, tiny_config(pretraining=TRAINING, encoder=ENCODER, cluster={"num_workers": 2}))
    return store


@cache
def undisturbed(base: Path) -> dict[str, Any]:
    """The record of a training of the same job in two workers without Ray; read only."""
    store = copy_of(built_run(base), base / "fault-runs" / "undisturbed")
    run_in_workers(2, _train, store.url)
    found, _ = checkpoint.latest_complete(store, "plain")
    assert found is not None
    return found.training


def copy_of(built: Store, folder: Path, **sections: Mapping[str, Any]) -> Store:
    """The same in a folder of its own, with changes to its configuration."""
    shutil.copytree(built.url, folder)
    store = Store(str(folder))
    changes: dict[str, Any] = {"pretraining": TRAINING, "encoder": ENCODER, **sections}
    changes["pretraining"] = TRAINING | dict(changes["pretraining"])
    write_config(store, tiny_config(**changes))
    return store


def _train(worker: Worker, url: str) -> None:
    store = Store(url)
    pretrain(pretraining_job(RunInputs(store, "tiny")), store, "plain", worker, Path(url) / "cache")


class Driver:
    """`python -m model.run_train STAGE`, as a person or a Ray job starts it."""

    def __init__(
        self, store: Store, address: str, stage: str = "pretrain", **environment: str
    ) -> None:
        command = [sys.executable, "-m", "model.run_train", stage, "--store", store.url]
        self.store, self.lines = store, list[str]()
        self.process = subprocess.Popen(
            [*command, "--run", "tiny"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "RAY_ADDRESS": address, "PYTHONUNBUFFERED": "1", **environment},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return "".join(self.lines)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first match of a pattern in what it prints."""
        found = re.compile(pattern)
        self.wait_until(lambda: found.search(self.output) is not None)
        match = found.search(self.output)
        assert match is not None
        return match

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Return when that is so, while the driver runs."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, self.output
            assert self.process.poll() is None, self.output
            time.sleep(0.02)

    def wait_for_step(self, step: int) -> None:
        """Return when a checkpoint of that step or a later one counts."""
        self.wait_until(lambda: any(s >= step for s in whole_steps(self.store)))

    def finish(self, status: int = 0) -> str:
        """Wait for its end; returns all that it printed."""
        self.process.wait(PATIENCE)
        self._reader.join(10)
        assert self.process.returncode == status, self.output
        return self.output


def whole_steps(store: Store) -> list[int]:
    """Steps of checkpoints whose manifest is there."""
    keys = store.keys("runs/tiny/checkpoints")
    found = {re.search(r"/step-(\d+)/manifest\.json$", key) for key in keys}
    return sorted(int(match[1]) for match in found if match)


def metrics(store: Store) -> dict[str, Any]:
    """metrics.json of the finished stage."""
    [output] = read_stage(store, "tiny", "pretrain").outputs_of(part="metrics")
    return dict(read_json(store, output))


def resumed_at(output: str) -> list[int]:
    """The steps that groups of workers found finished, in order."""
    return [int(step) for step in re.findall(r"\[pretrain\] (\d+) of \d+ steps already", output)]


def steps_in(lines: Iterable[str]) -> list[tuple[int, float]]:
    """The steps that were logged, with the loss that was shown."""
    found = (re.search(r"\[pretrain\] step (\d+)/\d+ \| loss ([\d.]+)", line) for line in lines)
    return [(int(match[1]), float(match[2])) for match in found if match]


def logged(output: str) -> list[list[tuple[int, float]]]:
    """`steps_in` of each group of workers in what a driver printed."""
    return [steps_in(part.splitlines()) for part in output.split("steps already finished")]


def check_lost(
    before: list[tuple[int, float]],
    again: list[tuple[int, float]],
    expected: Mapping[str, Any],
    intervals: int = 1,
) -> None:
    """Training went on right after its last checkpoint, as trained as it was, and no more steps
    than those of an interval are done again.

    Args:
        before: steps that were logged before the fault.
        again: steps that were logged after it.
        intervals: 2 where a checkpoint may still have been on its way when the fault came.
    """
    last, (first, loss) = before[-1][0], again[0]
    resumed = first - 1
    assert resumed in range(INTERVAL, STEPS, INTERVAL), "a checkpoint's step"
    assert last - resumed <= intervals * INTERVAL, f"from {last} back to {resumed}"
    assert [step for step, _ in again] == list(range(first, first + len(again)))
    log = expected["log"]
    assert abs(loss - log[first - 1]["loss"]) <= 0.0051  # two digits are shown
    assert log[first - 1]["loss"] < log[0]["loss"] - 0.1, "no longer that of a new model"


def check_same(store: Store, expected: Mapping[str, Any], *, exactly: bool = True) -> None:
    """The finished training is the undisturbed one, step by step."""
    found = metrics(store)
    assert [row["step"] for row in found["log"]] == list(range(1, STEPS + 1))
    if exactly:
        assert {name: found[name] for name in FINAL} == {name: expected[name] for name in FINAL}
        return
    assert found["usage"] == expected["usage"]
    pairs = zip(found["log"], expected["log"], strict=True)
    assert max(abs(a["loss"] - b["loss"]) for a, b in pairs) < 1e-5


def workers_of() -> list[psutil.Process]:
    """Ray Train's workers below this test process, wherever their Ray runs."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::RayTrainWorker"):
                found.append(child)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


class Group:
    """Two workers and the files they write to, found before the fault, so that it comes at once."""

    def __init__(self, driver: Driver) -> None:
        driver.wait_until(lambda: len(workers_of()) == 2)
        self.workers = workers_of()
        paths = {Path(file.path) for one in self.workers for file in one.open_files()}
        self._paths = [p for p in paths if p.name.startswith("worker-") and p.suffix == ".out"]

    def logged(self) -> list[tuple[int, float]]:
        """`steps_in` of what they have written so far; a driver has not shown all of it yet."""
        return steps_in(line for path in self._paths for line in path.read_text().splitlines())


def wait_until_no_worker_is_left() -> None:
    """Return when they are gone, at the latest with the patience of a test."""
    deadline = time.monotonic() + PATIENCE
    while workers_of():
        assert time.monotonic() < deadline
        time.sleep(0.1)
