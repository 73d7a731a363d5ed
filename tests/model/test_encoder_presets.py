"""Presets are data: their sizes are the published ones, and each can be trained whole."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import transformers
from pydantic import ValidationError

from model.config import EncoderSection, preset_names
from model.encoder import Encoder
from model.heads import MaskedLanguageModel, SequenceClassifier
from model.hugging_face.configs import config_of, masked_class
from tests.model.layouts import halves, padded_batch

SMALL: dict[str, Any] = {"layers": 2, "hidden_size": 16, "heads": 2, "feed_forward_size": 24}


def on_no_device(section: EncoderSection, rows: int, length: int) -> MaskedLanguageModel:
    with torch.device("meta"):
        return MaskedLanguageModel(Encoder(section, rows, length))


@pytest.mark.parametrize(
    ("preset", "rows", "length", "parameters"),
    [
        ("xlmr-large", 250_002, 512, 560_142_482),
        ("xlmr-base", 250_002, 512, 278_295_186),
        ("bert-base", 30_522, 512, 110_106_428),
        ("bert-large", 30_522, 512, 336_226_108),
        ("modern", 50_368, 8192, 149_655_232),
        ("demo", 8_000, 128, 1_462_336),
    ],
)
def test_presets_have_the_published_sizes(
    preset: str, rows: int, length: int, parameters: int
) -> None:
    section = EncoderSection(preset=preset)
    own = on_no_device(section, rows, length)
    assert sum(p.numel() for p in own.parameters()) == parameters
    with torch.device("meta"):
        kind = getattr(transformers, masked_class(section))
        theirs = kind(config_of(section, rows, length))
        theirs.tie_weights()
    assert sum(p.numel() for p in theirs.parameters()) == parameters


def test_the_default_is_xlmr_base() -> None:
    assert EncoderSection(preset="xlmr-base") == EncoderSection().model_copy(
        update={"preset": "xlmr-base"}
    )


def test_tables_of_positions_are_not_saved_where_they_are_computed() -> None:
    state = on_no_device(EncoderSection(preset="modern"), 100, 64).state_dict()
    assert not [name for name in state if "cos" in name or "sin" in name or "position" in name]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("preset", preset_names())
def test_every_parameter_gets_a_gradient(preset: str, apart: bool) -> None:
    section = EncoderSection(preset=preset, **SMALL)
    torch.manual_seed(4)
    model = MaskedLanguageModel(Encoder(section, 101, 20))
    tokens = padded_batch()
    starts = torch.tensor([0, 4, 20, 40, 60, 70]) if apart else None
    is_next = torch.tensor([True, False, True, False])
    masked = torch.tensor([1, 3, 21, 62])
    losses = model(tokens, masked, masked + 10, starts, halves(tokens), is_next)
    assert losses.shape == (2,) and losses.dtype == torch.float32
    assert bool(losses[1] > 0) is section.next_sentence
    losses.sum().backward()
    empty = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # A softmax does not change when the same is added to all scores of a row.
    assert [name for name in empty if not name.endswith("key.bias")] == []
    classifier = SequenceClassifier(Encoder(section, 101, 20), 3)
    torch.nn.functional.cross_entropy(classifier(tokens), torch.tensor([0, 1, 2, 0])).backward()
    assert all(p.grad is not None for p in classifier.parameters())


@pytest.mark.parametrize("preset", preset_names())
def test_a_batch_without_masked_tokens_costs_nothing_and_has_gradients(preset: str) -> None:
    section = EncoderSection(preset=preset, **SMALL).model_copy(update={"next_sentence": False})
    model = MaskedLanguageModel(Encoder(section, 50, 10))
    empty = torch.zeros(0, dtype=torch.int64)
    loss = model(torch.tensor([[0, 5, 2]]), empty, empty).sum()
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_a_pair_head_needs_pairs_and_only_there_is_one() -> None:
    tokens, masked = torch.tensor([[0, 5, 2, 6, 2]]), torch.tensor([1])
    model = MaskedLanguageModel(Encoder(EncoderSection(preset="bert-base", **SMALL), 50, 10))
    with pytest.raises(
        ValueError, match=r'does not say which pairs .* \(packing\.mode = "pairs"\)'
    ):
        model(tokens, masked, masked)
    other = MaskedLanguageModel(Encoder(EncoderSection(**SMALL), 50, 10))
    assert not [name for name, _ in other.named_parameters() if "pooler" in name]
    losses = other(tokens, masked, masked, is_next=torch.tensor([True]))
    assert float(losses[1].detach()) == 0.0
    with pytest.raises(ValueError, match="the model has no next-sentence head"):
        other.pair_logits(other.encoder(tokens))


@pytest.mark.parametrize("path", [None, "mask", "documents"])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("preset", preset_names())
def test_rows_of_padding_change_nothing(preset: str, apart: bool, path: Any) -> None:
    """Batches of a fixed shape may end in rows that hold nothing."""
    model = MaskedLanguageModel(Encoder(EncoderSection(preset=preset, **SMALL), 101, 20)).eval()
    model.encoder.path = path
    tokens, masked = padded_batch(), torch.tensor([1, 3, 21, 62])
    starts = torch.tensor([0, 4, 20, 40, 60, 70]) if apart else None
    is_next = torch.tensor([True, False, True, False])
    wanted = model(tokens, masked, masked + 10, starts, halves(tokens), is_next)
    wide = torch.cat([tokens, torch.ones(2, 20, dtype=torch.int64)])
    losses = model(wide, masked, masked + 10, starts, halves(wide), is_next, True)
    torch.testing.assert_close(losses, wanted)


@pytest.mark.parametrize("preset", preset_names())
def test_longest_sequence_fits_and_a_longer_one_is_refused(preset: str) -> None:
    encoder = Encoder(EncoderSection(preset=preset, **SMALL), 50, 10)
    assert encoder(torch.full((1, 10), 5)).shape == (1, 10, 16)
    with pytest.raises(ValueError, match=r"11 tokens is longer than the encoder's 10"):
        encoder(torch.full((1, 11), 5))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"norm": "pre"}, "layout of ModernBERT, which has positions = 'rotary', not 'learned'"),
        ({"positions": "rotary"}, "layout of XLM-R, which has positions = 'learned'"),
        ({"first_position": 0, "feed_forward": "geglu"}, "layout of BERT, which has feed_forward"),
        ({"first_position": 1}, "XLM-R, which has first_position = 2, not 1"),
        ({"segments": 0}, "a segment table: segments = 1 or 2"),
        ({"segments": 2, "next_sentence": True}, "XLM-R, which has next_sentence = False"),
        ({"first_position": 0, "next_sentence": True}, "next_sentence needs segments = 2, not 1"),
        ({"biases": False}, "biases = True, not False. Another mix could not be exported"),
        ({"preset": "modern", "hidden_size": 36}, "hidden_size / heads = 3: rotary"),
        ({"preset": "xlmr-larg"}, "did you mean 'xlmr-large'?"),
    ],
)
def test_a_mix_that_no_layout_has_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        EncoderSection.model_validate(settings)


def test_settings_stand_above_the_preset() -> None:
    section = EncoderSection(preset="xlmr-large", layers=3, dropout=0.2)
    assert (section.layers, section.hidden_size, section.dropout) == (3, 1024, 0.2)
    assert section.dropout_of_attention == 0.2
    without = EncoderSection(preset="xlmr-large", attention_dropout=0.0)
    assert (without.dropout_of_attention, without.dropout) == (0.0, 0.1)
    layers = Encoder(EncoderSection(**SMALL, attention_dropout=0.3), 50, 10).layers
    assert [layer.attention.dropout for layer in layers] == [0.3, 0.3]
