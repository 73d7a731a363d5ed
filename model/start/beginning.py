"""Where training begins: a checkpoint of its own, a named one, given weights, or initial ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from model import checkpoint
from model.checkpoint import Checkpoint
from model.checkpoint.made_with import KEY, check_made_with, made_with
from model.learner import Learner
from model.optimizer import load_optimizer_tensors
from model.pretraining_job import PretrainingJob
from model.start.origin import past_the_end, write_origin
from model.start.warm_start import starting_tensors
from model.training_log import new_record
from pipelines.core.config import ConfigError
from pipelines.core.store import Store


@dataclass(frozen=True)
class Beginning:
    """Where training begins."""

    step: int
    """Updates done."""
    record: dict[str, Any]
    said: list[str]
    """What a person should know, and no part of the result."""


def begin(job: PretrainingJob, store: Store, folder: str, learner: Learner) -> Beginning:
    """Bring the learner to where training goes on.

    That is, the first there is of: the last whole checkpoint in `folder`; the one that
    `pretraining.resume_from` names; the weights that `pretraining.start_from` names; the initial
    weights.

    Raises:
        ConfigError: what is named is not there, or does not fit.
    """
    found, passed_over = checkpoint.agreed(store, folder, learner.worker, resumable=True)
    said = [f"checkpoint passed over: {why}" for why in passed_over]
    record, name = new_record(), job.pretraining.resume_from
    own = made_with(job.encoder, job.length, job.vocabulary_sha256)
    if found is not None and found.step > job.step_plan.steps:
        raise ConfigError(past_the_end(folder, found.step, job))
    if found is None and name is not None:
        with learner.worker.own_pace("reading pretraining.resume_from"):
            found = checkpoint.named(store, name, setting="pretraining.resume_from")
        said.append(f"goes on from {name} (pretraining.resume_from)")
        check_made_with(found.training, own, f"pretraining.resume_from = {name!r}")
        _check_fits(found, name, learner)
    if found is not None:
        learner.model.load_state_dict(found.model)
        load_optimizer_tensors(learner.model, learner.optimizer, found.optimizer)
        record |= found.training
    elif job.start is not None:
        with learner.worker.own_pace("reading pretraining.start_from"):
            tensors, notes = starting_tensors(job, store, learner.model)
        learner.model.load_state_dict(tensors)
        record["notes"] += notes
        said += notes
    record[KEY] = own
    with learner.worker.own_pace("writing where training began"):
        if learner.worker.leads:
            write_origin(job, store, folder)
    return Beginning(0 if found is None else found.step, record, said)


def _check_fits(found: Checkpoint, name: str, learner: Learner) -> None:
    """Refuse a named checkpoint of another model."""
    own = {key: tuple(t.shape) for key, t in learner.model.state_dict().items()}
    there = {key: tuple(t.shape) for key, t in found.model.items()}
    if differ := sorted(key for key in own.keys() | there.keys() if own.get(key) != there.get(key)):
        [key, *_] = differ
        raise ConfigError(
            f"pretraining.resume_from = {name!r} holds another model: {len(differ)} of {len(own)} "
            f"tensors differ, such as {key}, {there.get(key, 'not there')} in it and "
            f"{own.get(key, 'not there')} by [encoder], packing.length and the vocabulary. To take "
            f"its weights into another model use pretraining.start_from"
        )
