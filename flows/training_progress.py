"""How far a run's pretraining is, from the names of its checkpoints; no tensor is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pipelines.core.store import Store

MANIFEST = re.compile(r"(?P<unit>[^/]+)/step-(?P<step>\d+)/manifest\.json")
"""Of a checkpoint, below runs/RUN/checkpoints; it is written last."""


def training_progress(store: Store, run: str, tree: Mapping[str, Any]) -> str:
    """How far pretraining is: "step 8 of 12", by the last checkpoint; "" where there is none.

    Args:
        tree: the run's resolved configuration.
    """
    step = last_step(store, run)
    if step is None:
        return ""
    steps = _steps(tree)
    return f"step {step:,}" + (f" of {steps:,}" if steps else "")


def last_step(store: Store, run: str) -> int | None:
    """The step of the checkpoint of a run that was written last; None where there is none.

    A run has a folder of checkpoints for each configuration it was trained with; the last manifest
    of each says when it was written. Checkpoints of fine-tuning have no optimizer's state.
    """
    root = f"runs/{run}/checkpoints"
    steps: dict[str, list[int]] = {}
    for key in store.keys(root):
        if match := MANIFEST.fullmatch(key.removeprefix(f"{root}/")):
            steps.setdefault(match["unit"], []).append(int(match["step"]))
    newest: tuple[str, int] | None = None
    for unit, found in steps.items():
        for step in sorted(found, reverse=True):
            written = _written(store, f"{root}/{unit}/step-{step:08d}/manifest.json")
            if written is not None:
                newest = max(newest or ("", 0), (written, step))
                break
    return None if newest is None else newest[1]


def _written(store: Store, key: str) -> str | None:
    """When a checkpoint of pretraining was written; None where its manifest does not say."""
    try:
        manifest = json.loads(store.read_bytes(key))
        names = [str(file["name"]) for file in manifest["files"]]
        written = str(manifest["written"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # being written, deleted or damaged: the one before it counts
    return written if any(name.startswith("optimizer") for name in names) else None


def _steps(tree: Mapping[str, Any]) -> int | None:
    """Updates of the whole training, None where this version cannot read the settings."""
    from model.config import PretrainingSection
    from model.step_plan import step_plan_of

    try:
        settings = PretrainingSection.model_validate(tree["pretraining"])
        return step_plan_of(settings, int(tree["packing"]["length"])).steps
    except (ValidationError, KeyError, TypeError, ValueError):
        return None
