"""Names of our tensors in transformers and back, for `xlm-roberta`, `bert` and `modernbert`.

The layouts are the same, so this is renaming; only ModernBERT keeps query, key and value in one
matrix, one above the other. Shared tensors are stored once: the decoder's matrix is the word
embeddings, and its bias the head's. Nothing here needs transformers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from model.config.encoder import Layout

Tensors = dict[str, torch.Tensor]
Head = Literal["masked", "classifier"]
FUSED = ("attention.query", "attention.key", "attention.value")
"""Our layers that ModernBERT keeps as one, in the order of its rows."""
COUNTERS = ("embeddings.position_ids", "embeddings.token_type_ids")
"""Rows of 0, 1, 2 ... that older versions of transformers stored with the weights."""


class NamesMismatch(RuntimeError):
    """Tensors are not those of the layout; the message names them."""


@dataclass(frozen=True)
class Names:
    """The names of one layout: ours to theirs, without `.weight` and `.bias`."""

    prefix: str
    """Of everything that is not a head."""
    layers: str
    """In front of a layer's number."""
    encoder: Mapping[str, str]
    layer: Mapping[str, str]
    heads: Mapping[Head, Mapping[str, str]]
    output_bias: str
    decoder: str
    """The decoder's layer: its weight is the word embeddings again, its bias the output bias."""
    fused: str | None = None
    """The layer that holds FUSED."""


BERT_ENCODER = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "token_type": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
}
BERT_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "output_norm": "output.LayerNorm",
}
NAMES: dict[Layout, Names] = {
    "xlm-roberta": Names(
        prefix="roberta",
        layers="encoder.layer",
        encoder=BERT_ENCODER,
        layer=BERT_LAYER,
        heads={
            "masked": {"dense": "lm_head.dense", "norm": "lm_head.layer_norm"},
            "classifier": {"dense": "classifier.dense", "output": "classifier.out_proj"},
        },
        output_bias="lm_head.bias",
        decoder="lm_head.decoder",
    ),
    "bert": Names(
        prefix="bert",
        layers="encoder.layer",
        encoder=BERT_ENCODER,
        layer=BERT_LAYER,
        heads={
            "masked": {
                "dense": "cls.predictions.transform.dense",
                "norm": "cls.predictions.transform.LayerNorm",
                "pooler": "bert.pooler.dense",
                "next_sentence": "cls.seq_relationship",
            },
            "classifier": {"dense": "bert.pooler.dense", "output": "classifier"},
        },
        output_bias="cls.predictions.bias",
        decoder="cls.predictions.decoder",
    ),
    "modernbert": Names(
        prefix="model",
        layers="layers",
        encoder={
            "words": "embeddings.tok_embeddings",
            "embedding_norm": "embeddings.norm",
            "final_norm": "final_norm",
        },
        layer={
            "attention.output": "attn.Wo",
            "attention_norm": "attn_norm",
            "expand": "mlp.Wi",
            "contract": "mlp.Wo",
            "output_norm": "mlp_norm",
        },
        heads={
            "masked": {"dense": "head.dense", "norm": "head.norm"},
            "classifier": {"dense": "head.dense", "norm": "head.norm", "output": "classifier"},
        },
        output_bias="decoder.bias",
        decoder="decoder",
        fused="attn.Wqkv",
    ),
}


def to_hugging_face(tensors: Mapping[str, torch.Tensor], layout: Layout, head: Head) -> Tensors:
    """Our tensors (weights, or gradients) under the names of transformers, each stored once.

    Args:
        tensors: a state dict of `model.heads.MaskedLanguageModel` or `SequenceClassifier`.

    Raises:
        NamesMismatch: a tensor is none of this layout's, or there is a decoder matrix that is not
            the word embeddings: the tied format would drop it.
    """
    names, named = NAMES[layout], {}
    tensors = dict(tensors)
    decoder = tensors.pop("decoder.weight", None)
    if decoder is not None and not torch.equal(decoder, tensors["encoder.words.weight"]):
        raise NamesMismatch(
            "decoder.weight differs from encoder.words.weight: the exported format ties them, so "
            "the decoder would be lost"
        )
    for name in list(tensors):
        if names.fused and FUSED[0] in name:
            parts = [tensors.pop(name.replace(FUSED[0], part)) for part in FUSED]
            place = name.replace(FUSED[0], "FUSED")
            named[_theirs(place, names, head)] = torch.cat(parts)
    named |= {_theirs(name, names, head): tensor.contiguous() for name, tensor in tensors.items()}
    return named


def _theirs(name: str, names: Names, head: Head) -> str:
    if name == "bias":
        return names.output_bias
    module, _, kind = name.rpartition(".")
    try:
        if layer := re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)", module):
            inside = names.fused if layer[2] == "FUSED" else names.layer[layer[2]]
            return f"{names.prefix}.{names.layers}.{layer[1]}.{inside}.{kind}"
        if module.startswith("encoder."):
            return f"{names.prefix}.{names.encoder[module.removeprefix('encoder.')]}.{kind}"
        return f"{names.heads[head][module]}.{kind}"
    except KeyError:
        raise NamesMismatch(f"{name} has no place in the layout of {names.prefix}") from None


def from_hugging_face(
    tensors: Mapping[str, torch.Tensor], layout: Layout, head: Head
) -> tuple[Tensors, list[str]]:
    """Tensors of a transformers checkpoint under our names.

    A checkpoint of the bare encoder has no prefix in front of its names; old ones of BERT say
    `gamma` and `beta` for a norm's weight and bias. Both are understood.

    Returns:
        Ours, as far as the checkpoint has them (the caller knows what its model needs); and the
        names that have no place in our model, sorted, such as a pooler that was never trained.

    Raises:
        NamesMismatch: the decoder's matrix or bias is stored a second time, with other values.
    """
    names, ours, left = NAMES[layout], {}, []
    back = {theirs: own for own, theirs in names.heads[head].items()}
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")
        kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)
        inside = module.removeprefix(f"{names.prefix}.")
        layer = re.fullmatch(rf"{re.escape(names.layers)}\.(\d+)\.(.+)", inside)
        if name.removeprefix(f"{names.prefix}.") in COUNTERS:
            continue
        if module in back:
            ours[f"{back[module]}.{kind}"] = tensor
        elif names.prefix + "." + inside in back:  # the pooler of a bare encoder
            ours[f"{back[f'{names.prefix}.{inside}']}.{kind}"] = tensor
        elif name == names.output_bias and head == "masked":
            ours["bias"] = tensor
        elif layer and layer[2] == names.fused:
            for part, rows in zip(FUSED, tensor.chunk(3), strict=True):
                ours[f"encoder.layers.{layer[1]}.{part}.{kind}"] = rows.contiguous()
        elif layer and layer[2] in names.layer.values():
            own = _key_of(names.layer, layer[2])
            ours[f"encoder.layers.{layer[1]}.{own}.{kind}"] = tensor
        elif inside in names.encoder.values():
            ours[f"encoder.{_key_of(names.encoder, inside)}.{kind}"] = tensor
        else:
            left.append(name)
    return ours, _without_second_copies(tensors, ours, left, names)


def _key_of(table: Mapping[str, str], value: str) -> str:
    return next(key for key, found in table.items() if found == value)


def _without_second_copies(
    tensors: Mapping[str, torch.Tensor], ours: Tensors, left: list[str], names: Names
) -> list[str]:
    """The names left over, less those of shared tensors that are stored twice."""
    copies = {f"{names.decoder}.weight": "encoder.words.weight", f"{names.decoder}.bias": "bias"}
    for name in [name for name in left if name in copies]:
        if copies[name] not in ours:
            continue
        if not torch.equal(tensors[name], ours[copies[name]]):
            raise NamesMismatch(
                f"{name} differs from what it is tied to here ({copies[name]}): this model has one "
                "matrix for reading and writing words, so one of the two would be lost"
            )
        left.remove(name)
    return sorted(left)
