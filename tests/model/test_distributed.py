"""Sharing a model between workers: its gradients, its buffers, and shares of a batch."""

from __future__ import annotations

from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st

from model.config import EncoderSection
from model.distributed import Worker, share_of_batch, without_sync
from model.encoder import Encoder
from model.heads import MaskedLanguageModel

from .gloo_workers import run_in_workers

ROWS = 1200
MASKED = [7, 0, 3, 5, 1]
"""Masked tokens of the micro-batches: the first worker computes three, the second two."""


def model_of() -> MaskedLanguageModel:
    torch.manual_seed(4)
    section = EncoderSection(layers=2, hidden_size=16, heads=2, feed_forward_size=32, dropout=0.0)
    return MaskedLanguageModel(Encoder(section, ROWS, 12))


def loss_of(model: torch.nn.Module, number: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(number)
    tokens = torch.randint(4, ROWS, (2, 12), generator=made)
    tokens[1, 8 + number % 3 :] = 1
    labels = torch.randint(4, ROWS, (MASKED[number],), generator=made)
    loss: torch.Tensor = model(tokens, torch.arange(MASKED[number]), labels)[0]
    return loss


def share(worker: Worker, target: str) -> None:
    model = model_of()
    wrapped = worker.wrap(model)
    numbers = [[0, 1, 2], [3, 4]][worker.rank]
    for _ in range(2):  # the second step uses the buckets that the first one built
        model.zero_grad(set_to_none=True)
        for place, number in enumerate(numbers):
            with without_sync(wrapped, skip=place < len(numbers) - 1):
                (loss_of(wrapped, number) * worker.world_size).backward()
    torch.save({name: p.grad for name, p in model.named_parameters()}, f"{target}/{worker.rank}")


def test_gradients_are_the_sum_over_workers_and_micro_batches(tmp_path: Path) -> None:
    """Also of the tied word matrix, with unequal numbers and a micro-batch without masks."""
    run_in_workers(2, share, str(tmp_path))
    first, second = (torch.load(tmp_path / str(rank)) for rank in range(2))
    model = model_of()
    torch.stack([loss_of(model, number) for number in range(len(MASKED))]).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.equal(first[name], second[name])
        assert first[name].layout == torch.strided
        torch.testing.assert_close(first[name], parameter.grad, rtol=1e-6, atol=2e-6, msg=name)


def test_one_worker_wraps_nothing() -> None:
    model = model_of()
    assert Worker().wrap(model) is model


@given(batch=st.integers(1, 200), world=st.integers(1, 17))
def test_shares_of_a_batch_are_contiguous_and_even(batch: int, world: int) -> None:
    shares = [share_of_batch(batch, rank, world) for rank in range(world)]
    assert [sample for part in shares for sample in part] == list(range(batch))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
