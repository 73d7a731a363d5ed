"""Held-out loss by language, always at `evaluation.masking_rate`, beside the unigram baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from model.data.training_data import TrainingData
from model.distributed import Worker, precision
from model.heads import MaskedLanguageModel
from model.metrics import LossSums
from model.update import inputs_of

NAMED = 3
"""Languages that a line names at each end."""


@torch.no_grad()
def evaluate(
    model: MaskedLanguageModel, data: TrainingData, worker: Worker, step: int
) -> dict[str, Any]:
    """Held-out loss by language.

    Every sequence is computed by one worker, once; sums over workers hold no padding and no
    duplicates, and a worker without a sequence adds nothing.

    Returns:
        {"step": step, "languages": {tag: {"loss_sum": nats, "tokens": masked tokens}}}
    """
    settings = data.job.pretraining
    sums = torch.zeros(len(data.held_out.counts), 2, dtype=torch.float64, device=worker.device)
    was_training = model.training
    model.eval()
    for number, language in enumerate(data.held_out.counts):
        for batch in data.held_out_batches(language, worker):
            with precision(settings.precision, worker.device):
                loss = model(*inputs_of(batch, settings, worker.device))[0]
            sums[number, 0] += loss
            sums[number, 1] += batch.masked_tokens
    model.train(was_training)
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


def losses_by_language(sums: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Nats per masked token of each language that has any."""
    return {tag: row["loss_sum"] / row["tokens"] for tag, row in sums.items() if row["tokens"]}


def evaluation_values(evaluation: Mapping[str, Any], unigram: LossSums) -> dict[str, float]:
    """An evaluation as sinks take it: held_out_loss/LANG, held_out_loss/all, unigram_loss/LANG."""
    losses = losses_by_language(evaluation["languages"])
    values = {f"held_out_loss/{tag}": loss for tag, loss in losses.items()}
    if losses:
        values["held_out_loss/all"] = mean_loss(evaluation["languages"])
    baseline = losses_by_language(unigram)
    return values | {f"unigram_loss/{tag}": loss for tag, loss in baseline.items()}


def evaluation_line(evaluation: Mapping[str, Any], unigram: LossSums) -> str:
    """One line for people: the loss, and the languages farthest below the unigram baseline and
    those least below it (or above)."""
    losses = losses_by_language(evaluation["languages"])
    if not losses:
        return "no text was held out, so no loss is measured: raise packing.held_out_share"
    baseline = losses_by_language(unigram)
    gains = {tag: loss - baseline[tag] for tag, loss in losses.items() if tag in baseline}
    ranked = sorted(gains, key=lambda tag: (gains[tag], tag))
    text = (
        f"held-out loss {mean_loss(evaluation['languages']):.2f} over {len(losses)} "
        f"language{'' if len(losses) == 1 else 's'}"
    )
    if not ranked:
        return text
    shown = [f"{tag} {losses[tag]:.2f} ({gains[tag]:+.2f})" for tag in ranked]
    if len(ranked) <= 2 * NAMED:
        return f"{text}; against unigram: {', '.join(shown)}"
    best, worst = ", ".join(shown[:NAMED]), ", ".join(reversed(shown[-NAMED:]))
    return f"{text}; against unigram, best: {best}; worst: {worst}"
