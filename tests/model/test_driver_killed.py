"""The driver is killed with no chance to say good-bye; the next one goes on where it was."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint import latest_complete, steps_present
from pipelines.core.manifest import read_json, read_stage
from pipelines.core.store import Store

from .tiny import build, tiny_config

PROJECT = Path(__file__).resolve().parents[2]
STEPS = 900


def start(store: Store, output: Path) -> subprocess.Popen[bytes]:
    """Start a pretraining driver with a Ray of its own."""
    environment = {**os.environ, "RAY_ADDRESS": "local", "RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-m", "model.run_train", "pretrain", "--store", store.url]
    with output.open("wb") as file:
        return subprocess.Popen(
            [*command, "--run", "tiny"], cwd=PROJECT, env=environment, stdout=file, stderr=file
        )


def finish(store: Store, output: Path) -> str:
    """Run a driver to its end; returns what it printed."""
    process = start(store, output)
    try:
        status = process.wait(timeout=120)
    finally:
        process.kill()
    assert status == 0, output.read_text()
    return output.read_text()


def metrics_of(store: Store) -> Any:
    [output] = read_stage(store, "tiny", "pretrain").outputs_of(part="metrics")
    return read_json(store, output.path)


@pytest.mark.ray
def test_a_killed_driver_goes_on_from_its_last_checkpoint(store: Store, tmp_path: Path) -> None:
    training = {"steps": STEPS, "checkpoint_every_steps": 30, "evaluate_every_steps": 400}
    config = tiny_config(cluster={"num_workers": 2}, pretraining=training)
    straight = Store(str(tmp_path / "straight"))
    for one in (straight, store):
        build(one, config)
    finish(straight, tmp_path / "straight.log")

    victim = start(store, tmp_path / "victim.log")
    deadline = time.monotonic() + 90
    checkpoints = Path(store.path("runs/tiny/checkpoints"))
    try:
        while not list(checkpoints.glob("*/step-*/manifest.json")):
            assert victim.poll() is None, (tmp_path / "victim.log").read_text()
            assert time.monotonic() < deadline, "no checkpoint came"
            time.sleep(0.02)
    finally:
        victim.kill()
        victim.wait()
    [folder] = [f"runs/tiny/checkpoints/{path.name}" for path in checkpoints.iterdir()]
    before: list[int] = []
    while before != (now := steps_present(store, folder)):  # its workers end a moment later
        before = now
        time.sleep(3.0)
    found, _ = latest_complete(store, folder)
    assert found is not None and 0 < found.step < STEPS

    printed = finish(store, tmp_path / "second.log")
    assert f"{found.step} of {STEPS} steps already finished" in printed
    assert f"step {found.step + 1}/{STEPS} | loss" in printed
    assert f"step {found.step}/{STEPS} | loss" not in printed
    own, wanted = metrics_of(store), metrics_of(straight)
    assert [row["step"] for row in own["log"]] == list(range(1, STEPS + 1))
    assert [row["step"] for row in own["evaluations"]] == [0, 400, 800, STEPS]
    assert own["final_loss"] == pytest.approx(wanted["final_loss"], abs=1e-6)
    assert own["evaluations"] == wanted["evaluations"]
    assert own["tokens_seen"] == wanted["tokens_seen"]
    assert not Path(store.path(f"{folder}/ray")).exists()
