"""One optimizer update over the global batch of a step: the same at any number of workers.

A step's micro-batches are numbered over all workers together, and each has its own dropout, seeded
by (seed, step, number). So what is computed does not depend on which worker computes it; only the
order of sums does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from model.config import PretrainingSection
from model.data.batches import Batch
from model.distributed import Worker, precision, without_sync
from model.learner import Learner
from model.spikes import SpikeWatch, ways_on
from model.wishes import Wishes
from pipelines.core.hashing import stable_uint64


class UpdateRefusedError(RuntimeError):
    """Training stopped before an update; starting again would only come to the same step."""


class NonFiniteError(UpdateRefusedError):
    """Loss or gradient is not a number; the model was not updated."""


class LossSpikeError(UpdateRefusedError):
    """The loss is far above what it was, and `on_spike` is "stop"; the model was not updated."""


@dataclass(frozen=True)
class StepResult:
    """One update, over all workers; the same on all of them."""

    loss: float
    """Nats per masked token, before the update."""
    next_sentence_loss: float | None
    """Nats per pair; None where the model has no next-sentence head."""
    gradient_norm: float
    """Before clipping."""
    masked: int
    real: int
    padded: int
    """Positions of padding."""
    wishes: Wishes
    """Of any worker."""


def update(
    learner: Learner,
    parts: Sequence[Batch],
    step: int,
    wishes: Wishes | None = None,
    spikes: SpikeWatch | None = None,
) -> StepResult:
    """One optimizer update over the global batch.

    The loss is the sum over masked tokens divided by their number over all workers and micro-
    batches, plus the same of next sentences over pairs; so a token weighs the same wherever it is
    computed. Workers may have different numbers of micro-batches, at least one each.

    Args:
        parts: this worker's micro-batches.
        step: updates done before, from 0.
        wishes: of this worker.
        spikes: judges the loss before the update.

    Raises:
        NonFiniteError: before the update, on all workers; names the sequences.
        LossSpikeError: before the update, on all workers; only where `spikes` stops at one.
    """
    worker, settings = learner.worker, learner.settings
    sums = worker.sum(_small_sums(parts, wishes or Wishes(), worker.device))
    # Sharing averages gradients over workers; the factor turns that average into a sum. It stays
    # on the device, so that nothing waits for it.
    weights = worker.world_size / sums[:2].clamp(min=1).double()
    learner.optimizer.zero_grad(set_to_none=True)
    losses = []
    for place, batch in enumerate(parts):
        torch.manual_seed(dropout_seed(learner.seed, step, batch.number))
        with without_sync(learner.wrapped, skip=place < len(parts) - 1):
            with precision(settings.precision, worker.device):
                loss = learner.wrapped(*inputs_of(batch, settings, worker.device))
            (loss * weights.to(loss.dtype)).sum().backward()
        losses.append(loss.detach().double())
    norm = torch.nn.utils.clip_grad_norm_(
        learner.model.parameters(), settings.max_gradient_norm or math.inf
    )
    own = torch.stack(losses)
    totals = worker.sum(torch.cat([own.sum(dim=0), (~norm.isfinite()).double()[None]]))
    # The one point at which the host waits for the device.
    facts = torch.cat([sums.double(), totals, norm.double()[None]]).tolist()
    masked, pairs, real, padded, save, stop = (int(fact) for fact in facts[:6])
    masked_sum, pair_sum, bad_norms, gradient_norm = facts[6:]
    result = StepResult(
        masked_sum / max(masked, 1),
        pair_sum / pairs if pairs else None,
        gradient_norm,
        masked,
        real,
        padded,
        Wishes(save > 0, stop > 0),
    )
    if bad_norms or not math.isfinite(masked_sum + pair_sum):
        raise NonFiniteError(_where_not_finite(worker, parts, own, result, step))
    if spikes is not None and (found := spikes.judge(step, trained_loss(result))):
        raise LossSpikeError(found)
    learner.optimizer.step()
    return result


def trained_loss(result: StepResult) -> float:
    """What the update makes smaller: both losses together."""
    return result.loss + (result.next_sentence_loss or 0.0)


def dropout_seed(seed: int, step: int, number: int) -> int:
    """What torch is seeded with before micro-batch `number` of a step; it takes 63 bits."""
    return stable_uint64(seed, "dropout", step, number) >> 1


def inputs_of(
    batch: Batch, settings: PretrainingSection, device: torch.device
) -> list[torch.Tensor | bool | None]:
    """What `MaskedLanguageModel.forward` is called with.

    Whether there is padding is known here, so that nothing has to look for it on the device. With
    `compile`, pairs always count as padded, which they nearly always are: so their layers are
    compiled for one kind of batch. Rows of a stream are nearly always full, and need no mask then.
    """
    starts = batch.document_starts if batch.documents_apart else None
    tensors = [batch.tokens, batch.masked, batch.labels, starts, batch.segments, batch.is_next]
    padded = batch.padding_tokens > 0 or (settings.compile and batch.segments is not None)
    return [*(None if t is None else t.to(device, non_blocking=True) for t in tensors), padded]


def _small_sums(parts: Sequence[Batch], wishes: Wishes, device: torch.device) -> torch.Tensor:
    """What workers add up before the backward pass, in one exchange; int64, shape (6,)."""
    values = [
        sum(batch.masked_tokens for batch in parts),
        sum(len(batch.is_next) for batch in parts if batch.is_next is not None),
        sum(batch.real_tokens for batch in parts),
        sum(batch.padding_tokens for batch in parts),
        int(wishes.save),
        int(wishes.stop),
    ]
    return torch.tensor(values, dtype=torch.int64, device=device)


def _where_not_finite(
    worker: Worker, parts: Sequence[Batch], own: torch.Tensor, result: StepResult, step: int
) -> str:
    """The message, with the sequences of those micro-batches, of all workers, whose loss is not
    finite."""
    fine = own.sum(dim=1).isfinite().tolist()
    bad = [name for b, good in zip(parts, fine, strict=True) if not good for name in b.sequence_ids]
    names = [name for worker_bad in worker.gather(bad) for name in worker_bad]
    where = f"sequences {', '.join(names)}" if names else "no loss by itself, the gradient only"
    return (
        f"step {step + 1}: loss {trained_loss(result)}, gradient norm {result.gradient_norm}; "
        f"the model was not updated; not finite in: {where}. {ways_on(step)}"
    )
