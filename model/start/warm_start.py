"""Weights to start pretraining from: a Hugging Face folder, or an earlier run of the store.

`start_point` looks at them in the driver (find_start.py), `starting_tensors` reads them in the
workers. Names of tensors are those of model/hugging_face; rows of another vocabulary are found by
grown_vocabulary.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file

from model.hugging_face.names import NamesMismatch, from_hugging_face
from model.start.find_start import start_point
from model.start.grown_vocabulary import AnyVocabulary, Ints, carried, plan_rows
from model.start.start_point import SETTING, StartPoint, identified
from pipelines.core.config import ConfigError
from pipelines.core.foreign import foreign_vocabulary
from pipelines.core.manifest import FileRef, sha256_of
from pipelines.core.store import Store, damaged
from pipelines.core.vocabulary import open_vocabulary

if TYPE_CHECKING:
    from model.heads import MaskedLanguageModel
    from model.pretraining_job import PretrainingJob

__all__ = ["start_point", "starting_tensors"]

Tensors = dict[str, torch.Tensor]
HEADS = ("dense.", "norm.", "bias", "pooler.", "next_sentence.")
"""What our model has beside the encoder; a checkpoint may lack it."""
UNUSED = ("position_ids", "token_type_ids", "inv_freq")
"""Endings of buffers that hold no weights."""


def starting_tensors(
    job: PretrainingJob, store: Store, model: MaskedLanguageModel
) -> tuple[Tensors, list[str]]:
    """The tensors that training begins with.

    Args:
        job: with a start point.
        model: as it was initialised; what the source lacks stays as it is there.

    Returns:
        A whole state dict for `model`, in its types, on the CPU; and notes for a person: what is
        new, what was left behind, rows by kind.

    Raises:
        ConfigError: a file is not what it was when the run was planned, or tensors are missing or
            of another shape; they are named.
        DamagedObject: a file of the store is not what was written.
    """
    start = job.start
    assert start is not None
    where, notes = f"{SETTING} = {start.name!r}", list(start.notes)
    found = read_weights(start, store, where)
    if start.layout is not None:
        try:
            found, left = from_hugging_face(found, start.layout, "masked")
        except NamesMismatch as error:
            raise ConfigError(f"{where}: {error}") from None
        left = [name for name in left if not name.endswith(UNUSED)]
        if left:
            notes.append(f"left behind, as this model has no such part: {_some(left)}")
    found = _as_float32(found, where)
    new = open_vocabulary(store, job.vocabulary, job.vocabulary_sha256)
    old, old_rows = _old_vocabulary(start, store, where)
    plan = plan_rows(new, old, old_rows)
    for name in ("encoder.words.weight", "bias"):
        if name in found:
            if not found[name].dim() or start.rows not in (None, len(found[name])):
                raise ConfigError(
                    f"{where}: {name} has the shape {tuple(found[name].shape)}, and config.json "
                    f"has vocab_size = {start.rows}: they do not belong together"
                )
            if len(found[name]) <= int(old_rows.max()):
                raise ConfigError(
                    f"{where}: {name} has {len(found[name])} rows, and its vocabulary "
                    f"{int(old_rows.max()) + 1}: they do not belong together"
                )
            notes += plan.notes(new, len(found[name])) if name != "bias" else []
            found[name] = carried(found[name], plan, job.seed)
    positions = "encoder.positions.weight"
    if positions in found and model.encoder.section.positions == "learned":
        found[positions] = found[positions][: job.length + job.encoder.first_position]
    return _fitted(found, model.state_dict(), where, notes), notes


def _as_float32(found: Tensors, where: str) -> Tensors:
    """Tensors as numbers that means can be taken of.

    Raises:
        ConfigError: one holds no plain floating-point numbers, such as quantized weights.
    """
    for name, tensor in found.items():
        if not tensor.is_floating_point() or tensor.layout != torch.strided:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ConfigError(
                f"{where}: {name} holds {kind} ({str(tensor.layout).removeprefix('torch.')}); need "
                "plain floating-point numbers: convert the weights to float32 first"
            )
    return {name: tensor.to(torch.float32) for name, tensor in found.items()}


def _fitted(found: Tensors, own: Mapping[str, Any], where: str, notes: list[str]) -> Tensors:
    """What was found, filled up from the model's own heads; the rest is refused or noted."""
    missing = [name for name in own if name not in found]
    if lost := [name for name in missing if not name.startswith(HEADS)]:
        raise ConfigError(f"{where}: the weights lack {_some(lost)}")
    if missing:
        notes.append(f"new, as the weights to start from lack them: {_some(missing)}")
    spare = sorted(name for name in found if name not in own)
    if lost := [name for name in spare if not name.startswith(HEADS)]:
        raise ConfigError(f"{where}: the weights have more than this encoder: {_some(lost)}")
    if spare:
        notes.append(f"left behind, as this model has no such part: {_some(spare)}")
    tensors: Tensors = {}
    for name, mine in own.items():
        theirs = found.get(name, mine)
        if theirs.shape != mine.shape:
            raise ConfigError(
                f"{where}: {name} has the shape {tuple(theirs.shape)}, and {tuple(mine.shape)} is "
                "needed by [encoder], packing.length and the vocabulary"
            )
        tensors[name] = theirs.detach().to("cpu", mine.dtype)
        if not torch.isfinite(tensors[name]).all():
            kind = str(mine.dtype).removeprefix("torch.")
            raise ConfigError(f"{where}: {name} holds numbers that are not finite in {kind}")
    return tensors


def read_weights(start: StartPoint, store: Store, where: str) -> Tensors:
    """All tensors of the files of a start point, under the names that they have there.

    Raises:
        ConfigError, DamagedObject: see `starting_tensors`.
    """
    place = store if start.folder is None else Store(start.folder)
    tensors: Tensors = {}
    for file in start.weights:
        if start.folder is not None:
            _check_unchanged(place, file, where)
        with place.on_disk(file.path) as path:
            if start.folder is None and sha256_of(path) != file.checksum:
                raise damaged(file.path, "its bytes are not those that were written")
            part = read_tensors(path, f"{where}: {file.path}")
            # Copied out of the file's memory map, for a copy from a server is about to go.
            tensors |= {name: tensor.clone() for name, tensor in part.items()}
    return tensors


def _check_unchanged(place: Store, file: FileRef, where: str) -> None:
    if identified(place, file.path) != file:
        raise ConfigError(
            f"{where}: {file.path} is not what it was when the run was planned: start again"
        )


def read_tensors(path: Path, where: str) -> Tensors:
    """The tensors of a file: of torch.save (.bin), as data that runs no code, or safetensors.

    Args:
        where: names the file, for messages.

    Raises:
        ConfigError: it holds something else.
    """
    try:
        if path.suffix == ".bin":
            part = torch.load(path, map_location="cpu", weights_only=True)
        else:
            part = load_file(path)
    except UnpicklingError as error:
        raise ConfigError(
            f"{where} is no file of torch.save, or holds other things than tensors, and is not "
            "read: that could run code. Convert it to safetensors where you trust it"
        ) from error
    except Exception as error:  # damaged bytes break the reader anywhere
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{where} holds no weights: {why}") from error
    if not isinstance(part, Mapping):
        raise ConfigError(f"{where} holds a {type(part).__name__}; need tensors by name")
    for name, tensor in part.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ConfigError(
                f"{where}: {name!r} is a {type(tensor).__name__}; need tensors by "
                "name, and nothing else"
            )
    return dict(part)


def _old_vocabulary(start: StartPoint, store: Store, where: str) -> tuple[AnyVocabulary, Ints]:
    if start.folder is None:
        [(part, file)] = [*start.vocabulary.items()][:1]
        vocabulary = open_vocabulary(store, {part: file.path}, file.checksum)
        return vocabulary, np.arange(vocabulary.rows)
    place = Store(start.folder)
    for file in start.vocabulary.values():
        _check_unchanged(place, file, where)
    found = foreign_vocabulary(place.read_many(start.vocabulary))
    return found.vocabulary, found.rows


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
