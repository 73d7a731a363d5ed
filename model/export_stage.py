"""The export stage: one unit, no Ray; and the same export for fine-tuned heads."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors

from model.data.training_data import PretrainingJob
from model.encoder import Encoder
from model.export import (
    AnyVocabulary,
    export_classifier,
    export_masked_model,
    verify_model,
    verify_tokenizer,
)
from model.finetune import FinetuningJob
from model.heads import MaskedLanguageModel, SequenceClassifier
from model.model_card import model_card
from model.plan import RunInputs, pretraining_job
from pipelines.core.manifest import Output, read_json, read_verified
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.core.store import Store
from pipelines.core.vocabulary import open_vocabulary, without_surrogates

SAMPLE_ROWS = 16
"""Packed rows whose logits are compared."""
TEXTS_PER_LANGUAGE = 5
"""Lines of each language whose ids are compared."""


def export_step(inputs: RunInputs) -> Step:
    """The export stage of a run."""
    job = pretraining_job(inputs)
    pretrained = inputs.stage("pretrain")
    [model], [metrics] = (pretrained.outputs_of(part=part) for part in ("model", "metrics"))
    rows = [keys[0] for keys in (job.held_out or job.train).values()]
    read = {
        "run": inputs.run,
        "job": job.model_dump(mode="json"),
        "files": {
            "model": model.path,
            "metrics": metrics.path,
            "balance": inputs.balance.path,
        },
        "vocabulary_files": inputs.vocabulary_keys,
        "vocabulary_from": inputs.vocabulary_from,
        "rows": rows,
        "texts": [output.path for output in first_of_each_language(inputs)],
    }
    return Step("export", 2, f"runs/{inputs.run}/export", read, export_unit, "folder")


def first_of_each_language(inputs: RunInputs) -> list[Output]:
    """One file of deduplicated documents of each language."""
    first: dict[str, Output] = {}
    for output in inputs.stage("deduplicate").outputs_of(part="unique"):
        first.setdefault(output.labels["language"], output)
    return [output for _, output in sorted(first.items())]


def export_units(inputs: RunInputs) -> list[Unit]:
    """A single unit."""
    parts = inputs.stage("pretrain").outputs + inputs.stage("vocabulary").outputs
    parts = [*parts, inputs.balance, *first_of_each_language(inputs)]
    return [Unit("export", tuple(output.ref for output in parts))]


def export_unit(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Export the pretrained model and prove that transformers loads the same model.

    Raises:
        DamagedObject: a file's bytes are not those that were written.
    """
    store = attempt.store
    files = {part: unit.input(path) for part, path in config["files"].items()}
    job = PretrainingJob.model_validate(config["job"])
    vocabulary = open_vocabulary(store, config["vocabulary_files"], job.vocabulary_sha256)
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    model.load_state_dict(load_tensors(read_verified(store, files["model"])))
    card = model_card(
        config["run"],
        config["job"],
        vocabulary,
        config["vocabulary_from"],
        read_json(store, files["balance"]),
        read_json(store, files["metrics"]),
        sum(parameter.numel() for parameter in model.parameters()),
    )
    rows = sample_rows(store, config["rows"])
    texts = sample_texts(store, config["texts"])
    with tempfile.TemporaryDirectory(prefix="babelmill-") as name:
        folder = Path(name)
        export_masked_model(folder, model, vocabulary, card)
        largest = verify_model(folder, model, rows)
        with_mask = verify_tokenizer(folder, vocabulary, texts)
        publish_folder(attempt, folder, attempt.unit_id, part="export")
    attempt.counters["rows_compared"] += len(rows)
    attempt.counters["lines_compared"] += len(texts)
    attempt.counters["lines_with_literal_mask"] += with_mask
    attempt.notes.append(f"largest logit difference to transformers: {largest:.1e}")


def sample_rows(store: Store, keys: Sequence[str]) -> list[list[int]]:
    """Ids of a few packed sequences, from as many languages as there is room for."""
    by_file = []
    for key in keys[:SAMPLE_ROWS]:
        by_file.append(store.read_table(key, columns=["tokens"])["tokens"][:2].to_pylist())
    return list(itertools.chain.from_iterable(by_file))[:SAMPLE_ROWS]


def sample_texts(store: Store, keys: Sequence[str]) -> list[str]:
    """A few lines of each file, whatever stands in them."""
    texts: list[str] = []
    for key in keys:
        column = store.read_table(key, columns=["text"])["text"][:TEXTS_PER_LANGUAGE].to_pylist()
        lines = (line for text in column for line in text.split("\n") if line.strip())
        texts += map(without_surrogates, itertools.islice(lines, TEXTS_PER_LANGUAGE))
    return texts


def publish_classifier(
    attempt: Attempt,
    job: FinetuningJob,
    tensors: Mapping[str, torch.Tensor],
    vocabulary: AnyVocabulary,
    rows: Sequence[Sequence[int]],
) -> None:
    """Export a fine-tuned classifier, prove it on `rows` and their text, and write its folder."""
    encoder = Encoder(job.encoder, job.rows, job.length)
    model = SequenceClassifier(encoder, len(job.labels))
    model.load_state_dict(dict(tensors))
    task = job.task.name
    with tempfile.TemporaryDirectory(prefix="babelmill-") as name:
        folder = Path(name)
        export_classifier(folder, model, job.labels, vocabulary)
        saved = json.loads((folder / "config.json").read_text(encoding="utf-8"))["id2label"]
        assert [saved[str(i)] for i in range(len(job.labels))] == job.labels
        largest = verify_model(folder, model, rows)
        verify_tokenizer(folder, vocabulary, [vocabulary.decode(row) for row in rows])
        publish_folder(attempt, folder, f"{task}/{attempt.unit_id}", part="model", task=task)
    attempt.notes.append(f"{task}: largest logit difference to transformers: {largest:.1e}")


def publish_folder(attempt: Attempt, folder: Path, name: str, **labels: str) -> None:
    """Write every file of a folder as an output with its own `file` label."""
    for path in sorted(folder.iterdir()):
        attempt.write_file(f"{name}/{path.name}", path, **labels, file=path.name)
