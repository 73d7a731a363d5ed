"""A real writing process is killed with SIGKILL at every kind of moment."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from model.checkpoint import CheckpointWriter, latest_complete, load, step_key, steps_present
from model.distributed import Worker
from pipelines.core.store import Store
from tests.model.checkpoint_child import HALT_AT, MOMENTS
from tests.model.checkpoints import FOLDER, made, same

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def writing(store: Store, moment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.model.checkpoint_child", store.url, moment]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_writer_leaves_the_checkpoint_before_or_the_whole_one(
    store: Store, moment: str
) -> None:
    with writing(store, moment) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
    whole = moment in ("after the manifest", "deleting")
    found, passed_over = latest_complete(store, FOLDER)
    assert same(found, made(HALT_AT if whole else 10))
    assert len(passed_over) == (0 if whole else 1)
    # The next one goes on, in its own attempt, and nothing of the killed one is left in the end.
    said: list[str] = []
    with CheckpointWriter(store, FOLDER, Worker(), keep=2, say=said.append) as writer:
        for step in (HALT_AT, 30):
            saved = made(step)
            writer.save(step, saved.model, saved.optimizer, saved.training)
    assert steps_present(store, FOLDER) == [HALT_AT, 30]
    for step in (HALT_AT, 30):
        assert same(load(store, step_key(FOLDER, step)), made(step))
    assert len(store.keys(FOLDER)) == 2 * 4
    assert len(said) == 1 or moment == "deleting"
    assert all("that unfinished checkpoints left" in sentence for sentence in said)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_any_time_no_finished_checkpoint_is_lost(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    with writing(store, "any") as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(dice.randint(2, 6))]
        time.sleep(dice.random() / 20)
        child.kill()
        lines += child.stdout.readlines()
    finished = int(lines[-1])
    found, passed_over = latest_complete(store, FOLDER)
    assert found is not None and found.step >= finished >= 2
    assert same(found, made(found.step, size=200_000))
    assert len(passed_over) <= 1
