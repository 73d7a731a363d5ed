from __future__ import annotations

import pytest
import torch
from transformers import XLMRobertaForMaskedLM, XLMRobertaForSequenceClassification

from model.config import EncoderSection
from model.encoder import Encoder
from model.export import CLASSIFIER_NAMES, MASKED_HEAD_NAMES, config_of, hugging_face_name, renamed
from model.heads import MaskedLanguageModel, SequenceClassifier
from model.losses import chunked_cross_entropy, cross_entropy_sum

SHAPES = [(1, 16, 2, 24, 53, 11), (3, 24, 3, 64, 101, 20), (2, 32, 4, 40, 77, 33)]


def shaken(module: torch.nn.Module) -> None:
    """Give every parameter a value of its own, biases, norms and padding rows among them."""
    torch.manual_seed(3)
    for parameter in module.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)


def padded_batch(rows: int, length: int) -> torch.Tensor:
    torch.manual_seed(5)
    tokens = torch.randint(4, rows, (4, length))
    tokens[:, 0] = 0
    for row, real in enumerate((length, length // 2, 3, length - 1)):
        tokens[row, real - 1] = 2
        tokens[row, real:] = 1
    return tokens


@pytest.mark.parametrize(("layers", "size", "heads", "inner", "rows", "length"), SHAPES)
def test_masked_model_gives_the_logits_and_gradients_of_transformers(
    layers: int, size: int, heads: int, inner: int, rows: int, length: int
) -> None:
    section = EncoderSection(
        layers=layers, hidden_size=size, heads=heads, feed_forward_size=inner, dropout=0.0
    )
    own = MaskedLanguageModel(Encoder(section, rows, length))
    shaken(own)
    theirs = XLMRobertaForMaskedLM(config_of(section, rows, length)).eval()
    missing = theirs.load_state_dict(renamed(own.state_dict(), MASKED_HEAD_NAMES), strict=False)
    assert not missing.unexpected_keys
    assert {key.split(".")[1] for key in missing.missing_keys} == {"decoder"}
    theirs.tie_weights()
    tokens = padded_batch(rows, length)
    real = tokens != 1
    reference = theirs(input_ids=tokens, attention_mask=real.long()).logits
    assert (own.logits(tokens) - reference)[real].abs().max() <= 1e-5

    masked = torch.nonzero(real.flatten()).flatten()[1::3]
    labels = torch.randint(4, rows, (len(masked),))
    own(tokens, masked, labels).sum().backward()
    flat = reference.flatten(0, 1)[masked]
    torch.nn.functional.cross_entropy(flat, labels, reduction="sum").backward()
    gradients = dict(theirs.named_parameters(remove_duplicate=False))
    for name, parameter in own.named_parameters():
        assert parameter.grad is not None, name
        wanted = gradients[hugging_face_name(name, MASKED_HEAD_NAMES)].grad
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize(("layers", "size", "heads", "inner", "rows", "length"), SHAPES)
def test_classifier_gives_the_logits_of_transformers(
    layers: int, size: int, heads: int, inner: int, rows: int, length: int
) -> None:
    section = EncoderSection(
        layers=layers, hidden_size=size, heads=heads, feed_forward_size=inner, dropout=0.0
    )
    own = SequenceClassifier(Encoder(section, rows, length), 5)
    shaken(own)
    theirs = XLMRobertaForSequenceClassification(config_of(section, rows, length, num_labels=5))
    theirs.eval().load_state_dict(renamed(own.state_dict(), CLASSIFIER_NAMES))
    tokens = padded_batch(rows, length)
    with torch.no_grad():
        reference = theirs(input_ids=tokens, attention_mask=(tokens != 1).long()).logits
        assert (own(tokens) - reference).abs().max() <= 1e-5


def test_padding_changes_no_real_token() -> None:
    section = EncoderSection(layers=2, hidden_size=16, heads=2, feed_forward_size=16, dropout=0.0)
    encoder = Encoder(section, 50, 20).eval()
    shaken(encoder)
    short = torch.tensor([[0, 7, 8, 2]])
    wide = torch.nn.functional.pad(short, (0, 9), value=1)
    torch.testing.assert_close(encoder(wide)[:, :4], encoder(short), rtol=0, atol=1e-6)


def test_longest_sequence_fits_and_a_longer_one_is_refused() -> None:
    section = EncoderSection(layers=1, hidden_size=8, heads=1, feed_forward_size=8)
    encoder = Encoder(section, 50, 10)
    assert encoder.positions.weight.shape == (12, 8)
    assert encoder(torch.full((1, 10), 5)).shape == (1, 10, 8)
    with pytest.raises(ValueError, match=r"11 tokens is longer than the encoder's 10"):
        encoder(torch.full((1, 11), 5))


@pytest.mark.parametrize("max_rows", [1, 7, 8, 1000])
def test_chunked_cross_entropy_equals_the_whole_one(max_rows: int) -> None:
    torch.manual_seed(0)
    results = []
    for function in (lambda *a: chunked_cross_entropy(*a, max_rows=max_rows), cross_entropy_sum):
        torch.manual_seed(1)
        hidden = torch.randn(23, 6, requires_grad=True)
        weight = torch.randn(40, 6, requires_grad=True)
        bias = torch.randn(40, requires_grad=True)
        loss = function(hidden, weight, bias, torch.randint(0, 40, (23,)))
        loss.backward()
        results.append([loss.detach(), hidden.grad, weight.grad, bias.grad])
    for own, wanted in zip(*results, strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-5, atol=1e-5)


def test_a_batch_without_masked_tokens_costs_nothing_and_has_gradients() -> None:
    section = EncoderSection(layers=1, hidden_size=8, heads=1, feed_forward_size=8)
    model = MaskedLanguageModel(Encoder(section, 50, 10))
    empty = torch.zeros(0, dtype=torch.int64)
    loss = model(torch.tensor([[0, 5, 2]]), empty, empty).sum()
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())
