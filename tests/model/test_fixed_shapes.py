"""With pretraining.compile all micro-batches have one shape, and mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.config import EncoderSection
from model.data.batches import Layout, batches_of
from model.data.training_data import TrainingData
from model.distributed import Worker
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from pipelines.core.store import Store

from .data.test_sample_stream import MANY
from .data.test_training_data import build, job_of
from .packed import ROWS, make_row, packing, write


def both(store: Store, scratch: Path, **changes: Any) -> tuple[TrainingData, TrainingData]:
    """The same data with shapes as they come, and with one shape."""
    job = job_of(build(store, scratch), **changes)
    fixed = job.pretraining.model_copy(update={"compile": True})
    jobs = (job, job.model_copy(update={"pretraining": fixed}))
    loose, full = (TrainingData(one, store, scratch / "cache") for one in jobs)
    return loose, full


def test_one_shape_a_length_and_one_for_evaluation(store: Store, tmp_path: Path) -> None:
    loose, full = both(store, tmp_path, **MANY)
    shapes: dict[int, set[tuple[int, ...]]] = {}
    for step in range(30):
        ours, theirs = full.micro_batches(step, Worker()), loose.micro_batches(step, Worker())
        for wide, narrow in zip(ours, theirs, strict=True):
            shapes.setdefault(full.job.length_at(step), set()).add(tuple(wide.tokens.shape))
            rows, width = narrow.tokens.shape
            assert torch.equal(wide.tokens[:rows, :width], narrow.tokens)
            assert bool((wide.tokens[rows:] == 1).all() and (wide.tokens[:, width:] == 1).all())
            for name in ("masked", "document_starts"):
                at = getattr(narrow, name)
                moved = at // width * wide.tokens.shape[1] + at % width
                assert torch.equal(getattr(wide, name), moved)
            assert torch.equal(wide.labels, narrow.labels)
            assert (wide.real_tokens, wide.number) == (narrow.real_tokens, narrow.number)
            assert wide.sequence_ids == narrow.sequence_ids
    # Micro-batches of 3 sequences of 64 tokens.
    assert shapes == {16: {(12, 16)}, 32: {(6, 32)}, 64: {(3, 64)}}
    held_out = full.held_out_batches("fi", Worker())
    assert {tuple(batch.tokens.shape) for batch in held_out} == {(3, 64)}
    assert len(held_out[-1].sequence_ids) == 1, "with rows of padding alone"


@pytest.mark.parametrize("mode", ["stream", "document"])
def test_the_loss_and_its_gradient_are_the_same(store: Store, tmp_path: Path, mode: str) -> None:
    job = job_of(build(store, tmp_path))
    section = EncoderSection(layers=2, hidden_size=16, heads=2, feed_forward_size=32, dropout=0.0)
    torch.manual_seed(3)
    model = MaskedLanguageModel(Encoder(section, ROWS, 64))
    data = TrainingData(job, store, tmp_path / "cache")
    rows = np.array([0, 7, 12, 30, 41])
    found = []
    for fixed in (None, 8):
        layout = Layout(64, 8, fixed, mode == "document")
        taken = data.train.take(rows, np.zeros_like(rows))
        [batch] = batches_of(taken, np.zeros_like(rows), None, layout)
        model.zero_grad()
        starts = batch.document_starts if batch.documents_apart else None
        loss = model(batch.tokens, batch.masked, batch.labels, starts).sum()
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        assert bool(gradient.isfinite().all())
        found.append((loss.item(), gradient, batch.tokens.shape))
    (loose, ours, small), (wide, theirs, large) = found
    assert small[0] == 5 and large == (8, 64)
    assert wide == pytest.approx(loose, rel=1e-6)
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-5)


def test_pairs_keep_their_number(store: Store, tmp_path: Path) -> None:
    rows = [make_row(f"pair:{i}", 30 + i, 1) for i in range(5)]
    key = write(store, "pairs.parquet", rows, packing(mode="pairs"), tmp_path)
    build(store, tmp_path)
    changes = {"mode": "pairs", "pretraining": {"compile": True}}
    shares = [{"until": 1.0, "shares": {"en": 1.0}}]
    job = job_of({"en": [key]}, phases=shares, **changes)
    batch = TrainingData(job, store, tmp_path / "pairs").micro_batches(0, Worker())[-1]
    assert batch.tokens.shape == (3, 64) and len(batch.sequence_ids) == 2
    assert batch.segments is not None and batch.segments.shape == (3, 64)
    assert batch.is_next is not None and batch.is_next.shape == (2,)
    assert not batch.segments[2].any()


def test_rows_that_do_not_fit_are_refused(store: Store, tmp_path: Path) -> None:
    data = TrainingData(job_of(build(store, tmp_path)), store, tmp_path / "cache")
    rows = np.arange(4)
    taken = data.train.take(rows, np.zeros_like(rows))
    with pytest.raises(ValueError, match="rows do not fit a micro-batch of 2"):
        batches_of(taken, rows, None, Layout(16, 4, 2))
