"""What pretraining.resume_from names, looked at in the driver, before any worker starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.checkpoint.made_with import check_made_with, training_record
from model.checkpoint.names import NoSuchCheckpoint, find_named
from model.config import PretrainingSection
from model.pretraining_job import ResumePoint
from model.schedules import last_update
from model.start.origin import recorded_resume
from model.step_plan import step_plan_of
from pipelines.core.config import ConfigError
from pipelines.core.store import Store

SETTING = "pretraining.resume_from"


def resume_point(
    store: Store,
    settings: PretrainingSection,
    length: int,
    own: Mapping[str, Any],
    run: str | None = None,
) -> ResumePoint | None:
    """The checkpoint that `pretraining.resume_from` names; None where it names none.

    Args:
        length: packing.length.
        own: what this run makes its weights with, see `model.checkpoint.made_with`; without a
            vocabulary before there is one, then it is not compared.
        run: that goes on from it. When it has done so before and has a checkpoint of its own, the
            named one may be gone.

    Raises:
        ConfigError: there is no such checkpoint, it is of another model, or training would end
            before it.
    """
    name = settings.resume_from
    if name is None:
        return None
    where = f"{SETTING} = {name!r}"
    try:
        key, manifest = find_named(store, name, setting=SETTING)
    except NoSuchCheckpoint:
        recorded = None if run is None else recorded_resume(store, run, name)
        if recorded is None:
            raise
        point = recorded
    else:
        check_made_with(training_record(store, key, manifest), own, where)
        _, source, _, unit, _ = key.split("/")
        files = {file.name: file.sha256 for file in sorted(manifest.files, key=lambda f: f.name)}
        point = ResumePoint(
            name=f"{source}/{unit}@{manifest.step}", step=manifest.step, files=files
        )
    plan = step_plan_of(settings, length)
    if point.step >= plan.steps:
        raise ConfigError(
            f"{where} is at step {point.step}, and training ends at step {plan.steps}: name an "
            "earlier one, or set more pretraining.steps"
        )
    if point.step >= last_update(settings, plan):
        raise ConfigError(
            f"{where} is at step {point.step}, and pretraining.skip_steps leaves no update after "
            f"it: all steps from {point.step + 1} to {plan.steps} are passed over"
        )
    return point
