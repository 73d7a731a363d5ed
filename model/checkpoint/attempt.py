"""Writing one checkpoint: what one worker of a group puts under the attempt's key.

With a sharded optimizer every worker writes its own shard and, after it, a small record, which says
so when the shard was lost. The first worker reads the records from the store, so no collective is
needed, and writes the manifest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from model.checkpoint.files import (
    MODEL,
    CheckpointFile,
    CheckpointManifest,
    Tensors,
    optimizer_file,
    publish_manifest,
    removed_on_failure,
    save_tensors,
    save_training,
    step_key,
    write_file,
)
from model.distributed import Worker
from pipelines.core.config import Config
from pipelines.core.store import Store

LONGEST_PAUSE_SECONDS = 1.0
HURRY_SECONDS = 20.0
"""Longest wait for the records of others once nobody writes one any more: a store may show them
late."""


class ShardsMissing(RuntimeError):
    """Other workers did not write their shards."""


class ShardRecord(Config):
    """What another worker than the first leaves beside its shard."""

    files: list[CheckpointFile] = []
    lost: str = ""
    """Why there is no shard."""


@dataclass(frozen=True)
class Content:
    """What goes into one checkpoint, of one worker."""

    step: int
    attempt: str
    """Name of the attempt, the same on all workers and of no other attempt."""
    model: Tensors
    """Of the first worker."""
    optimizer: Tensors
    training: bytes
    """JSON, of the first worker."""
    held_out_loss: float | None = None

    def key(self, folder: str) -> str:
        """The attempt's folder."""
        return f"{step_key(folder, self.step)}/{self.attempt}"


def write_shard(
    store: Store, folder: str, content: Content, worker: Worker
) -> list[CheckpointFile]:
    """Write the optimizer's shard of another worker than the first, and its record after it.

    When the shard is lost the record says so, as far as the store takes it: nobody waits in vain.
    """
    key = content.key(folder)
    files = []
    if content.optimizer:
        path = f"{key}/{optimizer_file(worker.rank, worker.world_size)}"
        try:
            files.append(write_file(store, path, partial(save_tensors, content.optimizer)))
        except Exception as error:  # a full disk: its room is given back, as far as that works
            with suppress(Exception):
                store.delete(path)
            with suppress(Exception):  # the error that is raised is the first one
                _leave(store, key, worker, ShardRecord(lost=f"{type(error).__name__}: {error}"))
            raise
    _leave(store, key, worker, ShardRecord(files=files))
    return files


def _leave(store: Store, key: str, worker: Worker, record: ShardRecord) -> None:
    content = record.model_dump_json().encode("utf-8")
    store.publish_bytes(_record_key(key, worker.rank), content)


def write_checkpoint(
    store: Store,
    folder: str,
    content: Content,
    worker: Worker,
    *,
    sharded: bool,
    others: Callable[[str], list[CheckpointFile]],
) -> CheckpointManifest:
    """Write the first worker's files, wait for the shards of the others, publish the manifest.

    Args:
        sharded: whether the others write shards.
        others: waits for their files under the attempt's key; see `wait_for_shards`.

    Raises:
        ShardsMissing: a shard was not written.
        CheckpointDamaged: a file is not there any more.
    """
    key = content.key(folder)
    shards = worker.world_size if sharded else 1
    with removed_on_failure(store, step_key(folder, content.step), content.attempt):
        files = [write_file(store, f"{key}/{MODEL}", partial(save_tensors, content.model))]
        if content.optimizer:
            path = f"{key}/{optimizer_file(worker.rank, shards)}"
            files.append(write_file(store, path, partial(save_tensors, content.optimizer)))
        files.append(save_training(store, key, content.training))
        if sharded:
            files += others(key)
        return publish_manifest(
            store,
            folder,
            content.step,
            content.attempt,
            files,
            world_size=worker.world_size,
            held_out_loss=content.held_out_loss,
        )


def wait_for_shards(
    store: Store, key: str, world_size: int, hurry: threading.Event
) -> list[CheckpointFile]:
    """The files that the other workers wrote under an attempt's key, by rank.

    However long that takes: only a worker knows whether it is still writing.

    Args:
        hurry: set when no other worker is writing any more, or when training has ended in an
            error; from then on HURRY_SECONDS is the longest to wait.

    Raises:
        ShardsMissing: a worker lost its shard, or left no record; names the workers.
    """
    began, end, pause = time.monotonic(), float("inf"), 0.05
    found: dict[int, list[CheckpointFile]] = {}
    while True:
        for rank in set(range(1, world_size)) - found.keys():
            try:
                content = store.read_bytes(_record_key(key, rank))
                record = ShardRecord.model_validate_json(content)
            except (FileNotFoundError, ValidationError):
                continue
            if record.lost:
                raise ShardsMissing(f"worker {rank} lost its shard of the optimizer: {record.lost}")
            found[rank] = record.files
        missing = sorted(set(range(1, world_size)) - found.keys())
        if not missing:
            return [file for rank in sorted(found) for file in found[rank]]
        now = time.monotonic()
        if hurry.is_set():
            end = min(end, now + HURRY_SECONDS)
        if now >= end:
            raise ShardsMissing(
                f"of {world_size} workers, {missing} wrote no shard of the optimizer under {key} "
                f"within {now - began:.0f} s"
            )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _record_key(key: str, rank: int) -> str:
    return f"{key}/worker-{rank:05d}.json"
