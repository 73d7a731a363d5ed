"""What learns: model and optimizer as one worker holds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from model.compilation import Shape, compile_layers, warm_up
from model.config import PretrainingSection
from model.distributed import Worker, precision
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.optimizer import build_optimizer
from model.pretraining_job import PretrainingJob
from pipelines.core.hashing import stable_uint64


@dataclass(frozen=True)
class Learner:
    """What learns, as one worker holds it."""

    seed: int
    settings: PretrainingSection
    worker: Worker
    model: MaskedLanguageModel
    wrapped: torch.nn.Module
    """The same module as workers share it (`Worker.wrap`)."""
    optimizer: torch.optim.Optimizer


def build_learner(job: PretrainingJob, worker: Worker) -> Learner:
    """Model and optimizer before the first step; weights depend on the seed alone."""
    settings = job.pretraining
    torch.manual_seed(stable_uint64(job.seed, "initial weights") >> 1)
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length)).to(worker.device)
    model.encoder.checkpoint_activations = settings.activation_checkpointing
    if settings.compile:
        compile_layers(model.encoder)
    optimizer = build_optimizer(model, settings, worker)
    return Learner(job.seed, settings, worker, model, worker.wrap(model), optimizer)


def compile_ahead(learner: Learner, job: PretrainingJob, first_step: int) -> None:
    """With `pretraining.compile`, compile all that the steps from `first_step` on will need."""
    settings, plan = learner.settings, job.step_plan
    if not settings.compile:
        return
    begins = [first_step, *(plan.end_of(phase) for phase in settings.lengths)]
    lengths = {job.length_at(step) for step in begins if first_step <= step < plan.steps}
    pairs = job.mode == "pairs"
    shapes = [
        Shape(job.rows_at(length), length, training, job.documents_apart, pairs)
        for training, several in ((True, lengths), (False, {job.length}))
        for length in sorted(several, reverse=True)  # the largest first: memory is found out early
    ]
    under = partial(precision, settings.precision, learner.worker.device)
    warm_up(learner.model.encoder, shapes, under)
