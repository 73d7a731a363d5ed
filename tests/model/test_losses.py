"""The fused, chunked cross-entropy equals the one of whole logits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from model import losses
from model.losses import chunked_cross_entropy, slices

SIZE = 12
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(rows: int, vocabulary: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Inputs:
    made = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, SIZE, generator=made, dtype=dtype)
    weight = torch.randn(vocabulary, SIZE, generator=made, dtype=dtype)
    bias = torch.randn(vocabulary, generator=made, dtype=dtype)
    labels = torch.randint(0, vocabulary, (rows,), generator=made)
    leaves = (tensor.requires_grad_() for tensor in (hidden, weight, bias))
    return (*leaves, labels)  # type: ignore[return-value]


def whole(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    logits = nn.functional.linear(hidden, weight, bias).to(bias.dtype)
    return nn.functional.cross_entropy(logits, labels, reduction="sum")


def check(given: Inputs, max_rows: int, scale: float = 0.37) -> None:
    want, found = whole(*given), chunked_cross_entropy(*given, max_rows)
    torch.testing.assert_close(found, want, rtol=1e-6, atol=1e-6)
    wanted = torch.autograd.grad(want * scale, given[:3])
    for ours, theirs in zip(torch.autograd.grad(found * scale, given[:3]), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("max_rows", [1, 7, 16, 17, 23, 8192])
def test_chunked_equals_whole(max_rows: int) -> None:
    check(inputs(23, 5003), max_rows)


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 40), vocabulary=st.integers(1, 3000), max_rows=st.integers(1, 50))
def test_at_any_sizes(rows: int, vocabulary: int, max_rows: int) -> None:
    check(inputs(rows, vocabulary, seed=rows), max_rows)


def test_float64_is_exact() -> None:
    given = inputs(23, 5003, dtype=torch.float64)
    found = chunked_cross_entropy(*given, 5)
    torch.testing.assert_close(found, whole(*given), rtol=1e-13, atol=0)
    theirs = torch.autograd.grad(whole(*given), given[:3])
    for one, other in zip(torch.autograd.grad(found, given[:3]), theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_known_answer() -> None:
    hidden = torch.zeros(3, SIZE)
    loss = chunked_cross_entropy(
        hidden, torch.zeros(8, SIZE), torch.zeros(8), torch.tensor([0, 3, 7])
    )
    assert loss.item() == pytest.approx(3 * 2.0794415, abs=1e-6), "three times ln 8"


def test_large_logits_do_not_overflow() -> None:
    hidden, weight, bias, labels = inputs(6, 3000)
    with torch.no_grad():
        hidden *= 1000
    check((hidden, weight, bias, labels), 4, scale=1e-4)


def test_no_rows_give_zero_and_dense_zero_gradients() -> None:
    given = inputs(0, 50)
    loss = chunked_cross_entropy(*given)
    assert loss.item() == 0.0 and loss.dtype == torch.float32
    loss.backward()
    for leaf in given[:3]:
        assert leaf.grad is not None and leaf.grad.shape == leaf.shape
        assert not leaf.grad.any()


def test_without_gradients_it_is_the_same_loss() -> None:
    given = inputs(9, 2100)
    with torch.no_grad():
        alone = chunked_cross_entropy(*given, 4)
    assert not alone.requires_grad
    assert torch.equal(alone, chunked_cross_entropy(*given, 4).detach())


def test_autocast_rounds_matrix_products_only() -> None:
    given = inputs(23, 5003)
    theirs = torch.autograd.grad(whole(*given), given[:3])
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_cross_entropy(*given, 7)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(whole(*given).item(), rel=2e-3)
    for ours, exact in zip(torch.autograd.grad(loss, given[:3]), theirs, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - exact).norm() < 0.02 * exact.norm()


def test_gradients_add_up_over_micro_batches() -> None:
    first, second = inputs(9, 1500), inputs(4, 1500, seed=1)
    _, weight, bias, _ = first
    for hidden, _, _, labels in (first, second):
        chunked_cross_entropy(hidden, weight, bias, labels).backward()
    hidden = torch.cat([first[0], second[0]])
    labels = torch.cat([first[3], second[3]])
    want = torch.autograd.grad(whole(hidden, weight, bias, labels), (weight, bias))
    torch.testing.assert_close(weight.grad, want[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(bias.grad, want[1], rtol=1e-5, atol=1e-5)


def test_frozen_parts_get_no_gradient() -> None:
    hidden, weight, bias, labels = inputs(5, 1200)
    chunked_cross_entropy(hidden, weight.detach(), bias, labels).backward()
    assert hidden.grad is not None and bias.grad is not None
    [want] = torch.autograd.grad(whole(hidden, weight, bias, labels), hidden)
    torch.testing.assert_close(hidden.grad, want, rtol=1e-5, atol=1e-5)


def test_a_second_backward_pass_is_refused() -> None:
    loss = chunked_cross_entropy(*inputs(5, 40))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute the loss again"):
        loss.backward()


def test_never_more_rows_of_logits_than_fit_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 250,002 ids, 8,590 rows are more than 2^31 logits; what is asked for is never more."""
    seen = []

    def spy(state: torch.Tensor, columns: list[slice]) -> list[torch.Tensor]:
        seen.append((len(state), columns[-1].stop))
        return real(state, columns)

    real = losses._blocks
    monkeypatch.setattr(losses, "_blocks", spy)
    given = inputs(2 * losses.MAX_ROWS + 3, 3)
    chunked_cross_entropy(*given).backward()
    assert seen == [(8192, 3), (8192, 3), (3, 3)]
    assert losses.MAX_ROWS * 250_002 < 2**31


def test_room_for_logits_covers_them_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "SEGMENT_BYTES", 4 * 5 * 30)
    columns = list(slices(100, 12))
    blocks = losses._blocks(torch.zeros(5, SIZE), columns)
    assert [tuple(block.shape) for block in blocks] == [(5, 12)] * 8 + [(5, 4)]
    assert all(block.is_contiguous() for block in blocks)
    segments = [block.untyped_storage().nbytes() for block in blocks]
    assert segments == [4 * 180] * 6 + [4 * 140] * 3, "500 logits in 150s are three segments"


def test_a_chunk_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="max_rows = 0: a chunk has at least one row"):
        chunked_cross_entropy(*inputs(2, 5), 0)
