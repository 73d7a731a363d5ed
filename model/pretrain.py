"""Masked language modelling: the loop, readable from top to bottom.

Everything that happens at a step is a function of (seed, step, rank): which sequences, which masks,
the learning rate, dropout. So a run that was killed goes on from its last checkpoint bit for bit.
Sources: Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa), Conneau et al. 2020 (XLM-R).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from model import checkpoint
from model.batches import Batch
from model.config import PretrainingSection
from model.distributed import Worker, precision, without_sync
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.optimizer import (
    build_adamw,
    load_optimizer_tensors,
    optimizer_tensors,
    set_learning_rate,
)
from model.prefetch import Prefetched
from model.schedules import warmup_then_linear
from model.training_data import PretrainingJob, TrainingData
from pipelines.core.hashing import stable_uint64
from pipelines.core.progress import Progress, duration
from pipelines.core.store import Store


class NonFiniteError(RuntimeError):
    """Loss or gradient is not a number; the model was not updated."""


def pretrain(job: PretrainingJob, store: Store, folder: str, worker: Worker, cache: Path) -> None:
    """Train from the last whole checkpoint in `folder`, or from the start, to the last step.

    The last step's checkpoint is the result: the model, and in its training record the log, the
    evaluations and the unigram baseline.

    Args:
        folder: of the checkpoints, on the store.
        cache: folder on the node's disk for packed sequences.

    Raises:
        NonFiniteError: a loss or gradient is not finite; raised on all workers alike.
    """
    settings, data = job.pretraining, TrainingData(job, store, cache)
    torch.manual_seed(_seed(job.seed, "initial weights"))
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length)).to(worker.device)
    optimizer = build_adamw(
        model,
        weight_decay=settings.weight_decay,
        betas=(settings.beta1, settings.beta2),
        epsilon=settings.epsilon,
    )
    record: dict[str, Any] = {"tokens_seen": 0, "log": [], "evaluations": []}
    begin = 0
    found, notes = checkpoint.agreed(store, folder, worker)
    if found is not None:
        model.load_state_dict(found.model)
        load_optimizer_tensors(model, optimizer, found.optimizer)
        record, begin = found.training, found.step
    worker.wait()  # nobody deletes a checkpoint while another still loads it
    progress = Progress(
        "pretrain", total=settings.steps, reused=begin, unit="step", quiet=not worker.leads
    )
    for note in notes:
        progress.say(f"checkpoint passed over: {note}")
    for note in data.notes:
        progress.say(note)
    if begin == 0:
        record["evaluations"].append(evaluate(model, data, worker, 0))
        _say_evaluation(progress, record["evaluations"][-1])
    wrapped = worker.wrap(model)
    busy, tokens, began = 0.0, 0, time.monotonic()
    steps = range(begin, settings.steps)
    make = partial(data.micro_batches, worker=worker)
    with Prefetched(make, steps, settings.prefetch_steps) as ready:
        for step in steps:
            started = time.monotonic()
            rate = warmup_then_linear(
                step,
                peak=settings.learning_rate,
                warmup_steps=settings.warmup_steps,
                steps=settings.steps,
            )
            set_learning_rate(optimizer, rate)
            torch.manual_seed(_seed(job.seed, "step", step, worker.rank))
            parts = ready.take(step)
            loss, norm, seen = update(model, wrapped, optimizer, parts, settings, worker, step)
            record["tokens_seen"] += seen
            busy, tokens, done = busy + time.monotonic() - started, tokens + seen, step + 1
            last = done == settings.steps
            if last or done % settings.log_every_steps == 0:
                line = {
                    "step": done,
                    "loss": loss,
                    "learning_rate": rate,
                    "gradient_norm": norm,
                    "tokens_per_second": round(tokens / busy, 1),
                    "loader_wait_share": round(ready.waited_seconds / busy, 4),
                }
                record["log"].append(line)
                left = (time.monotonic() - began) / (done - begin) * (settings.steps - done)
                progress.say(
                    f"step {done}/{settings.steps} | loss {loss:.2f} | lr {rate:.1e} | "
                    f"{tokens / busy:,.0f} tokens/s | {duration(left)} left"
                )
                busy, tokens, ready.waited_seconds = 0.0, 0, 0.0
            if last or done % settings.evaluate_every_steps == 0:
                record["evaluations"].append(evaluate(model, data, worker, done))
                _say_evaluation(progress, record["evaluations"][-1])
            if last:
                record |= {"unigram": data.unigram_baseline(), "usage": data.usage()}
            if worker.leads and (last or done % settings.checkpoint_every_steps == 0):
                state = {name: t.detach().cpu() for name, t in model.state_dict().items()}
                states = optimizer_tensors(model, optimizer)
                checkpoint.save(store, folder, checkpoint.Checkpoint(done, state, states, record))
                checkpoint.delete_older(store, folder, keep=settings.keep_checkpoints, newest=done)
    worker.wait()  # a worker that returns early would take the group down during the last save


def update(
    model: MaskedLanguageModel,
    wrapped: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    parts: Sequence[Batch],
    settings: PretrainingSection,
    worker: Worker,
    step: int,
) -> tuple[float, float, int]:
    """One optimizer update over the global batch.

    The loss is the sum over masked tokens divided by their number over all workers and
    micro-batches, so a token weighs the same wherever it is computed.

    Args:
        model: the module itself.
        wrapped: the same module as workers share it.
        parts: this worker's micro-batches.

    Returns:
        loss of the batch in nats per masked token, gradient norm before clipping, real tokens.

    Raises:
        NonFiniteError: before the update, on all workers; names the sequences.
    """
    sizes = torch.tensor(
        [sum(len(b.labels) for b in parts), sum(b.real_tokens for b in parts)],
        dtype=torch.int64,
        device=worker.device,
    )
    masked, seen = (int(n) for n in worker.sum(sizes))
    # Sharing averages gradients over workers; the factor turns that average into a sum.
    scale = worker.world_size / max(masked, 1)
    optimizer.zero_grad(set_to_none=True)
    losses = []
    for number, batch in enumerate(parts):
        with without_sync(wrapped, skip=number < len(parts) - 1):
            with precision(settings.precision, worker.device):
                loss = wrapped(*inputs_of(batch, worker)).sum()
            (loss * scale).backward()
        losses.append(loss.detach())
    norm = torch.nn.utils.clip_grad_norm_(
        model.parameters(), settings.max_gradient_norm or math.inf
    )
    total = worker.sum(torch.stack(losses).double().sum())
    if not bool(torch.isfinite(norm)) or not bool(torch.isfinite(total)):
        bad = [b.sequence_ids for b, loss in zip(parts, losses, strict=True) if not loss.isfinite()]
        everywhere = [ids for worker_bad in worker.gather(bad) for ids in worker_bad]
        names = [name for ids in everywhere for name in ids]
        where = f"sequences {', '.join(names)}" if names else "no loss by itself, the gradient only"
        raise NonFiniteError(
            f"step {step + 1}: loss {float(total) / max(masked, 1)}, gradient norm {float(norm)}; "
            f"the model was not updated; not finite in: {where}. Try a lower "
            f'pretraining.learning_rate, or precision = "float32"'
        )
    optimizer.step()
    return float(total) / max(masked, 1), float(norm), seen


def inputs_of(batch: Batch, worker: Worker) -> list[torch.Tensor]:
    """What the model is called with: tokens, masked positions, labels, and document starts where
    documents are to be encoded apart."""
    tensors = [batch.tokens, batch.masked, batch.labels]
    if batch.documents_apart:
        tensors.append(batch.document_starts)
    return [tensor.to(worker.device) for tensor in tensors]


@torch.no_grad()
def evaluate(
    model: MaskedLanguageModel, data: TrainingData, worker: Worker, step: int
) -> dict[str, Any]:
    """Held-out loss by language, on the first stored masks.

    Every sequence is computed by one worker, once; sums over workers hold no padding.

    Returns:
        {"step": step, "languages": {tag: {"loss_sum": nats, "tokens": masked tokens}}}
    """
    settings = data.job.pretraining
    sums = torch.zeros(len(data.held_out.counts), 2, dtype=torch.float64, device=worker.device)
    model.eval()
    for number, language in enumerate(data.held_out.counts):
        for batch in data.held_out_batches(language, worker):
            with precision(settings.precision, worker.device):
                loss = model(*inputs_of(batch, worker))[0]
            sums[number, 0] += loss
            sums[number, 1] += len(batch.labels)
    model.train()
    totals = worker.sum(sums).tolist()
    languages = {
        language: {"loss_sum": loss, "tokens": int(tokens)}
        for language, (loss, tokens) in zip(data.held_out.counts, totals, strict=True)
    }
    return {"step": step, "languages": languages}


def mean_loss(sums: Mapping[str, Mapping[str, float]]) -> float:
    """Nats per masked token over all languages; NaN when there is none."""
    tokens = sum(row["tokens"] for row in sums.values())
    return sum(row["loss_sum"] for row in sums.values()) / tokens if tokens else math.nan


def _say_evaluation(progress: Progress, evaluation: Mapping[str, Any]) -> None:
    languages = evaluation["languages"]
    if not languages:
        progress.say("no text was held out, so no loss is measured: raise packing.held_out_share")
        return
    progress.say(
        f"step {evaluation['step']}/{progress.total} | held-out loss {mean_loss(languages):.2f} "
        f"over {len(languages)} languages"
    )


def _seed(*parts: Any) -> int:
    """A seed for torch, which takes 63 bits."""
    return stable_uint64(*parts) >> 1
