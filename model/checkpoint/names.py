"""Checkpoints that a person names: RUN@STEP. One that is not there is an error, never a fresh
start."""

from __future__ import annotations

import re

from model.checkpoint.files import (
    Checkpoint,
    CheckpointDamaged,
    CheckpointManifest,
    Wanted,
    step_key,
)
from model.checkpoint.reading import read_files
from model.checkpoint.upkeep import whole_checkpoints
from pipelines.core.config import ConfigError
from pipelines.core.manifest import read_manifests, read_stage
from pipelines.core.store import Store

NAME = re.compile(r"(?P<run>[^@/.][^@/]*)(?:/(?P<unit>[^@/.]+))?@(?P<step>[0-9]{1,18})")
MOST_LISTED = 20


class NoSuchCheckpoint(ConfigError):
    """No whole checkpoint of that name is there."""


def is_checkpoint_name(text: str) -> bool:
    """Whether a text has the form RUN@STEP or RUN/UNIT@STEP."""
    return NAME.fullmatch(text) is not None


def run_checkpoints(store: Store, run: str) -> dict[str, dict[int, CheckpointManifest]]:
    """The whole checkpoints of a run's pretrainings, by folder and step; files are not read.

    A run has a folder for each configuration that it was trained with. Those of fine-tuning are
    left out: what they hold has no optimizer to go on with.
    """
    root = f"runs/{run}/checkpoints"
    units = sorted({key[len(root) + 1 :].partition("/")[0] for key in store.keys(root)})
    found: dict[str, dict[int, CheckpointManifest]] = {}
    for unit in units:
        whole = whole_checkpoints(store, f"{root}/{unit}")
        resumable = {step: whole[step] for step in sorted(whole) if whole[step].resumable}
        if resumable:
            found[f"{root}/{unit}"] = resumable
    return found


def find_named(
    store: Store, name: str, *, setting: str = "checkpoint"
) -> tuple[str, CheckpointManifest]:
    """Find the checkpoint that RUN@STEP names.

    Where a run has pretrainings of several configurations with that step, the one that its
    finished stage points at is meant; without such, RUN/UNIT@STEP has to say which.

    Args:
        setting: that the name was given in, for messages.

    Returns:
        The key of its folder, and its manifest, whose files have their checksums.

    Raises:
        NoSuchCheckpoint: there is no such run, or no such checkpoint; says what there is.
        ConfigError: it is no such name, or there is more than one.
    """
    at = f"{setting} = {name!r}"
    match = NAME.fullmatch(name)
    if match is None:
        raise ConfigError(f"{at}: need RUN@STEP, such as demo@1000")
    run, unit, step = match["run"], match["unit"], int(match["step"])
    folders = run_checkpoints(store, run)
    if unit is not None:
        folders = {key: whole for key, whole in folders.items() if key.endswith(f"/{unit}")}
    if not folders:
        raise NoSuchCheckpoint(f"{at}: {_what_there_is(store, run, unit)}")
    having = [folder for folder, whole in folders.items() if step in whole]
    if not having:
        there = f"no whole checkpoint of step {step}; there are: {_list(folders)}"
        raise NoSuchCheckpoint(f"{at}: {there}")
    if len(having) > 1:
        having = [folder for folder in having if folder in _finished(store, run)] or having
    if len(having) > 1:
        choices = [
            f"{run}/{folder.rpartition('/')[2]}@{step} (written {folders[folder][step].written})"
            for folder in having
        ]
        raise ConfigError(
            f"{at}: {len(having)} pretrainings of run {run!r} have a checkpoint of step {step}; "
            f"name one of them: {', '.join(choices)}"
        )
    [folder] = having
    return step_key(folder, step), folders[folder][step]


def named(
    store: Store, name: str, *, setting: str = "checkpoint", optimizer: Wanted = True
) -> Checkpoint:
    """Load the checkpoint that RUN@STEP names; see `find_named`.

    Args:
        optimizer: which of the optimizer's tensors, see `model.checkpoint.load`.

    Raises:
        ConfigError: it is not there, or not what was written; says what there is.
    """
    key, manifest = find_named(store, name, setting=setting)
    try:
        return read_files(store, key, manifest, optimizer)
    except CheckpointDamaged as error:
        run = key.split("/")[1]
        raise ConfigError(
            f"{setting} = {name!r}: {error}; there are: {_list(run_checkpoints(store, run))}"
        ) from error


def _finished(store: Store, run: str) -> set[str]:
    """Folders of the pretraining that the run's finished stage points at."""
    try:
        manifests = read_manifests(store, read_stage(store, run, "pretrain"))
    except (OSError, ValueError):
        return set()
    return {f"runs/{run}/checkpoints/{manifest.binding.id}" for manifest in manifests}


def _what_there_is(store: Store, run: str, unit: str | None) -> str:
    runs = runs_of(store)
    if run not in runs:
        return f"no run {run!r} in {store.url}; there are: {_shortened(runs)}"
    if unit is not None and (folders := run_checkpoints(store, run)):
        return f"run {run!r} has no pretraining {unit!r}; there are: {_list(folders)}"
    return f"run {run!r} in {store.url} has no whole checkpoint of a pretraining"


def runs_of(store: Store) -> list[str]:
    """Names of the runs on a store, sorted."""
    try:
        paths = store.filesystem.ls(store.path("runs"), detail=False)
    except FileNotFoundError:
        return []
    return sorted({str(path).rstrip("/").rpartition("/")[2] for path in paths})


def _list(folders: dict[str, dict[int, CheckpointManifest]]) -> str:
    names = [
        f"{folder.split('/')[1]}@{step}"
        if len(folders) == 1
        else f"{folder.split('/')[1]}/{folder.rpartition('/')[2]}@{step}"
        for folder, whole in folders.items()
        for step in whole
    ]
    return _shortened(names)


def _shortened(names: list[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[-MOST_LISTED:]) + more
