"""The model stages as they are run: real Ray Train workers, one killed, a loss that explodes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from model.plan import RunInputs
from pipelines.core.manifest import read_json, read_stage
from pipelines.core.store import Store
from tests.model.tiny import build, tiny_config

ROOT = Path(__file__).resolve().parents[2]
TWO_WORKERS = {"num_workers": 2, "max_worker_failures": 2}
LONG = {"steps": 60, "checkpoint_every_steps": 5, "evaluate_every_steps": 30}


def prepared(store: Store, **sections: Mapping[str, Any]) -> Store:
    build(store, tiny_config(cluster=TWO_WORKERS, **sections))
    return store


def start(stage: str, store: Store) -> subprocess.Popen[str]:
    import ray

    command = [
        sys.executable,
        "-m",
        "model.run_train",
        stage,
        "--store",
        store.url,
        "--run",
        "tiny",
    ]
    address = ray.get_runtime_context().gcs_address
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "RAY_ADDRESS": address, "PYTHONUNBUFFERED": "1"},
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    return output


def metrics(store: Store) -> Any:
    [output] = read_stage(store, "tiny", "pretrain").outputs_of(part="metrics")
    return read_json(store, output)


def kill_a_training_worker() -> None:
    """Kill -9 one worker of the Ray that this test process started."""
    workers = [
        child
        for child in psutil.Process().children(recursive=True)
        if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::RayTrainWorker")
    ]
    assert len(workers) == 2, workers
    workers[1].send_signal(signal.SIGKILL)


@pytest.mark.ray
def test_the_stages_run_and_a_killed_worker_changes_nothing(
    tmp_path: Path, local_ray: None
) -> None:
    straight = prepared(Store(str(tmp_path / "straight")), pretraining=LONG)
    killed = prepared(Store(str(tmp_path / "killed")), pretraining=LONG)
    finish(start("pretrain", straight))

    process = start("pretrain", killed)
    deadline = time.monotonic() + 120
    while not [key for key in killed.keys("runs/tiny/checkpoints") if "00000010/manifest" in key]:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    kill_a_training_worker()
    output = finish(process)

    [resumed] = re.findall(r"\[pretrain\] (\d+) of 60 steps already finished", output)
    assert 10 <= int(resumed) < 60
    assert [row["step"] for row in metrics(killed)["log"]] == list(range(1, 61))
    assert [row["loss"] for row in metrics(killed)["log"]] == (
        [row["loss"] for row in metrics(straight)["log"]]
    )

    usage = metrics(killed)["usage"]
    assert usage == metrics(straight)["usage"]
    batch = tiny_config().pretraining.sequences_per_step
    assert sum(use["draws"] for use in usage) == 60 * batch

    finish(start("export", killed))
    finish(start("finetune", killed))
    [scores] = read_stage(killed, "tiny", "finetune").outputs_of(part="scores")
    table = read_json(killed, scores)
    judged = sum(row["count"] for row in table["test"]["per_language"].values())
    assert judged == table["counts"]["test"] > 0
    again = finish(start("finetune", killed))
    assert "1/1 task already finished" in again


@pytest.mark.ray
def test_a_loss_that_is_no_number_ends_at_once_and_names_the_step(
    store: Store, local_ray: None
) -> None:
    change = {"learning_rate": 1e30, "warmup_steps": 0, "max_gradient_norm": 0.0}
    process = start("pretrain", prepared(store, pretraining=change))
    output, _ = process.communicate(timeout=200)

    assert process.returncode == 1
    assert re.search(r"error: .*pretrain: TrainingFailed: step \d+: loss nan", output, re.DOTALL)
    assert "pretraining.learning_rate" in output
    assert output.count("12 steps to do") == 1  # no restart: it would only fail again


def test_a_stage_whose_input_is_missing_says_which(store: Store) -> None:
    with pytest.raises(FileNotFoundError, match="stage 'pack' of run 'tiny' has not finished"):
        RunInputs(store, "tiny").stage("pack")
