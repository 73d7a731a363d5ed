"""What a checkpoint was made with: all that gives its tensors a meaning beside their shapes.

Two vocabularies of one size, or two numbers of heads, give tensors of equal shapes. So every
checkpoint of pretraining carries the vocabulary's checksum and the settings of its architecture in
its training record, and whoever takes its tensors compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from model.checkpoint.files import TRAINING, CheckpointManifest
from model.config import EncoderSection
from pipelines.core.config import ConfigError
from pipelines.core.store import DamagedObject, Store

KEY = "made_with"
"""Of the training record."""
VOCABULARY = "vocabulary (sha256)"
OF_NO_WEIGHT = ("preset", "dropout", "attention_dropout", "initializer_std")
"""Settings of [encoder] that a fork may change: the weights mean the same."""


def made_with(encoder: EncoderSection, length: int, vocabulary: str | None) -> dict[str, Any]:
    """What weights are made with, as plain JSON, by setting; without settings of no effect.

    Args:
        length: packing.length; it counts where positions are learnt.
        vocabulary: SHA-256 of its file; None where it is not known.
    """
    found: dict[str, Any] = {
        f"encoder.{name}": value
        for name, value in encoder.model_dump(mode="json").items()
        if name not in OF_NO_WEIGHT
    }
    if encoder.positions == "learned":
        del found["encoder.rotary_base"]
        found["packing.length"] = length
    else:
        del found["encoder.first_position"]
    return found if vocabulary is None else {**found, VOCABULARY: vocabulary}


def differences(there: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Each setting that differs, with both values; a vocabulary that one side lacks does not."""
    names = [name for name in {**own, **there} if name != VOCABULARY or name in own.keys() & there]
    return [
        f"{name} = {there.get(name, 'not given')!r} there and {own.get(name, 'not given')!r} here"
        for name in names
        if there.get(name) != own.get(name)
    ]


def check_made_with(training: Mapping[str, Any], own: Mapping[str, Any], where: str) -> None:
    """Refuse a checkpoint to go on from that was made with something else.

    Args:
        training: its training record.
        own: see `made_with`.
        where: the setting and its value, for the message.

    Raises:
        ConfigError: it is of another model, each difference is named; or it does not say of which.
    """
    there = training.get(KEY)
    if not isinstance(there, Mapping):
        raise ConfigError(
            f"{where} does not say which vocabulary and encoder it was made with: an older version "
            "wrote it. Its weights can be taken with pretraining.start_from"
        )
    if wrong := differences(there, own):
        raise ConfigError(
            f"{where} holds another model: {'; '.join(wrong)}. Set what it was made with; weights "
            "alone are taken to another vocabulary with pretraining.start_from"
        )


def training_record(store: Store, key: str, manifest: CheckpointManifest) -> dict[str, Any]:
    """The training record of a checkpoint, without its tensors.

    Args:
        key: the checkpoint's folder.

    Raises:
        ConfigError: it is not what was written.
    """
    [file] = [file for file in manifest.files if file.name == TRAINING]
    path = f"{key}/{manifest.attempt}/{file.name}"
    try:
        found: dict[str, Any] = json.loads(store.read_bytes(path, file.sha256))
    except (DamagedObject, FileNotFoundError) as error:
        raise ConfigError(f"{path}: not what was written: {error}") from None
    return found
