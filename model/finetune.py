"""Fine-tuning: the pretrained encoder with a head, trained on labelled examples."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from torch import nn

from model import checkpoint
from model.config import EncoderSection, FinetuningTask
from model.distributed import Worker, share_of_batch
from model.encoder import Encoder
from model.heads import SequenceClassifier
from model.metrics import Prediction
from model.optimizer import build_adamw, set_learning_rate
from model.schedules import warmup_then_linear
from model.tasks import TASKS
from model.update import NonFiniteError
from pipelines.core.config import Config
from pipelines.core.hashing import generator, stable_uint64
from pipelines.core.manifest import FileRef, read_verified
from pipelines.core.progress import Progress
from pipelines.core.store import Store
from pipelines.core.vocabulary import PAD_ID

MAX_GRADIENT_NORM = 1.0
BETAS, EPSILON = (0.9, 0.98), 1e-6


class FinetuningJob(Config):
    """All that fine-tuning one task reads, as plain JSON."""

    seed: int
    length: int
    rows: int
    encoder: EncoderSection
    task: FinetuningTask
    labels: list[str]
    model: FileRef
    """The pretrained model."""
    examples: str
    """Key of the examples (model.tasks.base.EXAMPLE_SCHEMA)."""


@dataclass(frozen=True)
class Example:
    """One labelled text."""

    language: str
    label: int
    tokens: list[int]


def read_examples(store: Store, key: str) -> dict[str, list[Example]]:
    """The examples of each split, in the table's order."""
    splits: dict[str, list[Example]] = {}
    for row in store.read_table(key).to_pylist():
        example = Example(row["language"], row["label"], row["tokens"])
        splits.setdefault(row["split"], []).append(example)
    return splits


def pad(examples: Sequence[Example], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids, shape (examples, longest), and labels, shape (examples,)."""
    longest = max(len(example.tokens) for example in examples)
    rows = [[*e.tokens, *[PAD_ID] * (longest - len(e.tokens))] for e in examples]
    labels = [example.label for example in examples]
    return torch.tensor(rows, device=device), torch.tensor(labels, device=device)


def batch_of_step(job: FinetuningJob, count: int, step: int) -> list[int]:
    """Indices of the training examples of one step: a function of (seed, task, step).

    Every epoch is a permutation of all examples; its last batch may be smaller.
    """
    size = job.task.examples_per_step
    epoch, inside = divmod(step, math.ceil(count / size))
    order = generator(job.seed, "finetune", job.task.name, epoch).permutation(count)
    return [int(i) for i in order[inside * size : (inside + 1) * size]]


def finetune(job: FinetuningJob, store: Store, folder: str, worker: Worker) -> None:
    """Train and score one task; the result is a checkpoint in `folder`.

    Its training record holds `dev` (scores after every epoch) and `test` (scores of the last
    epoch's model). A finished result is left as it is.

    Raises:
        NonFiniteError: a loss or gradient is not finite; raised on all workers alike.
    """
    with worker.own_pace("reading the examples"):
        task, splits = job.task, read_examples(store, job.examples)
    per_epoch = math.ceil(len(splits["train"]) / task.examples_per_step)
    steps = per_epoch * task.epochs
    found, _ = checkpoint.agreed(store, folder, worker)
    if found is not None and found.step == steps:
        return
    with worker.own_pace("reading the pretrained model"):
        model, notes = build_classifier(job, store)
    model.to(worker.device)
    wrapped = worker.wrap(model)
    optimizer = build_adamw(model, weight_decay=task.weight_decay, betas=BETAS, epsilon=EPSILON)
    progress = Progress(f"finetune {task.name}", total=steps, unit="step", quiet=not worker.leads)
    train_labels = [example.label for example in splits["train"]]
    for note in notes:
        progress.say(note)
    record: dict[str, Any] = {"notes": notes, "dev": []}
    for step in range(steps):
        rate = warmup_then_linear(
            step,
            peak=task.learning_rate,
            warmup_steps=int(task.warmup_share * steps),
            steps=steps,
        )
        set_learning_rate(optimizer, rate)
        torch.manual_seed(stable_uint64(job.seed, "finetune", step, worker.rank) >> 1)
        batch = [splits["train"][i] for i in batch_of_step(job, len(train_labels), step)]
        loss = update(model, wrapped, optimizer, batch, worker, step)
        progress.advance(extra=f"loss {loss:.3f}")
        if (step + 1) % per_epoch == 0:
            judged = predict(model, splits["dev"], worker, task.examples_per_step)
            scores = TASKS[task.kind].scores(job.labels, train_labels, judged)
            epoch = (step + 1) // per_epoch
            kept = {name: scores[name] for name in ("accuracy", "macro_f1")}
            record["dev"].append({"epoch": epoch, **kept})
            progress.say(
                f"epoch {epoch}/{task.epochs} | dev accuracy {scores['accuracy']:.3f} "
                f"| macro-F1 {scores['macro_f1']:.3f}"
            )
    judged = predict(model, splits["test"], worker, task.examples_per_step)
    record["test"] = TASKS[task.kind].scores(job.labels, train_labels, judged)
    with worker.own_pace("writing the result of fine-tuning"):
        if worker.leads:
            state = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
            checkpoint.save(store, folder, checkpoint.Checkpoint(steps, state, {}, record))
    progress.close()


def build_classifier(job: FinetuningJob, store: Store) -> tuple[SequenceClassifier, list[str]]:
    """The pretrained encoder with a head, whose start depends on the seed alone.

    Where the model was pretrained on next sentences, and its pooler is the layer that the head
    begins with (tanh of a dense layer over <s>), the head takes it, as BERT's does (Devlin et al.
    2019, section 4.1).

    Returns:
        The classifier, and what a person should know of its head.

    Raises:
        RuntimeError: the pretrained weights are not those of this encoder; they are named.
        DamagedObject: their file is damaged.
    """
    torch.manual_seed(stable_uint64(job.seed, "head", job.task.name) >> 1)
    encoder = Encoder(job.encoder, job.rows, job.length)
    tensors = load_tensors(read_verified(store, job.model))
    prefix = "encoder."
    encoder.load_state_dict(
        {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}
    )
    model = SequenceClassifier(encoder, len(job.labels))
    own = {name: tensor.shape for name, tensor in model.dense.state_dict().items()}
    pooler = {name: tensors[f"pooler.{name}"] for name in own if f"pooler.{name}" in tensors}
    fits = own == {name: tensor.shape for name, tensor in pooler.items()}
    if not fits or model.norm is not None:
        return model, ["the head starts anew"]
    model.dense.load_state_dict(pooler)
    return model, ["the head starts with the pretrained pooler; its output layer starts anew"]


def update(
    model: SequenceClassifier,
    wrapped: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Sequence[Example],
    worker: Worker,
    step: int,
) -> float:
    """One update over the global batch; returns its mean cross-entropy in nats.

    Raises:
        NonFiniteError: before the update, on all workers.
    """
    share = share_of_batch(len(batch), worker.rank, worker.world_size)
    # A worker without an example still takes part in the exchange, with a weight of 0.
    own, weight = ([batch[i] for i in share], 1.0) if share else ([batch[0]], 0.0)
    tokens, labels = pad(own, worker.device)
    optimizer.zero_grad(set_to_none=True)
    loss = weight * nn.functional.cross_entropy(wrapped(tokens), labels, reduction="sum")
    torch.autograd.backward(loss * (worker.world_size / len(batch)))
    norm = nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
    mean = float(worker.sum(loss.detach().double())) / len(batch)
    if not math.isfinite(mean) or not math.isfinite(float(norm)):
        raise NonFiniteError(
            f"step {step + 1}: loss {mean}, gradient norm {float(norm)}; the model was not "
            f"updated. Try a lower learning_rate"
        )
    optimizer.step()
    return mean


@torch.no_grad()
def predict(
    model: SequenceClassifier, examples: Sequence[Example], worker: Worker, batch_size: int
) -> list[Prediction]:
    """Judge every example once, in order, at any number of workers; the same on all of them."""
    model.eval()
    own: list[tuple[int, int]] = []
    # Sorted by length, so that little is computed on padding.
    indices = range(worker.rank, len(examples), worker.world_size)
    mine = sorted(indices, key=lambda i: len(examples[i].tokens))
    for first in range(0, len(mine), batch_size):
        chosen = mine[first : first + batch_size]
        tokens, _ = pad([examples[i] for i in chosen], worker.device)
        own += zip(chosen, model(tokens).argmax(dim=1).tolist(), strict=True)
    model.train()
    answers = dict(pair for part in worker.gather(own) for pair in part)
    return [
        Prediction(example.language, example.label, answers[i])
        for i, example in enumerate(examples)
    ]


def scores_json(
    job: FinetuningJob, counts: dict[str, int], dropped: dict[str, int], record: dict[str, Any]
) -> str:
    """The scores of a task as the report reads them."""
    scores = {
        "task": job.task.name,
        "labels": job.labels,
        "counts": counts,
        "dropped": dict(sorted(dropped.items())),
        "notes": record["notes"],
        "dev": record["dev"],
        "test": record["test"],
    }
    return json.dumps(scores, indent=1, ensure_ascii=False) + "\n"
