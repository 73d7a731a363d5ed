"""Exact resume: a process is killed with signal 9, and what comes out is what would have."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from model import pretrain
from model.checkpoint import Checkpoint, latest_complete, steps_present
from model.data.batches import Batch
from model.data.training_data import TrainingData
from model.distributed import Worker
from model.plan import RunInputs, pretraining_job
from model.pretraining_job import PretrainingJob
from pipelines.core.config import merge
from pipelines.core.store import Store

from .gloo_workers import exit_codes, run_in_workers
from .tiny import build, tiny_config

STEPS, SAVED, KILLED = 20, 10, 13
Outcome = tuple[Checkpoint, dict[tuple[int, int], Any]]
RECIPE: dict[str, Any] = {
    "steps": STEPS,
    "sequences_per_step": 7,  # micro-batches of 2, 2, 2 and 1
    "batches": [{"until": 0.4, "sequences": 5}],
    "lengths": [{"until": 0.3, "length": 12}],
    "warmup_steps": 3,
    "schedule": "trapezoid",
    "decay_share": 0.3,
    "evaluate_every_steps": 4,
    "checkpoint_every_steps": SAVED,
    "log_every_steps": 1,
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(str(tmp_path_factory.mktemp("tiny") / "store"))
    build(store, tiny_config())
    return store


def job_of(store: Store, **changes: Any) -> PretrainingJob:
    job = pretraining_job(RunInputs(store, "tiny")).model_dump(mode="json")
    assert job["encoder"]["dropout"] > 0
    return PretrainingJob.model_validate(merge(job, {"pretraining": RECIPE | changes}))


class Kill:
    """Kills its own process -9 at a step, once an earlier checkpoint is on the store."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        if kind != "train" or step != KILLED:
            return
        while SAVED not in whole_steps(self.store, self.folder):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        raise AssertionError("nobody is left to close it")


def whole_steps(store: Store, folder: str) -> set[int]:
    manifests = [key for key in store.keys(folder) if key.endswith("/manifest.json")]
    return {int(key.split("/")[-2].removeprefix("step-")) for key in manifests}


def train(
    worker: Worker, job: PretrainingJob, url: str, folder: str, scratch: str, kill: bool
) -> None:
    """Train, and write down which sequences and masks each step had."""
    store = Store(url)

    class Recorded(TrainingData):
        def micro_batches(self, step: int, worker: Worker) -> list[Batch]:
            batches = super().micro_batches(step, worker)
            with Path(scratch, f"{folder.replace('/', '_')}.jsonl").open("a") as file:
                for batch in batches:
                    masks = [batch.masked.tolist(), batch.labels.tolist()]
                    row = [step, batch.number, batch.sequence_ids, masks]
                    file.write(json.dumps(row) + "\n")
            return batches

    sinks = [Kill(store, folder)] if kill else []
    plain, pretrain.TrainingData = pretrain.TrainingData, Recorded  # type: ignore[misc]
    try:
        pretrain.pretrain(job, store, folder, worker, Path(scratch, "cache"), sinks=sinks)
    finally:
        pretrain.TrainingData = plain  # type: ignore[misc]


def batches_seen(folder: str, scratch: Path) -> dict[tuple[int, int], Any]:
    """By step and number; a batch that was made twice was the same both times."""
    seen: dict[tuple[int, int], Any] = {}
    path = scratch / f"{folder.replace('/', '_')}.jsonl"
    for line in path.read_text().splitlines():
        step, number, *what = json.loads(line)
        assert seen.setdefault((step, number), what) == what
    return seen


def result_of(store: Store, folder: str) -> Checkpoint:
    found, passed_over = latest_complete(store, folder)
    assert found is not None and found.step == STEPS, passed_over
    return found


def killed_and_continued(
    store: Store, job: PretrainingJob, scratch: Path, before: int, after: int
) -> Outcome:
    """10 steps and some more, kill -9, and 10 from the checkpoint; at these numbers of workers."""
    folder = f"runs/tiny/checkpoints/{scratch.name}-killed"
    arguments = (job, store.url, folder, str(scratch))
    codes = exit_codes(before, train, *arguments, True)
    assert codes[0] == -signal.SIGKILL and all(codes), codes
    assert max(whole_steps(store, folder)) == SAVED
    assert max(steps_present(store, folder)) == SAVED
    if after == 1:
        train(Worker(), *arguments, False)
    else:
        run_in_workers(after, train, *arguments, False)
    return result_of(store, folder), batches_seen(folder, scratch)


@pytest.fixture(scope="module")
def straight(tiny: Store, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """The undisturbed run of one worker, by precision; computed once."""

    @cache
    def run(precision: str) -> Outcome:
        scratch = tmp_path_factory.mktemp("straight")
        folder = f"runs/tiny/checkpoints/straight-{precision}"
        train(Worker(), job_of(tiny, precision=precision), tiny.url, folder, str(scratch), False)
        return result_of(tiny, folder), batches_seen(folder, scratch)

    return run


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_twenty_steps_are_ten_a_kill_and_ten_bit_for_bit(
    tiny: Store,
    tmp_path: Path,
    straight: Callable[[str], Outcome],
    precision: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = job_of(tiny, precision=precision)
    wanted, batches = straight(precision)
    capsys.readouterr()
    found, seen = killed_and_continued(tiny, job, tmp_path, before=1, after=1)
    lines = [line for line in capsys.readouterr().out.splitlines() if "| loss" in line]
    assert f"step {SAVED + 1}/{STEPS}" in lines[0], "C44 d: on with the next step, not with 1"
    assert seen == batches and {step for step, _ in seen} == set(range(STEPS))
    for part in ("model", "optimizer"):
        own, other = getattr(found, part), getattr(wanted, part)
        assert own.keys() == other.keys()
        assert all(torch.equal(own[name], other[name]) for name in own)
    log = found.training["log"]
    assert [row["step"] for row in log] == list(range(1, STEPS + 1))
    for name in wanted.training.keys() - {"speed", "checkpoint_notes"}:
        assert found.training[name] == wanted.training[name], name
    assert found.training["last_losses"] == [row["loss"] for row in log], (
        "what spikes are judged by"
    )
    first, again = log[0]["loss"], log[SAVED]["loss"]
    assert again < first - 0.1, "C44 c: it is not back at the loss of a fresh model"


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_at_another_number_of_workers_ids_are_the_same_and_losses_within_1e_5(
    tiny: Store, tmp_path: Path, straight: Callable[[str], Outcome], before: int, after: int
) -> None:
    job = job_of(tiny)
    wanted, batches = straight("float32")
    found, seen = killed_and_continued(tiny, job, tmp_path, before, after)
    assert seen == batches
    assert found.training["tokens_seen"] == wanted.training["tokens_seen"]
    for own, other in zip(found.training["log"], wanted.training["log"], strict=True):
        assert own["step"] == other["step"]
        assert own["learning_rate"] == other["learning_rate"]
        assert own["loss"] == pytest.approx(other["loss"], abs=1e-5)
    for own, other in zip(
        found.training["evaluations"], wanted.training["evaluations"], strict=True
    ):
        for language, row in other["languages"].items():
            assert own["languages"][language]["tokens"] == row["tokens"]
            assert own["languages"][language]["loss_sum"] == pytest.approx(
                row["loss_sum"], abs=1e-5 * row["tokens"]
            )
