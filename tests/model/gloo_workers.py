"""Run a function in several gloo workers, without Ray."""

from __future__ import annotations

import os
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from model.distributed import Worker

PATIENCE = timedelta(seconds=120)
IMPATIENT = timedelta(seconds=6)


def _enter(
    rank: int,
    world_size: int,
    meeting: str,
    work: Callable[..., None],
    args: Any,
    patience: timedelta = PATIENCE,
) -> None:
    torch.set_num_threads(1)
    # One may have begun much later than another: a short patience is for what comes after.
    Path(f"{meeting}-{rank}").touch()
    while not all(Path(f"{meeting}-{other}").exists() for other in range(world_size)):
        time.sleep(0.05)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size, timeout=patience
    )
    try:
        work(Worker(rank, world_size), *args)
        # A rank that hangs up while another still reads from it would take that one down.
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()
    # Not through the interpreter's shutdown, in which a thread of gloo's now and then aborts the
    # process ("terminate called without an active exception") after all work is done.
    os._exit(0)


def run_in_workers(
    world_size: int, work: Callable[..., None], *args: Any, patience: timedelta = PATIENCE
) -> None:
    """Call `work(worker, *args)` in each of `world_size` processes; an error in one is raised.

    With a patience of IMPATIENT no worker may keep the others waiting in a collective.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        mp.spawn(_enter, (world_size, meeting, work, args, patience), nprocs=world_size)


def _enter_to_fail(*args: Any) -> None:
    try:
        _enter(*args)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def exit_codes(world_size: int, work: Callable[..., None], *args: Any) -> list[int]:
    """As `run_in_workers`, where workers are to fail: how each ended, by rank.

    1 after an exception, minus the signal's number after a signal.
    """
    spawn = mp.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        processes = [
            spawn.Process(target=_enter_to_fail, args=(rank, world_size, meeting, work, args))
            for rank in range(world_size)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(2 * PATIENCE.total_seconds())
        codes = [process.exitcode for process in processes]
        for process in processes:
            process.kill()
    assert None not in codes, f"a worker hung: {codes}"
    return [int(code) for code in codes if code is not None]
