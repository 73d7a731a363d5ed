"""Held-out batches are masked at evaluation.masking_rate, whatever training and packing do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.data.batches import Batch, Layout, batches_of
from model.data.training_data import TrainingData
from model.distributed import Worker
from model.plan import RunInputs, pretraining_job
from pipelines.core.masking import MaskingRule
from pipelines.core.store import Store

from .data.test_batches import check, reference
from .data.test_training_data import CORPUS, build, job_of
from .packed import RULE
from .tiny import build as build_run
from .tiny import tiny_config

RATES: list[tuple[float, dict[str, Any]]] = [
    (0.15, {}),
    (0.15, {"masking": {"rate": 0.3}}),
    (0.4, {"evaluation": {"masking_rate": 0.4}}),
]


@pytest.mark.parametrize(("rate", "changes"), RATES)
def test_masks_are_those_of_the_rate_in_the_first_pass(
    store: Store, tmp_path: Path, rate: float, changes: dict[str, Any]
) -> None:
    data = TrainingData(job_of(build(store, tmp_path), **changes), store, tmp_path / "cache")
    rule = MaskingRule(rate, 0.8, 0.1, RULE.mask_id, RULE.special_ids)
    rows = CORPUS["fi"][:4]
    batches = data.held_out_batches("fi", Worker())
    assert [batch.number for batch in batches] == [0, 1]
    for batch, part in zip(batches, (rows[:3], rows[3:]), strict=True):
        check(batch, reference(part, [0] * len(part), 64, rule), pairs=False)
    labels = np.concatenate([batch.labels.numpy() for batch in batches])
    found = data.unigram_baseline()["fi"]
    assert found["tokens"] == len(labels)
    assert found["loss_sum"] == pytest.approx(-data.unigram[labels].sum())


def equal(ours: list[Batch], theirs: list[Batch]) -> bool:
    names = ("tokens", "masked", "labels")
    return all(
        torch.equal(getattr(a, n), getattr(b, n))
        for a, b in zip(ours, theirs, strict=True)
        for n in names
    )


@pytest.mark.parametrize("unit", ["token", "span"])
def test_they_are_the_stored_ones_and_do_not_depend_on_how_training_masks(
    tmp_path: Path, unit: str
) -> None:
    found = []
    for views, rate in ((1, 0.15), (0, 0.15), (2, 0.3), (0, 0.3)):
        store = Store(str(tmp_path / f"store-{views}-{rate}"))
        masking = {"views": views, "unit": unit, "rate": rate}
        build_run(store, tiny_config(masking=masking))
        job = pretraining_job(RunInputs(store, "tiny"))
        data = TrainingData(job, store, tmp_path / f"cache-{views}-{rate}")
        found.append([data.held_out_batches(tag, Worker()) for tag in data.held_out.counts])
        assert data.micro_batches(3, Worker()), "training needs no stored mask either"
        for tag, batches in zip(data.held_out.counts, found[-1], strict=True):
            rows = np.array(data.held_out.rows_of(tag))[: job.evaluation.max_sequences_per_language]
            taken = data.held_out.take(rows, np.zeros_like(rows))
            assert taken.stored.all()
            stored = batches_of(taken, np.zeros_like(rows), None, Layout(job.length, 2))
            assert equal(batches, stored)
    for other in found[1:]:
        assert all(equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_every_held_out_micro_batch_is_computed_once(
    store: Store, tmp_path: Path, world_size: int
) -> None:
    keys = build(store, tmp_path)
    changes = {"held_out": keys, "evaluation": {"max_sequences_per_language": 5}}
    data = TrainingData(job_of(keys, **changes), store, tmp_path / "cache")
    taken = dict.fromkeys(range(world_size), 0)
    for language in data.held_out.counts:
        whole = data.held_out_batches(language, Worker())
        assert [len(batch.sequence_ids) for batch in whole] == [3, 2]
        shared = []
        for rank in range(world_size):
            own = data.held_out_batches(language, Worker(rank, world_size))
            taken[rank] += len(own)
            shared += own
        assert equal(sorted(shared, key=lambda batch: batch.number), whole)
    # Three languages of two micro-batches: six in all, dealt out one by one.
    assert max(taken.values()) - min(taken.values()) <= 1
