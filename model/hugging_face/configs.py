"""Configurations of transformers for our encoders, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import BertConfig, ModernBertConfig, PreTrainedConfig, XLMRobertaConfig

from model.config import EncoderSection
from model.config.encoder import Layout
from pipelines.core.config import ConfigError
from pipelines.core.vocabulary import BOS_ID, EOS_ID, PAD_ID

KINDS: dict[str, type[PreTrainedConfig]] = {
    "xlm-roberta": XLMRobertaConfig,
    "bert": BertConfig,
    "modernbert": ModernBertConfig,
}
MASKED_CLASSES: dict[Layout, str] = {
    "xlm-roberta": "XLMRobertaForMaskedLM",
    "bert": "BertForMaskedLM",
    "modernbert": "ModernBertForMaskedLM",
}
CLASSIFIER_CLASSES: dict[Layout, str] = {
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "bert": "BertForSequenceClassification",
    "modernbert": "ModernBertForSequenceClassification",
}


def masked_class(section: EncoderSection) -> str:
    """The class of transformers that a pretrained model is exported as."""
    return "BertForPreTraining" if section.next_sentence else MASKED_CLASSES[section.layout]


def config_of(section: EncoderSection, rows: int, length: int, **more: Any) -> PreTrainedConfig:
    """The configuration transformers needs for an encoder of ours.

    Args:
        section: sizes and layout.
        rows: of the vocabulary.
        length: longest sequence in tokens. XLM-R's table of positions has two rows more.
        more: other settings, such as `architectures` and `id2label`.
    """
    same = {
        "vocab_size": rows,
        "hidden_size": section.hidden_size,
        "num_hidden_layers": section.layers,
        "num_attention_heads": section.heads,
        "intermediate_size": section.feed_forward_size,
        "initializer_range": section.initializer_std,
        "bos_token_id": BOS_ID,
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "tie_word_embeddings": True,
        **more,
    }
    if section.layout == "modernbert":
        rotary = {"rope_type": "default", "rope_theta": section.rotary_base}
        return ModernBertConfig(
            cls_token_id=BOS_ID,
            sep_token_id=EOS_ID,
            max_position_embeddings=length,
            hidden_activation="gelu",
            norm_eps=section.norm_epsilon,
            norm_bias=section.biases,
            attention_bias=section.biases,
            mlp_bias=section.biases,
            classifier_bias=section.biases,
            decoder_bias=True,
            classifier_pooling="cls",
            layer_types=["full_attention"] * section.layers,
            rope_parameters={"full_attention": rotary, "sliding_attention": rotary},
            attention_dropout=section.dropout_of_attention,
            embedding_dropout=section.dropout,
            mlp_dropout=section.dropout,
            **same,
        )
    return KINDS[section.layout](
        hidden_act="gelu",
        max_position_embeddings=length + section.first_position,
        type_vocab_size=section.segments,
        layer_norm_eps=section.norm_epsilon,
        hidden_dropout_prob=section.dropout,
        attention_probs_dropout_prob=section.dropout_of_attention,
        **same,
    )


def longest_input(config: PreTrainedConfig) -> int:
    """Tokens that a model of transformers can read."""
    roberta = config.model_type == "xlm-roberta"
    return int(config.max_position_embeddings) - (config.pad_token_id + 1 if roberta else 0)


def section_of(config: Mapping[str, Any]) -> tuple[EncoderSection, int, int]:
    """The encoder that a config.json describes.

    Args:
        config: its content; what it leaves out is as in transformers.

    Returns:
        Sizes and layout, rows of the vocabulary, and the longest input in tokens.

    Raises:
        ConfigError: the model is of another kind, or has a part that ours does not; it is named.
    """
    kind = config.get("model_type")
    if kind not in KINDS:
        raise ConfigError(f"model_type = {kind!r}: the encoders known are {', '.join(KINDS)}")
    full = KINDS[kind].from_dict(dict(config))
    modern = kind == "modernbert"
    wanted: dict[str, Any] = {"hidden_activation" if modern else "hidden_act": "gelu"}
    if modern:
        wanted |= {"layer_types": ["full_attention"] * full.num_hidden_layers}
        wanted |= dict.fromkeys(("attention_bias", "mlp_bias"), full.norm_bias)
    else:
        wanted |= {"is_decoder": False}
    for name, value in wanted.items():
        if (found := getattr(full, name)) != value:
            raise ConfigError(f"{name} = {found!r} of a {kind} model: this encoder has {value!r}")
    values = {
        "layers": full.num_hidden_layers,
        "hidden_size": full.hidden_size,
        "heads": full.num_attention_heads,
        "feed_forward_size": full.intermediate_size,
        "initializer_std": full.initializer_range,
    }
    if modern:
        rotary = full.rope_parameters["full_attention"]
        if rotary["rope_type"] != "default":
            raise ConfigError(f"rope_type = {rotary['rope_type']!r}: this encoder has 'default'")
        values |= {
            "norm": "pre",
            "positions": "rotary",
            "rotary_base": rotary["rope_theta"],
            "feed_forward": "geglu",
            "biases": full.norm_bias,
            "segments": 0,
            "norm_epsilon": full.norm_eps,
            "dropout": full.embedding_dropout,
            "attention_dropout": full.attention_dropout,
        }
    else:
        values |= {
            "first_position": 2 if kind == "xlm-roberta" else 0,
            "segments": full.type_vocab_size,
            "next_sentence": "BertForPreTraining" in (full.architectures or []),
            "norm_epsilon": full.layer_norm_eps,
            "dropout": full.hidden_dropout_prob,
            "attention_dropout": full.attention_probs_dropout_prob,
        }
    return EncoderSection.model_validate(values), full.vocab_size, longest_input(full)
