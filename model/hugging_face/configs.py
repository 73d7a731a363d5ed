"""Configurations of transformers for our encoders, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError
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


WHOLE_NUMBERS = {
    "vocab_size": 1,
    "hidden_size": 1,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 1,
    "max_position_embeddings": 1,
    "type_vocab_size": 0,
    "pad_token_id": 0,
}
"""Settings of a config.json that sizes are computed with, and the least that each may be."""
THEIR_NAMES = {
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feed_forward_size": "intermediate_size",
    "initializer_std": "initializer_range",
    "rotary_base": "rope_theta",
    "biases": "norm_bias",
    "segments": "type_vocab_size",
}
"""Names in a config.json of settings of [encoder], where they are others, in all layouts."""


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
    full = _read(config)
    kind = full.model_type
    names_of_classes = full.architectures if isinstance(full.architectures, list) else []
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
        values |= {
            "norm": "pre",
            "positions": "rotary",
            "rotary_base": _rotary_base(full),
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
            "next_sentence": "BertForPreTraining" in names_of_classes,
            "norm_epsilon": full.layer_norm_eps,
            "dropout": full.hidden_dropout_prob,
            "attention_dropout": full.attention_probs_dropout_prob,
        }
    length = longest_input(full)
    if length < 1:
        raise ConfigError(
            f"max_position_embeddings = {full.max_position_embeddings}: room for no token"
        )
    if modern:
        names = {"norm_epsilon": "norm_eps", "dropout": "embedding_dropout"}
    else:
        names = {
            "norm_epsilon": "layer_norm_eps",
            "dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
        }
    return _section(values, THEIR_NAMES | names), full.vocab_size, length


def _read(config: Any) -> PreTrainedConfig:
    """A config.json as transformers reads it, after looking at what sizes are computed with."""
    if not isinstance(config, Mapping):
        raise ConfigError(f"need an object, not {config!r}")
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"model_type = {kind!r}: the encoders known are {', '.join(KINDS)}")
    for name, least in WHOLE_NUMBERS.items():
        if name == "pad_token_id" and kind != "xlm-roberta":
            continue  # nothing is computed with it
        if name in config and not _is_whole(config[name], least):
            raise ConfigError(f"{name} = {config[name]!r}: need a whole number from {least} on")
    try:
        full = KINDS[kind].from_dict(dict(config))
    except Exception as error:  # of transformers' own kinds
        raise ConfigError(
            f"transformers does not take it: {' '.join(str(error).split())}"
        ) from None
    return full


def _rotary_base(full: PreTrainedConfig) -> float:
    try:
        rotary = dict(full.rope_parameters["full_attention"])
        turn, base = rotary["rope_type"], rotary["rope_theta"]
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"rope_parameters = {full.rope_parameters!r}: need rope_type and rope_theta of "
            "full_attention"
        ) from None
    if turn != "default":
        raise ConfigError(f"rope_type = {turn!r}: this encoder has 'default'")
    return cast(float, base)


def _section(values: Mapping[str, Any], names: Mapping[str, str]) -> EncoderSection:
    """The section of settings that were read; errors have the names of config.json."""
    try:
        return EncoderSection.model_validate(values)
    except ValidationError as error:
        raise ConfigError(
            "; ".join(
                f"{names.get(str(one['loc'][0]), one['loc'][0])} = {one['input']!r}: {one['msg']}"
                if one["loc"]
                else one["msg"].removeprefix("Value error, ")
                for one in error.errors(include_url=False)
            )
        ) from None


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
