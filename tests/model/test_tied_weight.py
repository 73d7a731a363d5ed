"""The weight that is looked up and projected by has one dense gradient: the sum of both."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from model.config import EncoderSection
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.losses import chunked_cross_entropy
from model.tied_weight import look_up, tied

ROWS, SIZE, PADDING = 40, 6, 1


def weight_of() -> nn.Parameter:
    return nn.Parameter(torch.randn(ROWS, SIZE, generator=torch.Generator().manual_seed(2)))


def both(weight: nn.Parameter, tokens: torch.Tensor, labels: torch.Tensor, ours: bool) -> None:
    """A model of one layer that looks up and projects; the backward pass is done."""
    if ours:
        words, decoder = tied(weight)
        hidden = look_up(tokens, words, PADDING)
    else:
        decoder = weight
        hidden = nn.functional.embedding(tokens, weight, padding_idx=PADDING)
    loss = chunked_cross_entropy(hidden[: len(labels)].tanh(), decoder, torch.zeros(ROWS), labels)
    (loss + hidden.square().sum()).backward()


@pytest.mark.parametrize("count", [0, 3, 9])
def test_the_gradient_is_that_of_one_weight_with_two_uses(count: int) -> None:
    tokens = torch.tensor([5, 5, 1, 7, 0, 39, 5, 1, 1, 8])
    labels = torch.arange(3, 3 + count)
    theirs, ours = weight_of(), weight_of()
    for _ in range(2):  # the second time there is a gradient to add to
        both(theirs, tokens, labels, ours=False)
        both(ours, tokens, labels, ours=True)
        assert ours.grad is not None and ours.grad.layout == torch.strided
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-6)


def test_padding_gets_no_gradient_from_the_look_up() -> None:
    weight = weight_of()
    words, decoder = tied(weight)
    look_up(torch.tensor([[1, 4], [1, 1]]), words, PADDING).sum().backward()
    want = torch.zeros(ROWS, SIZE)
    want[4] = 1.0
    assert torch.equal(weight.grad, want)  # type: ignore[arg-type]
    assert decoder.shape == weight.shape


def test_with_one_use_alone_it_is_an_ordinary_weight() -> None:
    weight = weight_of()
    _, decoder = tied(weight)
    decoder.sum().backward()
    assert torch.equal(weight.grad, torch.ones(ROWS, SIZE))  # type: ignore[arg-type]


def test_rows_are_added_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient that the projection makes is the one the optimizer gets: no second one."""
    places = []

    class Project(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, weight: torch.Tensor) -> torch.Tensor:
            return weight.sum()

        @staticmethod
        def backward(ctx: object, scale: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            made = torch.ones(ROWS, SIZE) * scale
            places.append(made.data_ptr())
            return made

    weight = weight_of()
    words, decoder = tied(weight)
    hidden = look_up(torch.tensor([3, 3, 9]), words, PADDING)
    (Project.apply(decoder) + hidden.sum()).backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert weight.grad[:, 0].tolist() == [1 + 2 * (row == 3) + (row == 9) for row in range(ROWS)]
    assert places == [weight.grad.data_ptr()]


def test_the_sum_does_not_depend_on_threads() -> None:
    """Many rows for few ids, in float32: another order of sums would show."""
    tokens = torch.randint(0, 4, (4, 600), generator=torch.Generator().manual_seed(0)) * 3
    values = torch.randn(4, 600, 64, generator=torch.Generator().manual_seed(1))
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            weight = nn.Parameter(torch.zeros(20, 64))
            words, decoder = tied(weight)
            ((look_up(tokens, words, PADDING) * values).sum() + 0 * decoder.sum()).backward()
            found.append(weight.grad)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[1], found[2])  # type: ignore[arg-type]


def test_the_model_uses_it_and_has_the_gradients_of_whole_logits() -> None:
    section = EncoderSection(layers=2, hidden_size=16, heads=2, feed_forward_size=32, dropout=0.0)
    torch.manual_seed(3)
    model = MaskedLanguageModel(Encoder(section, 1500, 12))
    tokens = torch.randint(4, 1500, (3, 12))
    tokens[1, 9:] = 1
    masked, labels = torch.tensor([1, 4, 11, 14, 30]), torch.tensor([9, 8, 7, 6, 5])
    names = [name for name, _ in model.named_parameters()]
    logits = model.logits(tokens).flatten(0, 1)[masked]
    whole = nn.functional.cross_entropy(logits, labels, reduction="sum")
    theirs = torch.autograd.grad(whole, list(model.parameters()))
    loss = model(tokens, masked, labels)[0]
    torch.testing.assert_close(loss, whole, rtol=1e-6, atol=1e-6)
    loss.backward()
    for name, parameter, want in zip(names, model.parameters(), theirs, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, want, rtol=1e-5, atol=1e-5, msg=name)
