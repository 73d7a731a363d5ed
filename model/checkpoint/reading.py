"""Reading the files of a checkpoint: nothing is used before its sha256 was compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import safe_open

from model.checkpoint.files import (
    TRAINING,
    Checkpoint,
    CheckpointDamaged,
    CheckpointFile,
    CheckpointManifest,
    Tensors,
    Wanted,
    check_sizes,
    is_optimizer_file,
)
from pipelines.core.manifest import sha256_of
from pipelines.core.store import Store


def read_files(
    store: Store, key: str, manifest: CheckpointManifest, optimizer: Wanted = True
) -> Checkpoint:
    """Read the files of a checkpoint, each compared with the manifest's sha256 before it is used.

    Args:
        key: the checkpoint's folder.
        optimizer: which of the optimizer's tensors. A shard with none of them is not transferred.

    Raises:
        CheckpointDamaged: a file is missing or is not what was written; it is named.
    """
    check_sizes(key, manifest, store.sizes(f"{key}/{manifest.attempt}"))
    model: Tensors = {}
    states: Tensors = {}
    training: dict[str, Any] = {}
    for file in manifest.files:
        path_key = f"{key}/{manifest.attempt}/{file.name}"
        if file.name == TRAINING:
            with _verified(store, path_key, file) as path:
                training = json.loads(path.read_text(encoding="utf-8"))
        elif not is_optimizer_file(file.name):
            with _verified(store, path_key, file) as path:
                model |= _tensors(path, True)
        elif _holds(store, path_key, optimizer):
            with _verified(store, path_key, file) as path:
                states |= _tensors(path, optimizer)
    return Checkpoint(manifest.step, model, states, training)


@contextmanager
def _verified(store: Store, key: str, file: CheckpointFile) -> Iterator[Path]:
    """A file as it was written, on this machine's disk; a bad transfer is made once more."""
    found = ""
    for _ in range(1 if store.is_local else 2):
        try:
            with store.on_disk(key) as path:
                found = sha256_of(path)
                if found == file.sha256:
                    yield path
                    return
        except FileNotFoundError:
            raise CheckpointDamaged(f"{key}: not there") from None
    raise CheckpointDamaged(
        f"{key}: not what was written: sha256 {found} in place of {file.sha256}"
    )


def _tensors(path: Path, wanted: Wanted) -> Tensors:
    with safe_open(path, framework="pt") as file:
        # Copied out of the file's memory map, because the file is about to go.
        return {
            name: file.get_tensor(name).clone()
            for name in file.keys()  # noqa: SIM118 - it is no mapping
            if wanted is True or (callable(wanted) and wanted(name))
        }


def _holds(store: Store, key: str, wanted: Wanted) -> bool:
    """Whether a safetensors file has any of the wanted tensors, by its header."""
    if isinstance(wanted, bool):
        return wanted
    length = int.from_bytes(store.read_range(key, 0, 8), "little")
    try:
        header = json.loads(store.read_range(key, 8, 8 + length))
    except ValueError:
        raise CheckpointDamaged(f"{key}: not what was written: no safetensors header") from None
    return any(wanted(name) for name in header if name != "__metadata__")
