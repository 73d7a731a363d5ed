"""Checkpoints on the store: files first, a manifest with sizes and digests last.

Only a checkpoint whose manifest is there and whose files match it is ever loaded; a half-written
or damaged one is passed over for the one before it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from model.distributed import Worker
from pipelines.core.config import Config
from pipelines.core.manifest import sha256_of
from pipelines.core.store import Store, local_file

MODEL, OPTIMIZER, TRAINING = "model.safetensors", "optimizer.safetensors", "training.json"
MANIFEST = "manifest.json"
STEP_FOLDER = re.compile(r"/step-(\d{8})/")
Tensors = dict[str, torch.Tensor]


class CheckpointDamaged(RuntimeError):
    """A checkpoint's manifest or one of its files is missing or is not what was written."""


class CheckpointFile(Config):
    """One file of a checkpoint."""

    name: str
    bytes: int
    sha256: str


class CheckpointManifest(Config):
    """What a checkpoint consists of."""

    step: int
    files: list[CheckpointFile]


@dataclass(frozen=True)
class Checkpoint:
    """All that training needs to go on."""

    step: int
    """Updates done."""
    model: Tensors
    optimizer: Tensors
    training: dict[str, Any]
    """Plain JSON: the log so far and what else the loop keeps."""


def step_key(folder: str, step: int) -> str:
    """The folder of one checkpoint."""
    return f"{folder}/step-{step:08d}"


def save(store: Store, folder: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; it counts once its manifest is there."""
    key = step_key(folder, checkpoint.step)
    # A leftover of the same step is not believed while its files are being replaced.
    store.delete(f"{key}/{MANIFEST}")
    files = []
    with local_file() as path:
        for name in (MODEL, OPTIMIZER, TRAINING):
            if name == TRAINING:
                path.write_text(json.dumps(checkpoint.training), encoding="utf-8")
            else:
                save_tensors(checkpoint.model if name == MODEL else checkpoint.optimizer, path)
            size = path.stat().st_size
            files.append(CheckpointFile(name=name, bytes=size, sha256=sha256_of(path)))
            store.publish_file(path, f"{key}/{name}")
    manifest = CheckpointManifest(step=checkpoint.step, files=files)
    store.publish_bytes(f"{key}/{MANIFEST}", manifest.model_dump_json(indent=1).encode("utf-8"))


def save_tensors(tensors: Tensors, path: Path) -> None:
    """Write tensors as a safetensors file."""
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


def load(store: Store, key: str) -> Checkpoint:
    """Load the checkpoint of a folder after comparing every file with the manifest.

    Raises:
        FileNotFoundError: there is no checkpoint at `key`.
        CheckpointDamaged: it is not whole; the file is named.
    """
    if not store.exists(f"{key}/{MANIFEST}"):
        raise FileNotFoundError(f"no checkpoint at {key} in {store.url}: no {MANIFEST} there")
    try:
        manifest = CheckpointManifest.model_validate_json(store.read_bytes(f"{key}/{MANIFEST}"))
    except ValidationError as error:
        raise CheckpointDamaged(f"{key}/{MANIFEST}: not a manifest: {error}") from None
    parts: dict[str, Any] = {}
    for file in manifest.files:
        with local_file() as path:
            try:
                store.filesystem.get_file(store.path(f"{key}/{file.name}"), str(path))
            except FileNotFoundError:
                raise CheckpointDamaged(f"{key}/{file.name}: not there") from None
            if path.stat().st_size != file.bytes or sha256_of(path) != file.sha256:
                raise CheckpointDamaged(f"{key}/{file.name}: not what was written")
            parts[file.name] = _read(path, file.name)
    return Checkpoint(manifest.step, parts[MODEL], parts[OPTIMIZER], parts[TRAINING])


def _read(path: Path, name: str) -> Any:
    if name == TRAINING:
        return json.loads(path.read_text(encoding="utf-8"))
    # Copied out of the file's memory map, because the file is about to go.
    return {key: tensor.clone() for key, tensor in load_file(path).items()}


def steps_present(store: Store, folder: str) -> list[int]:
    """Steps of which anything is there, whole or not, in ascending order."""
    found = {STEP_FOLDER.search(key) for key in store.keys(folder)}
    return sorted({int(match.group(1)) for match in found if match})


def latest_complete(store: Store, folder: str) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint of a folder, and why newer ones were passed over."""
    passed_over: list[str] = []
    for step in reversed(steps_present(store, folder)):
        try:
            return load(store, step_key(folder, step)), passed_over
        except (CheckpointDamaged, FileNotFoundError) as error:
            passed_over.append(str(error))
    return None, passed_over


def agreed(store: Store, folder: str, worker: Worker) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint that all workers go on from: the first one looks, the others load the same.

    Were each to look for itself, one could find a checkpoint that another did not see yet, and
    they would wait for each other for ever.

    Raises:
        CheckpointDamaged: a worker cannot load what the first one chose.
    """
    found, passed_over = latest_complete(store, folder) if worker.leads else (None, [])
    [step, *_] = worker.gather(found.step if found is not None else 0)
    if not worker.leads and step:
        found = load(store, step_key(folder, step))
    return found, passed_over


def delete_older(store: Store, folder: str, *, keep: int, newest: int) -> None:
    """Delete all but the last `keep` checkpoints up to `newest`.

    Later ones stay: the folder belongs to one binding, so those that are whole hold what this
    attempt will come to, and those that are not are never chosen.
    """
    present = [step for step in steps_present(store, folder) if step <= newest]
    for step in present:
        if step not in present[-keep:]:
            key = step_key(folder, step)
            # The manifest goes first: a half-deleted checkpoint must not look whole.
            store.delete(f"{key}/{MANIFEST}")
            store.delete(key)
