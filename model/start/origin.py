"""What a run's pretraining began with, kept beside its checkpoints.

A checkpoint that a run went on from binds its result, by name and checksums. Its own run may delete
it later (`pretraining.keep_checkpoints`). Once there is a whole checkpoint of the new run, nothing
has to be read from the old one any more; only what it was has to be known, and that is found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from model.checkpoint.files import step_key
from model.checkpoint.names import NAME, find_named, run_checkpoints
from model.checkpoint.upkeep import whole_checkpoints
from model.pretraining_job import PretrainingJob, ResumePoint
from model.start.start_point import StartPoint
from pipelines.core.config import Config, ConfigError
from pipelines.core.manifest import read_manifests, read_stage
from pipelines.core.store import Store

FILE = "origin.json"


class Origin(Config):
    """What a pretraining began with."""

    resume: ResumePoint | None
    """Of `pretraining.resume_from`."""
    start: StartPoint | None
    """Of `pretraining.start_from`."""


def write_origin(job: PretrainingJob, store: Store, folder: str) -> None:
    """Keep what a training begins with in the folder of its checkpoints; the same bytes each time.

    Nothing is written where neither a checkpoint nor weights are named.
    """
    if job.resume is not None or job.start is not None:
        text = Origin(resume=job.resume, start=job.start).model_dump_json(indent=1) + "\n"
        store.publish_bytes(f"{folder}/{FILE}", text.encode("utf-8"))


def recorded_resume(store: Store, run: str, name: str) -> ResumePoint | None:
    """The checkpoint that `run` once went on from under this name; None where it never did.

    Args:
        name: RUN@STEP or RUN/UNIT@STEP.
    """
    found = (origin.resume for origin in _origins(store, run))
    return next((point for point in found if point and _meant(name, point.name)), None)


def recorded_start(store: Store, run: str, name: str) -> StartPoint | None:
    """The weights that `run` once started from under this name; see `recorded_resume`."""
    found = (origin.start for origin in _origins(store, run))
    return next((point for point in found if point and _meant(name, point.name)), None)


def check_resume(job: PretrainingJob, store: Store, folder: str) -> None:
    """Refuse to begin a training that has nothing to go on from, or only what it cannot have made.

    Args:
        folder: of its own checkpoints.

    Raises:
        ConfigError: it has no whole checkpoint, and the one that it names is gone; or it has one
            from after its last step.
    """
    whole = whole_checkpoints(store, folder)
    if whole and max(whole) > job.step_plan.steps:
        raise ConfigError(past_the_end(folder, max(whole), job))
    if job.resume is not None and not whole:
        find_named(store, job.resume.name, setting="pretraining.resume_from")


def past_the_end(folder: str, step: int, job: PretrainingJob) -> str:
    """Why a training does not go on from a checkpoint of its folder: another one wrote it."""
    return (
        f"{folder} has a checkpoint of step {step}, and this training ends at step "
        f"{job.step_plan.steps}: it is another training's. Delete {step_key(folder, step)}, and "
        "run again to go on from the one before"
    )


def _origins(store: Store, run: str) -> Iterator[Origin]:
    """What the pretrainings of a run began with: of those with a whole checkpoint, the last one
    written first; then of the one that is finished, whose checkpoints may be gone."""
    folders = [
        (max(manifest.written for manifest in whole.values()), folder)
        for folder, whole in run_checkpoints(store, run).items()
    ]
    keys = [f"{folder}/{FILE}" for _, folder in sorted(folders, reverse=True)]
    found = store.read_many(keys)
    for key in keys:
        if key in found:
            yield Origin.model_validate_json(found[key])
    try:
        manifests = read_manifests(store, read_stage(store, run, "pretrain"))
    except (OSError, ValueError):
        return
    for manifest in manifests:
        yield _of_binding(manifest.binding.config)


def _of_binding(config: Mapping[str, Any]) -> Origin:
    return Origin.model_validate({name: config.get(name) for name in Origin.model_fields})


def _meant(asked: str, recorded: str) -> bool:
    """Whether a name that was asked for means a recorded one, which has its unit."""
    ours, theirs = NAME.fullmatch(asked), NAME.fullmatch(recorded)
    if ours is None or theirs is None:
        return False
    same = ours["run"] == theirs["run"] and int(ours["step"]) == int(theirs["step"])
    return same and ours["unit"] in (None, theirs["unit"])
