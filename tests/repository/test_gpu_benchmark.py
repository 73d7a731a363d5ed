"""The benchmark that needs a GPU runs here at a small size on the CPU, so that it runs there."""

from __future__ import annotations

import pytest
import torch

from model.config import EncoderSection
from tests.benchmarks.gpu import invented_batch, measure


@pytest.mark.parametrize("apart", [False, True])
def test_the_benchmark_of_a_gpu_measures_whole_updates(apart: bool) -> None:
    section = EncoderSection(
        layers=2, hidden_size=16, heads=2, feed_forward_size=32, attention_dropout=0.0
    )
    found = measure(
        section,
        torch.device("cpu"),
        size=4,
        apart=apart,
        rows=300,
        length=64,
        compiled=False,
        steps=2,
    )
    assert found["masked_share"] == 38 / 256
    assert found["tokens_per_second"] > 0
    assert 4 < found["last_loss"] < 8
    assert "mfu" not in found  # no peak is known for a CPU


def test_documents_apart_begin_inside_rows_too() -> None:
    import numpy as np

    batch = invented_batch(np.random.default_rng(1), 3, 300, 512, apart=True)
    starts = batch.document_starts
    assert {0, 512, 1024} <= set(starts.tolist()) and len(starts) > 3
    assert bool((starts[1:] > starts[:-1]).all())
