"""AdamW: what is decayed, what it does in a step, and that shares give what the whole gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from model.config import EncoderSection, PretrainingSection
from model.distributed import Worker
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.optimizer import (
    build_optimizer,
    load_optimizer_tensors,
    optimizer_tensors,
    set_learning_rate,
    split_parameters,
)
from model.sharded_adamw import ShardedAdamW, pieces_of

from .gloo_workers import run_in_workers

ROWS = 3001
SETTINGS = PretrainingSection(steps=10, warmup_steps=0, weight_decay=0.1)
SHARDED = SETTINGS.model_copy(update={"shard_optimizer": True})


def model_of() -> MaskedLanguageModel:
    torch.manual_seed(4)
    section = EncoderSection(layers=2, hidden_size=20, heads=2, feed_forward_size=36, dropout=0.0)
    return MaskedLanguageModel(Encoder(section, ROWS, 12))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Steps with gradients that depend on the step's number alone."""
    for step in steps:
        made = torch.Generator().manual_seed(step)
        optimizer.zero_grad(set_to_none=True)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=made)
        set_learning_rate(optimizer, 1e-2 / (step + 1))
        optimizer.step()


def test_biases_and_norms_are_not_decayed_and_embeddings_are() -> None:
    decayed, plain = split_parameters(model_of())
    assert decayed.keys() | plain.keys() == {name for name, _ in model_of().named_parameters()}
    assert all(name.endswith("bias") or "norm" in name for name in plain)
    assert not any("norm" in name or name.endswith("bias") for name in decayed)
    assert {"encoder.words.weight", "encoder.positions.weight"} <= decayed.keys()


def test_a_step_is_that_of_the_paper() -> None:
    """Loshchilov and Hutter 2019, algorithm 2, in float64."""
    model = nn.Linear(3, 2)
    optimizer = build_optimizer(model, SETTINGS, Worker())
    weight, mean, square = model.weight.detach().double().clone(), 0.0, 0.0
    for step in range(4):
        made = torch.Generator().manual_seed(step)
        gradient = torch.randn(model.weight.shape, generator=made).double()
        rate, b1, b2 = 1e-2 / (step + 1), SETTINGS.beta1, SETTINGS.beta2
        mean = b1 * mean + (1 - b1) * gradient
        square = b2 * square + (1 - b2) * gradient**2
        mean_hat, square_hat = mean / (1 - b1 ** (step + 1)), square / (1 - b2 ** (step + 1))
        weight -= rate * 0.1 * weight + rate * mean_hat / (square_hat.sqrt() + SETTINGS.epsilon)
    train(model, optimizer, range(4))
    torch.testing.assert_close(model.weight.detach().double(), weight, rtol=1e-5, atol=1e-6)


def test_state_goes_out_and_back() -> None:
    straight, first, second = model_of(), model_of(), model_of()
    train(straight, build_optimizer(straight, SETTINGS, Worker()), range(6))
    optimizer = build_optimizer(first, SETTINGS, Worker())
    train(first, optimizer, range(3))
    second.load_state_dict(first.state_dict())
    resumed = build_optimizer(second, SETTINGS, Worker())
    load_optimizer_tensors(second, resumed, optimizer_tensors(first, optimizer))
    train(second, resumed, range(3, 6))
    for ours, theirs in zip(second.parameters(), straight.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_state_of_another_model_is_refused() -> None:
    model = model_of()
    optimizer = build_optimizer(model, SETTINGS, Worker())
    tensors = optimizer_tensors(model, optimizer)
    with pytest.raises(KeyError, match="has 'elsewhere.weight', which the model has not"):
        load_optimizer_tensors(model, optimizer, {"elsewhere.weight/exp_avg": torch.zeros(2)})
    cut = {name: t for name, t in tensors.items() if not name.startswith("bias/exp_avg_sq")}
    cut["bias/exp_avg_sq@5"] = torch.zeros(ROWS - 5)
    with pytest.raises(KeyError, match="no exp_avg_sq of bias from element 0 on"):
        load_optimizer_tensors(model, optimizer, cut)


@pytest.mark.parametrize("lacking", ["bias/step", "bias/exp_avg_sq", "dense.weight/exp_avg"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_that_is_missing_is_named(lacking: str, workers: int) -> None:
    """Also of a whole parameter: it would go on from zeros in silence."""
    model = model_of()
    tensors = optimizer_tensors(model, build_optimizer(model, SETTINGS, Worker()))
    loaders = [build_optimizer(model, SHARDED, Worker(rank, workers)) for rank in range(workers)]

    def refusals(given: dict[str, torch.Tensor]) -> list[str]:
        errors = []
        for optimizer in loaders:
            try:
                load_optimizer_tensors(model, optimizer, given)
            except KeyError as error:
                errors.append(str(error))
        return errors

    assert refusals(tensors) == []
    name, _, key = lacking.rpartition("/")
    cut = {full: tensor for full, tensor in tensors.items() if full != lacking}
    assert any(f"no {key} of {name}, only [" in error for error in refusals(cut))
    cut = {full: tensor for full, tensor in tensors.items() if not full.startswith(f"{name}/")}
    assert any(f"no step of {name}, only nothing" in error for error in refusals(cut))
    assert len(refusals({})) == workers, "no state at all"
    more = tensors | {f"{name}/max_exp_avg_sq": torch.zeros(ROWS)}
    assert any(f"'max_exp_avg_sq' of {name}: AdamW keeps" in error for error in refusals(more))


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 100_000), min_size=1, max_size=12), workers=st.integers(1, 9))
def test_shares_cover_everything_once_and_are_even(sizes: list[int], workers: int) -> None:
    named = {f"p{number}": size for number, size in enumerate(sizes)}
    shares = pieces_of(named, workers)
    assert len(shares) == workers
    for name, size in named.items():
        parts = sorted(
            (p.begin, p.end, p.whole) for share in shares for p in share if p.name == name
        )
        assert parts[0][0] == 0 and parts[-1][1] == size
        assert all(one[1] == other[0] for one, other in zip(parts, parts[1:], strict=False))
        assert all(whole == (len(parts) == 1) for _, _, whole in parts)
    filled = [sum(p.end - p.begin for p in share) for share in shares]
    even = sum(sizes) / workers
    assert max(filled) <= even + max(even / 8 + 1024, 1024)


def test_a_vocabulary_matrix_is_shared_too() -> None:
    """xlmr-large's: whole, it would be 3.7 times the share of one of eight workers."""
    sizes = {"words": 250_002 * 1024, **{f"layer{n}": 12_596_224 for n in range(24)}}
    filled = [sum(p.end - p.begin for p in share) for share in pieces_of(sizes, 8)]
    assert max(filled) < 1.03 * sum(sizes.values()) / 8


def in_two_workers(worker: Worker, folder: str) -> None:
    whole, shared = model_of(), model_of()
    train(whole, build_optimizer(whole, SETTINGS, Worker()), range(5))
    optimizer = build_optimizer(shared, SHARDED, worker)
    assert isinstance(optimizer, ShardedAdamW)
    train(shared, optimizer, range(5))
    for ours, theirs in zip(shared.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    state = {
        "tensors": optimizer_tensors(shared, optimizer),
        "model": shared.state_dict(),
        "bytes": sum(v.nbytes for state in optimizer.state.values() for v in state.values()),
    }
    torch.save(state, f"{folder}/{worker.rank}")
    # Written by one worker alone, taken by two.
    alone = model_of()
    single = build_optimizer(alone, SETTINGS, Worker())
    train(alone, single, range(3))
    again = model_of()
    again.load_state_dict(alone.state_dict())
    resumed = build_optimizer(again, SHARDED, worker)
    load_optimizer_tensors(again, resumed, optimizer_tensors(alone, single))
    train(again, resumed, range(3, 5))
    for ours, theirs in zip(again.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two workers with a shared optimizer hold after five steps."""
    folder = tmp_path_factory.mktemp("shares")
    run_in_workers(2, in_two_workers, str(folder))
    return [torch.load(Path(folder) / str(rank)) for rank in range(2)]


def test_shared_state_is_halved_and_the_parameters_are_the_same(
    shares: list[dict[str, Any]],
) -> None:
    model = model_of()
    optimizer = build_optimizer(model, SETTINGS, Worker())
    whole = sum(v.nbytes for state in optimizer.state.values() for v in state.values())
    for share in shares:
        assert share["bytes"] == pytest.approx(whole / 2, rel=0.02)
    assert not shares[0]["tensors"].keys() & shares[1]["tensors"].keys()


def test_shares_of_two_are_taken_by_one_and_by_three(shares: list[dict[str, Any]]) -> None:
    straight = model_of()
    whole = build_optimizer(straight, SETTINGS, Worker())
    train(straight, whole, range(5))
    both = shares[0]["tensors"] | shares[1]["tensors"]
    model = model_of()
    optimizer = build_optimizer(model, SETTINGS, Worker())
    load_optimizer_tensors(model, optimizer, both)
    want = optimizer_tensors(straight, whole)
    found = optimizer_tensors(model, optimizer)
    assert want.keys() == found.keys()
    assert all(torch.equal(want[name], found[name]) for name in want)
    thirds: dict[str, torch.Tensor] = {}
    for rank in range(3):
        third = build_optimizer(model, SHARDED, Worker(rank, 3))
        load_optimizer_tensors(model, third, both)
        thirds |= optimizer_tensors(model, third)
    assert thirds.keys() != both.keys(), "cut at other places"
    again = build_optimizer(model, SETTINGS, Worker())
    load_optimizer_tensors(model, again, thirds)
    assert all(torch.equal(want[k], t) for k, t in optimizer_tensors(model, again).items())


def test_a_missing_share_is_named(shares: list[dict[str, Any]]) -> None:
    model = model_of()
    with pytest.raises(KeyError, match="a worker's part is missing"):
        load_optimizer_tensors(
            model, build_optimizer(model, SETTINGS, Worker()), shares[1]["tensors"]
        )
