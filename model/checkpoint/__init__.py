"""Checkpoints on the store: saving, and choosing the one to go on from.

Only a checkpoint whose manifest is there and whose files match it is ever loaded; a half-written or
damaged one is passed over for the one before it. The format is in files.py. Saving while
training goes on is in writer.py, keeping and deleting in upkeep.py, and
checkpoints that a person names in names.py.
"""

from __future__ import annotations

import uuid
from functools import partial

from model.checkpoint.files import (
    MANIFEST,
    MODEL,
    OPTIMIZER,
    Checkpoint,
    CheckpointDamaged,
    CheckpointManifest,
    Tensors,
    Wanted,
    check_sizes,
    publish_manifest,
    read_manifest,
    removed_on_failure,
    save_tensors,
    save_training,
    step_key,
    training_json,
    write_file,
)
from model.checkpoint.names import find_named, is_checkpoint_name, named, run_checkpoints
from model.checkpoint.reading import read_files
from model.checkpoint.upkeep import Tidied, by_step, delete_older, whole_checkpoints
from model.checkpoint.writer import CheckpointLost, CheckpointWriter, Saved
from model.distributed import Worker
from pipelines.core.store import Store

__all__ = [
    "MANIFEST",
    "Checkpoint",
    "CheckpointDamaged",
    "CheckpointLost",
    "CheckpointManifest",
    "CheckpointUnreadable",
    "CheckpointWriter",
    "Saved",
    "Tensors",
    "Tidied",
    "agreed",
    "delete_older",
    "find_named",
    "is_checkpoint_name",
    "latest_complete",
    "load",
    "named",
    "read_manifest",
    "run_checkpoints",
    "save",
    "save_tensors",
    "step_key",
    "steps_present",
    "whole_checkpoints",
]


class CheckpointUnreadable(RuntimeError):
    """A worker could not read a checkpoint for a reason that is not the checkpoint's."""


def save(store: Store, folder: str, checkpoint: Checkpoint) -> CheckpointManifest:
    """Write a checkpoint and wait for it; it counts once its manifest is there.

    For results and for one worker; CheckpointWriter saves while training goes on.
    """
    attempt = uuid.uuid4().hex[:12]
    key = f"{step_key(folder, checkpoint.step)}/{attempt}"
    with removed_on_failure(store, step_key(folder, checkpoint.step), attempt):
        files = [write_file(store, f"{key}/{MODEL}", partial(save_tensors, checkpoint.model))]
        if checkpoint.optimizer:
            fill = partial(save_tensors, checkpoint.optimizer)
            files.append(write_file(store, f"{key}/{OPTIMIZER}", fill))
        files.append(save_training(store, key, training_json(checkpoint.training)))
        return publish_manifest(store, folder, checkpoint.step, attempt, files)


def load(store: Store, key: str, *, optimizer: Wanted = True) -> Checkpoint:
    """Load the checkpoint of a folder after comparing every file with the manifest.

    Args:
        key: of the step's folder, see `step_key`.
        optimizer: which tensors of the optimizer: all, none, or those whose names (PARAMETER/STATE)
            the function is true for. A worker of a sharded optimizer reads what it needs.

    Raises:
        FileNotFoundError: there is no checkpoint at `key`.
        CheckpointDamaged: it is not whole; the file is named.
    """
    return read_files(store, key, read_manifest(store, key), optimizer)


def steps_present(store: Store, folder: str) -> list[int]:
    """Steps of which anything is there, whole or not, in ascending order."""
    return sorted(by_step(store.sizes(folder)))


def latest_complete(
    store: Store, folder: str, *, optimizer: Wanted = True
) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint of a folder, and why newer ones were passed over.

    Raises:
        CheckpointUnreadable: the store cannot be read; that is no reason to begin anew.
    """
    return agreed(store, folder, Worker(), optimizer=optimizer)


def agreed(
    store: Store,
    folder: str,
    worker: Worker,
    *,
    optimizer: Wanted = True,
    resumable: bool = False,
) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint that all workers go on from, and why newer ones were passed over.

    The first worker looks for the newest one that has all its files, by their sizes; then all load
    it at the same time. If what one of them gets is not what was written, all pass it over. Were
    each to look for itself, one could find a checkpoint that another did not see yet, and they
    would wait for each other for ever. When it returns, no worker is reading any more.

    Args:
        optimizer: see `load`.
        resumable: whether one without an optimizer's state is passed over.

    Raises:
        CheckpointUnreadable: on all workers, when one of them cannot read the store.
    """
    passed_over: list[str] = []
    below: int | None = None
    while True:
        cause: Exception | None = None
        chosen, error = "", ""
        with worker.own_pace("looking for a checkpoint"):
            if worker.leads:
                try:
                    newest, reasons = _newest(store, folder, below, resumable)
                    passed_over += reasons
                    chosen = newest.model_dump_json() if newest is not None else ""
                except Exception as reason:  # whatever it is, the others must not wait for this one
                    cause, error = reason, _in_words(reason)
        [first, *_] = worker.gather((chosen, error, passed_over))
        chosen, error, passed_over = first
        if error:
            raise CheckpointUnreadable(f"{folder} in {store.url}: {error}") from cause
        if not chosen:
            return None, passed_over
        manifest = CheckpointManifest.model_validate_json(chosen)
        found, cause = None, None
        with worker.own_pace("reading a checkpoint"):
            try:
                found = read_files(store, step_key(folder, manifest.step), manifest, optimizer)
            except Exception as reason:  # whatever it is, the others must not wait for this one
                cause = reason
        damaged = isinstance(cause, CheckpointDamaged)
        outcomes = worker.gather((damaged, str(cause) if damaged else _in_words(cause)))
        errors = [f"worker {n}: {why}" for n, (bad, why) in enumerate(outcomes) if why and not bad]
        if errors:
            raise CheckpointUnreadable(f"{folder} in {store.url}: {'; '.join(errors)}") from cause
        damages = sorted({why for bad, why in outcomes if bad})
        if not damages:
            return found, passed_over
        passed_over = passed_over + damages
        below = manifest.step


def _newest(
    store: Store, folder: str, below: int | None, resumable: bool
) -> tuple[CheckpointManifest | None, list[str]]:
    """The newest checkpoint before step `below` that has all its files, by their sizes."""
    reasons: list[str] = []
    sizes = store.sizes(folder)
    for step in sorted(by_step(sizes), reverse=True):
        if below is not None and step >= below:
            continue
        key = step_key(folder, step)
        try:
            manifest = read_manifest(store, key)
            check_sizes(key, manifest, sizes)
            if resumable and not manifest.resumable:
                raise CheckpointDamaged(f"{key}/{MANIFEST}: names no file of the optimizer")
            return manifest, reasons
        except (CheckpointDamaged, FileNotFoundError) as error:
            reasons.append(str(error))
    return None, reasons


def _in_words(error: Exception | None) -> str:
    return f"{type(error).__name__}: {error}" if error is not None else ""
