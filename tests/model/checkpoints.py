"""Small checkpoints whose content follows from their step, for the tests of checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch

from model.checkpoint import Checkpoint, read_manifest, step_key
from pipelines.core.store import Store

FOLDER = "runs/r/checkpoints/unit"


def made(step: int, size: int = 6) -> Checkpoint:
    weights = {"w": torch.full((size, 2), float(step)), "b": torch.arange(4.0) + step}
    states = {"w/exp_avg": torch.full((size, 2), step / 2), "w/step": torch.tensor(float(step))}
    return Checkpoint(step, weights, states, {"log": [step]})


def same(found: Checkpoint | None, wanted: Checkpoint) -> bool:
    return (
        found is not None
        and found.step == wanted.step
        and found.training == wanted.training
        and equal(found.model, wanted.model)
        and equal(found.optimizer, wanted.optimizer)
    )


def equal(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(
        found[name].dtype == wanted[name].dtype and torch.equal(found[name], wanted[name])
        for name in wanted
    )


def file_of(store: Store, step: int, name: str, folder: str = FOLDER) -> Path:
    """A file of a checkpoint on a local store."""
    key = step_key(folder, step)
    return Path(store.path(f"{key}/{read_manifest(store, key).attempt}/{name}"))
