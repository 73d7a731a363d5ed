"""A driver killed with -9 in the middle of packing and of pretraining, and run again.

What comes out must be what an undisturbed run gives: the same shards by checksum, the same loss.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flows.config import resolve, to_toml
from pipelines.core.manifest import read_json, read_stage
from pipelines.core.run_file import config_key
from pipelines.core.store import Store
from pipelines.run_stage import STAGES
from pipelines.sources.sample_mirror import mirror_folder, serve

ROOT = Path(__file__).resolve().parents[2]
RUN = "kill"
SETTINGS = [
    f"run.name='{RUN}'",
    "run.languages=['de', 'fi', 'sw', 'ja', 'ru', 'ar', 'hi', 'tr']",
    "vocabulary.size=4000",
    "packing.length=64",
    "encoder.layers=2",
    "encoder.hidden_size=64",
    "encoder.heads=2",
    "encoder.feed_forward_size=128",
    "encoder.dropout=0.1",
    "pretraining.steps=60",
    "pretraining.warmup_steps=5",
    "pretraining.sequences_per_step=16",
    "pretraining.sequences_per_micro_batch=8",
    "pretraining.evaluate_every_steps=30",
    "pretraining.checkpoint_every_steps=10",
    "pretraining.log_every_steps=5",
]
DATA_STAGES = list(STAGES)


class Driver:
    """Runs the drivers of stages as a person or a Ray job would: `python -m ...`."""

    def __init__(self, store: Store, address: str, mirror: str) -> None:
        self.store = store
        self.environment = {
            **os.environ,
            "RAY_ADDRESS": address,
            "BABELMILL_SAMPLE_MIRROR": mirror,
            "PYTHONUNBUFFERED": "1",
        }
        store.publish_bytes(config_key(RUN), to_toml(resolve("demo", None, SETTINGS)))

    def start(self, stage: str) -> subprocess.Popen[str]:
        module = "pipelines.run_stage" if stage in DATA_STAGES else "model.run_train"
        command = [sys.executable, "-m", module, stage, "--store", self.store.url, "--run", RUN]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=ROOT,
        )

    def finish(self, stage: str) -> str:
        process = self.start(stage)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0, output
        return output

    def kill_when(self, stage: str, pattern: str) -> None:
        """Kill the driver with -9 as soon as it prints a line that matches."""
        process = self.start(stage)
        assert process.stdout is not None
        seen = []
        for line in process.stdout:
            seen.append(line)
            if re.search(pattern, line):
                os.kill(process.pid, signal.SIGKILL)
                break
        process.stdout.close()
        assert process.wait(60) == -signal.SIGKILL, "".join(seen)


def packed(store: Store) -> dict[str, str]:
    return {output.path: output.sha256 for output in read_stage(store, RUN, "pack").outputs}


def metrics(store: Store) -> dict:
    [output] = read_stage(store, RUN, "pretrain").outputs_of(part="metrics")
    return read_json(store, output)


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_a_killed_run_ends_where_an_undisturbed_one_does(tmp_path: Path, local_ray: None) -> None:
    import ray

    address = ray.get_runtime_context().gcs_address
    with serve(mirror_folder(ROOT / ".babelmill" / "sample-mirror")) as mirror:
        straight = Driver(Store(str(tmp_path / "straight")), address, mirror)
        for stage in DATA_STAGES[:-1]:
            straight.finish(stage)
        shutil.copytree(tmp_path / "straight", tmp_path / "killed")
        killed = Driver(Store(str(tmp_path / "killed")), address, mirror)
        for stage in ("pack", "pretrain"):
            straight.finish(stage)

    killed.kill_when("pack", r"\[pack\] [1-9]\d*/\d+ files \|")
    assert len(killed.store.keys("runs/kill/packed/_manifests")) >= 1
    with pytest.raises(FileNotFoundError):
        packed(killed.store)
    again = killed.finish("pack")
    assert re.search(r"\[pack\] [1-9]\d* of \d+ files already finished", again), again
    assert packed(killed.store) == packed(straight.store)

    killed.kill_when("pretrain", r"step (2[5-9]|3\d|4\d)/60")
    continued = killed.finish("pretrain")
    assert re.search(r"[1-5]0 of 60 steps already finished", continued), continued
    ours, theirs = metrics(killed.store), metrics(straight.store)
    assert ours["final_loss"] == pytest.approx(theirs["final_loss"], abs=1e-6)
    assert [row["step"] for row in ours["log"]] == list(range(5, 61, 5))
    assert [row["loss"] for row in ours["log"]] == [row["loss"] for row in theirs["log"]]
    assert ours["evaluations"] == theirs["evaluations"]

    for stage in [*DATA_STAGES, "pretrain"]:
        record = read_stage(killed.store, RUN, stage)
        if stage != "extract":  # its sources are gone now, so nothing could be read again
            killed.finish(stage)
            assert read_stage(killed.store, RUN, stage).reused == record.units
