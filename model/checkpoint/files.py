"""What a checkpoint is on the store: files under an attempt's key, and a manifest written last.

    FOLDER/step-00000010/ATTEMPT/model.safetensors
    FOLDER/step-00000010/ATTEMPT/optimizer.safetensors    or optimizer-00001-of-00004.safetensors
    FOLDER/step-00000010/ATTEMPT/training.json
    FOLDER/step-00000010/manifest.json                    names the attempt and its files

No two writers share an attempt's key, so nothing that a manifest names is ever written over. The
files hold equal bytes for equal content; the manifest also says who wrote them and when.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors.torch import save_file

from pipelines.core.config import Config
from pipelines.core.manifest import host, sha256_of
from pipelines.core.store import Store, local_file

MODEL, OPTIMIZER, TRAINING = "model.safetensors", "optimizer.safetensors", "training.json"
MANIFEST = "manifest.json"
STEP_FOLDER = re.compile(r"/step-(\d{8,})/(.+)$")
Tensors = dict[str, torch.Tensor]
Wanted = bool | Callable[[str], bool]
"""All tensors, none, or those whose names the function is true for."""


class CheckpointDamaged(RuntimeError):
    """A checkpoint's manifest or one of its files is missing or is not what was written."""


class CheckpointFile(Config):
    """One file of a checkpoint."""

    name: str
    bytes: int
    sha256: str


class CheckpointManifest(Config):
    """What a checkpoint consists of, and who wrote it."""

    step: int
    """Updates done."""
    attempt: str
    """The folder of its files, below the step's."""
    files: list[CheckpointFile]
    world_size: int = 1
    """Workers of the group that wrote it; any number can load it."""
    host: str
    """Machine of the first worker."""
    written: str
    """When, in UTC: 2026-11-30T02:10:00+00:00."""
    held_out_loss: float | None = None
    """Nats per masked token over all languages; None where it was not measured at this step."""

    @property
    def resumable(self) -> bool:
        """Whether it holds an optimizer's state; results of fine-tuning do not."""
        return any(is_optimizer_file(file.name) for file in self.files)

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for file in self.files)


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


def optimizer_file(rank: int, shards: int) -> str:
    """Name of a worker's optimizer file; one file when the state is not sharded."""
    return OPTIMIZER if shards == 1 else f"optimizer-{rank:05d}-of-{shards:05d}.safetensors"


def is_optimizer_file(name: str) -> bool:
    """Whether a file of a checkpoint holds optimizer state."""
    return name.startswith("optimizer") and name.endswith(".safetensors")


def save_tensors(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write tensors as a safetensors file: the same bytes in whatever order they come."""
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


def write_file(store: Store, key: str, fill: Callable[[Path], None]) -> CheckpointFile:
    """Write one file of an attempt.

    On a folder of this machine the file is written in place, because nothing under an attempt's key
    counts before the manifest is there; for other stores it is finished on the local disk first.

    Args:
        fill: writes the content to a path.
    """
    if store.is_local:
        path = Path(store.path(key))
        path.parent.mkdir(parents=True, exist_ok=True)
        fill(path)
        return _described(path, key)
    with local_file() as path:
        fill(path)
        file = _described(path, key)
        store.publish_file(path, key)
    return file


def _described(path: Path, key: str) -> CheckpointFile:
    name = key.rpartition("/")[2]
    return CheckpointFile(name=name, bytes=path.stat().st_size, sha256=sha256_of(path))


def training_json(training: Mapping[str, Any]) -> bytes:
    """The training record as the bytes of its file."""
    return json.dumps(training).encode("utf-8")


def save_training(store: Store, key: str, content: bytes) -> CheckpointFile:
    """Write the training record of an attempt."""

    def fill(path: Path) -> None:
        path.write_bytes(content)

    return write_file(store, f"{key}/{TRAINING}", fill)


def publish_manifest(
    store: Store,
    folder: str,
    step: int,
    attempt: str,
    files: list[CheckpointFile],
    *,
    world_size: int = 1,
    held_out_loss: float | None = None,
) -> CheckpointManifest:
    """Make an attempt count, after looking whether all its files are there.

    Args:
        files: below FOLDER/STEP/ATTEMPT.
        held_out_loss: one that is no number (nothing was held out) counts as not measured.

    Raises:
        CheckpointDamaged: one is not; somebody else tidied up, or the store lost it.
    """
    manifest = CheckpointManifest(
        step=step,
        attempt=attempt,
        files=files,
        world_size=world_size,
        host=host(),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        held_out_loss=held_out_loss if math.isfinite(held_out_loss or 0.0) else None,
    )
    key = step_key(folder, step)
    check_sizes(key, manifest, store.sizes(f"{key}/{attempt}"))
    content = manifest.model_dump_json(indent=1).encode("utf-8")
    try:
        store.publish_bytes(f"{key}/{MANIFEST}", content)
    except IsADirectoryError:  # whoever made that folder, no checkpoint is in it
        store.delete(f"{key}/{MANIFEST}")
        store.publish_bytes(f"{key}/{MANIFEST}", content)
    return manifest


@contextmanager
def removed_on_failure(store: Store, key: str, attempt: str) -> Iterator[None]:
    """Remove what an attempt wrote when it fails, such as on a full disk, whose room it took.

    The error stays what it was: what cannot be removed now, the next checkpoint sweeps. Nothing is
    removed where the manifest names the attempt, or nobody can tell: a store may have taken it, and
    only its answer was lost.

    Args:
        key: the checkpoint's folder.
        attempt: the folder of the attempt's files, below it.
    """
    try:
        yield
    except Exception:
        with suppress(Exception):
            if not _counts(store, key, attempt):
                store.delete(f"{key}/{attempt}")
        raise


def _counts(store: Store, key: str, attempt: str) -> bool:
    try:
        return read_manifest(store, key).attempt == attempt
    except (FileNotFoundError, CheckpointDamaged):
        return False


def read_manifest(store: Store, key: str) -> CheckpointManifest:
    """Read the manifest of a checkpoint's folder.

    Raises:
        FileNotFoundError: there is no checkpoint at `key`.
        CheckpointDamaged: the manifest does not read.
    """
    try:
        content = store.read_bytes(f"{key}/{MANIFEST}")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"no checkpoint at {key} in {store.url}: no {MANIFEST} there"
        ) from None
    except IsADirectoryError:
        raise CheckpointDamaged(f"{key}/{MANIFEST}: is a folder") from None
    return parse_manifest(key, content)


def parse_manifest(key: str, content: bytes) -> CheckpointManifest:
    """Read a manifest's bytes.

    Raises:
        CheckpointDamaged: they are none, or do not name what every checkpoint has.
    """
    try:
        manifest = CheckpointManifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CheckpointDamaged(
            f"{key}/{MANIFEST}: not a manifest: {where}{': ' if where else ''}{first['msg']}"
        ) from None
    if not key.endswith(step_key("", manifest.step)):
        raise CheckpointDamaged(f"{key}/{MANIFEST}: is that of step {manifest.step}")
    if lacking := {MODEL, TRAINING} - {file.name for file in manifest.files}:
        raise CheckpointDamaged(f"{key}/{MANIFEST}: does not name {' and '.join(sorted(lacking))}")
    return manifest


def check_sizes(key: str, manifest: CheckpointManifest, sizes: Mapping[str, int]) -> None:
    """Look whether all files are there with their sizes, without reading them.

    Args:
        key: the checkpoint's folder.
        sizes: bytes by key, of all that is below `key`.

    Raises:
        CheckpointDamaged: a file is missing, or has another size; it is named.
    """
    for file in manifest.files:
        path = f"{key}/{manifest.attempt}/{file.name}"
        size = sizes.get(path)
        if size is None:
            raise CheckpointDamaged(f"{path}: not there")
        if size != file.bytes:
            raise CheckpointDamaged(
                f"{path}: not what was written: {size:,} bytes in place of {file.bytes:,}"
            )
