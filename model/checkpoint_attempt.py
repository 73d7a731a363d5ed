"""Writing one checkpoint: what one worker of a group puts under the attempt's key.

With a sharded optimizer every worker writes its own shard and, after it, a small record. The first
worker reads the records from the store, so no collective is needed, and writes the manifest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pydantic import TypeAdapter, ValidationError

from model.checkpoint_files import (
    MODEL,
    CheckpointFile,
    CheckpointManifest,
    Tensors,
    optimizer_file,
    publish_manifest,
    save_tensors,
    save_training,
    step_key,
    write_file,
)
from model.distributed import Worker
from pipelines.core.store import Store

LONGEST_PAUSE_SECONDS = 1.0
HURRY_SECONDS = 20.0
"""Longest wait for the shards of others once training ends in an error."""
RECORD = TypeAdapter(list[CheckpointFile])
"""What another worker than the first leaves beside its shard."""


class ShardsMissing(RuntimeError):
    """Other workers did not write their shards in time."""


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
    """Write the optimizer's shard of another worker than the first, and its record after it."""
    key = content.key(folder)
    files = []
    if content.optimizer:
        path = f"{key}/{optimizer_file(worker.rank, worker.world_size)}"
        files.append(write_file(store, path, partial(save_tensors, content.optimizer)))
    store.publish_bytes(_record_key(key, worker.rank), RECORD.dump_json(files))
    return files


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
        ShardsMissing: a shard was not written in time.
        CheckpointDamaged: a file is not there any more.
    """
    key = content.key(folder)
    shards = worker.world_size if sharded else 1
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
    store: Store, key: str, world_size: int, seconds: float, hurry: threading.Event
) -> list[CheckpointFile]:
    """The files that the other workers wrote under an attempt's key, by rank.

    Args:
        seconds: longest to wait.
        hurry: set when training has ended in an error; then HURRY_SECONDS is the longest.

    Raises:
        ShardsMissing: a worker left no record in time; names the workers.
    """
    began = time.monotonic()
    end, pause = began + seconds, 0.05
    found: dict[int, list[CheckpointFile]] = {}
    while True:
        for rank in set(range(1, world_size)) - found.keys():
            try:
                content = store.read_bytes(_record_key(key, rank))
                found[rank] = RECORD.validate_json(content)
            except (FileNotFoundError, ValidationError):
                continue
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
