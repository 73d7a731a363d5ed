"""Our encoder and that of transformers are one function, both ways, in every layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from model.config import EncoderSection
from model.encoder import Encoder
from model.heads import MaskedLanguageModel, SequenceClassifier
from model.hugging_face.configs import CLASSIFIER_CLASSES, config_of, section_of
from model.hugging_face.names import NamesMismatch, from_hugging_face, to_hugging_face
from pipelines.core.config import ConfigError
from tests.model.layouts import (
    LAYOUTS,
    LENGTH,
    ROWS,
    halves,
    inputs_of,
    masked_model,
    padded_batch,
    reference_of,
    section_of_layout,
    shaken,
)

SIZES = [
    {},
    {"layers": 1, "hidden_size": 16, "heads": 2, "feed_forward_size": 24},
    {"layers": 3, "hidden_size": 32, "heads": 4, "feed_forward_size": 64},
]


def load_ours(theirs: Any, own: MaskedLanguageModel) -> None:
    """Put our weights into the reference by name; only the tied decoder may be missing."""
    section = own.encoder.section
    named = to_hugging_face(own.state_dict(), section.layout, "masked")
    result = theirs.load_state_dict(named, strict=False)
    assert not result.unexpected_keys
    assert all("decoder." in key for key in result.missing_keys), result.missing_keys
    theirs.tie_weights()


@pytest.mark.parametrize("sizes", SIZES, ids=["2x24", "1x16", "3x32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_hidden_states_logits_and_gradients_are_those_of_transformers(
    layout: str, sizes: dict[str, int]
) -> None:
    section = section_of_layout(layout, **sizes)
    own, theirs = masked_model(section), reference_of(section)
    load_ours(theirs, own)
    tokens = padded_batch()
    real = tokens != 1
    reference = theirs(**inputs_of(section, tokens), output_hidden_states=True)
    hidden = own.encoder(tokens, segments=halves(tokens))
    assert (hidden - reference.hidden_states[-1])[real].abs().max() <= 1e-5
    logits = reference.prediction_logits if section.next_sentence else reference.logits
    assert (own.logits(tokens, halves(tokens)) - logits)[real].abs().max() <= 1e-5

    masked = torch.nonzero(real.flatten()).flatten()[1::3]
    labels = torch.randint(4, ROWS, (len(masked),))
    is_next = torch.tensor([True, False, True, True])
    losses = own(tokens, masked, labels, None, halves(tokens), is_next)
    losses.sum().backward()
    cross_entropy = torch.nn.functional.cross_entropy
    wanted = [cross_entropy(logits.flatten(0, 1)[masked], labels, reduction="sum")]
    if section.next_sentence:
        pairs = reference.seq_relationship_logits
        assert (own.pair_logits(hidden) - pairs).abs().max() <= 1e-5
        wanted.append(cross_entropy(pairs, (~is_next).long(), reduction="sum"))
    else:
        wanted.append(torch.tensor(0.0))
    torch.testing.assert_close(losses, torch.stack(wanted), rtol=1e-6, atol=1e-4)
    torch.stack(wanted).sum().backward()
    gradients = {name: p.grad for name, p in own.named_parameters()}
    assert all(gradient is not None for gradient in gradients.values())
    named = to_hugging_face(gradients, section.layout, "masked")
    theirs_by_name = dict(theirs.named_parameters(remove_duplicate=False))
    for name, gradient in named.items():
        wanted_gradient = theirs_by_name[name].grad
        torch.testing.assert_close(gradient, wanted_gradient, rtol=1e-4, atol=1e-4, msg=name)


def test_the_loss_of_pairs_is_that_of_transformers() -> None:
    """What transformers calls label 0 is a pair that follows."""
    section = section_of_layout("bert+next")
    own, theirs = masked_model(section), reference_of(section)
    load_ours(theirs, own)
    tokens, is_next = padded_batch(), torch.tensor([True, False, False, True])
    labels = torch.full_like(tokens, -100)
    labels[:, 1] = 7
    loss = theirs(
        **inputs_of(section, tokens), labels=labels, next_sentence_label=(~is_next).long()
    ).loss
    masked = torch.arange(4) * LENGTH + 1
    sums = own(tokens, masked, torch.full((4,), 7), None, halves(tokens), is_next)
    torch.testing.assert_close(sums.sum() / 4, loss)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_of_transformers_become_ours(layout: str) -> None:
    section = section_of_layout(layout)
    theirs = reference_of(section)
    shaken(theirs)
    ours, left = from_hugging_face(theirs.state_dict(), section.layout, "masked")
    assert left == []
    own = MaskedLanguageModel(Encoder(section, ROWS, LENGTH))
    own.load_state_dict(ours)
    tokens = padded_batch()
    with torch.no_grad():
        reference = theirs(**inputs_of(section, tokens))[0]
        logits = own.logits(tokens, halves(tokens))
    assert (logits - reference)[tokens != 1].abs().max() <= 1e-5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_go_there_and_back(layout: str) -> None:
    model = masked_model(section_of_layout(layout))
    kind = model.encoder.section.layout
    named = to_hugging_face(model.state_dict(), kind, "masked")
    back, left = from_hugging_face(named, kind, "masked")
    assert left == [] and back.keys() == model.state_dict().keys()
    assert all(torch.equal(back[name], t) for name, t in model.state_dict().items())


@pytest.mark.parametrize("layout", ["xlm-roberta", "bert", "modernbert"])
def test_a_bare_encoder_has_no_prefix_and_its_pooler_is_left_over(layout: str) -> None:
    section = section_of_layout(layout)
    config = config_of(section, ROWS, LENGTH)
    torch.manual_seed(1)
    theirs = transformers.AutoModel.from_config(config).eval()
    ours, left = from_hugging_face(theirs.state_dict(), section.layout, "masked")
    wanted = [] if layout == "modernbert" else ["pooler.dense.bias", "pooler.dense.weight"]
    if layout == "bert":  # BERT's pooler belongs to its head of sentence pairs
        assert {"pooler.weight", "pooler.bias"} < ours.keys()
        ours = {name: t for name, t in ours.items() if not name.startswith("pooler.")}
        wanted = []
    assert left == wanted
    encoder = Encoder(section, ROWS, LENGTH)
    encoder.load_state_dict({name.removeprefix("encoder."): t for name, t in ours.items()})
    tokens = padded_batch()
    with torch.no_grad():
        difference = (
            encoder(tokens, segments=halves(tokens))
            - theirs(**inputs_of(section, tokens)).last_hidden_state
        )
    assert difference[tokens != 1].abs().max() <= 1e-5


def test_names_of_old_checkpoints_are_understood() -> None:
    model = masked_model(section_of_layout("bert"))
    named = to_hugging_face(model.state_dict(), "bert", "masked")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in named.items()
    }
    counter = {"bert.embeddings.position_ids": torch.arange(20)[None]}
    back, left = from_hugging_face(old | counter, "bert", "masked")
    assert old.keys() != named.keys() and left == []
    assert back.keys() == model.state_dict().keys()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_broken_tie_is_refused_and_a_whole_one_is_not(layout: str) -> None:
    state = masked_model(section_of_layout(layout)).state_dict()
    kind, words = section_of_layout(layout).layout, state["encoder.words.weight"]
    whole = to_hugging_face({**state, "decoder.weight": words.clone()}, kind, "masked")
    assert whole.keys() == to_hugging_face(state, kind, "masked").keys()
    with pytest.raises(NamesMismatch, match=r"decoder\.weight differs"):
        to_hugging_face({**state, "decoder.weight": words + 1e-3}, kind, "masked")

    theirs = reference_of(section_of_layout(layout)).state_dict()
    [decoder] = [name for name in theirs if name.endswith("decoder.weight")]
    with pytest.raises(NamesMismatch, match=r"decoder\.weight differs"):
        from_hugging_face({**theirs, decoder: theirs[decoder] + 1e-3}, kind, "masked")


def test_a_tensor_of_another_layout_is_named() -> None:
    state = masked_model(section_of_layout("bert+next")).state_dict()
    with pytest.raises(NamesMismatch, match=r"pooler\.weight has no place in the layout of robert"):
        to_hugging_face(state, "xlm-roberta", "masked")
    _, left = from_hugging_face({"roberta.adapter.weight": torch.ones(1)}, "xlm-roberta", "masked")
    assert left == ["roberta.adapter.weight"]


@pytest.mark.parametrize("sizes", SIZES, ids=["2x24", "1x16", "3x32"])
@pytest.mark.parametrize("layout", ["xlm-roberta", "bert", "modernbert"])
def test_classifier_gives_the_logits_of_transformers(layout: str, sizes: dict[str, int]) -> None:
    section = section_of_layout(layout, **sizes)
    own = SequenceClassifier(Encoder(section, ROWS, LENGTH), 5)
    shaken(own)
    kind = getattr(transformers, CLASSIFIER_CLASSES[section.layout])
    theirs = kind(config_of(section, ROWS, LENGTH, num_labels=5)).eval()
    theirs.load_state_dict(to_hugging_face(own.state_dict(), section.layout, "classifier"))
    tokens = padded_batch()
    with torch.no_grad():
        reference = theirs(**inputs_of(section, tokens)).logits
        assert (own(tokens, halves(tokens)) - reference).abs().max() <= 1e-5
    back, left = from_hugging_face(theirs.state_dict(), section.layout, "classifier")
    assert left == [] and back.keys() == own.state_dict().keys()


@pytest.mark.parametrize("biases", [False, True])
def test_modern_layers_may_have_biases(biases: bool) -> None:
    section = section_of_layout("modernbert", biases=biases)
    own, theirs = masked_model(section), reference_of(section)
    load_ours(theirs, own)
    tokens = padded_batch()
    with torch.no_grad():
        difference = own.logits(tokens) - theirs(**inputs_of(section, tokens)).logits
    assert difference[tokens != 1].abs().max() <= 1e-5
    assert ("encoder.layers.1.attention_norm.bias" in own.state_dict()) is biases


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_config_file_tells_the_section(layout: str) -> None:
    section = section_of_layout(layout, dropout=0.2, attention_dropout=0.1, rotary_base=5000.0)
    architectures = ["BertForPreTraining"] if section.next_sentence else None
    written = config_of(section, ROWS, LENGTH, architectures=architectures).to_dict()
    found, rows, length = section_of(written)
    if section.positions == "learned":
        section = section.model_copy(update={"rotary_base": 10_000.0})
    assert (found, rows, length) == (section, ROWS, LENGTH)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "deberta"}, "model_type = 'deberta': the encoders known are xlm-roberta"),
        ({"model_type": "bert", "hidden_act": "relu"}, "hidden_act = 'relu' of a bert model"),
        ({"model_type": "bert", "is_decoder": True}, "is_decoder = True"),
        ({"model_type": "modernbert"}, "layer_types = .*sliding_attention"),
        (
            {"model_type": "modernbert", "global_attn_every_n_layers": 1, "mlp_bias": True},
            "mlp_bias = True of a modernbert model: this encoder has False",
        ),
    ],
)
def test_a_config_of_something_else_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        section_of(config)


def test_padding_changes_no_real_token() -> None:
    encoder = masked_model(section_of_layout("xlm-roberta")).encoder.eval()
    short = torch.tensor([[0, 7, 8, 2]])
    wide = torch.nn.functional.pad(short, (0, 9), value=1)
    torch.testing.assert_close(encoder(wide)[:, :4], encoder(short), rtol=0, atol=1e-6)


def test_dropout_and_sizes_reach_the_config() -> None:
    section = EncoderSection(preset="bert-base", dropout=0.3, attention_dropout=0.2)
    config = config_of(section, 30522, 512)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.3, 0.2)
    assert (config.max_position_embeddings, config.type_vocab_size) == (512, 2)
    assert config_of(EncoderSection(), 250_002, 512).max_position_embeddings == 514
