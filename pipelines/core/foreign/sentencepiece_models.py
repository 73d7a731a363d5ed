"""Unigram vocabularies in XLM-R's layout: SentencePiece models, and the tokenizer.json of one."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from sentencepiece.sentencepiece_model_pb2 import ModelProto, NormalizerSpec

from pipelines.core.foreign.base import (
    FAST,
    SENTENCEPIECE,
    CannotAdopt,
    ForeignVocabulary,
    check_added,
    parts_of,
)
from pipelines.core.normalizers import NORMALIZERS, normalizer_spec
from pipelines.core.vocabulary import FIRST_PIECE_ID, MASK_TOKEN, SPECIAL_TOKENS, Vocabulary

BYTE = re.compile("<0x[0-9A-F]{2}>")
LEAST_SCORE = -1_000.0
"""A log-probability of a piece is above it."""


def read_sentencepiece(
    model: bytes, name: str, fast: Mapping[str, Any] | None
) -> ForeignVocabulary:
    """A SentencePiece model as a vocabulary.

    Args:
        name: the file that it comes from.
        fast: the tokenizer.json beside it, which must say the same.

    Raises:
        CannotAdopt: it is no Unigram model in XLM-R's layout.
    """
    try:
        proto = ModelProto.FromString(model)
        kind = proto.trainer_spec.model_type
        if kind != proto.trainer_spec.UNIGRAM:
            written = proto.trainer_spec.ModelType.Name(kind)
            raise CannotAdopt(f"{name} holds a SentencePiece model of type {written}, need UNIGRAM")
        vocabulary = Vocabulary(model)
    except CannotAdopt:
        raise
    except Exception as error:  # the libraries have errors of their own for what is no model
        why = error if isinstance(error, ValueError) else "it is another file"
        raise CannotAdopt(f"{name} is no SentencePiece model in XLM-R's layout: {why}") from None
    rules = proto.normalizer_spec
    if proto.trainer_spec.treat_whitespace_as_suffix or not (
        rules.add_dummy_prefix and rules.remove_extra_whitespaces and rules.escape_whitespaces
    ):
        raise CannotAdopt(f"{name} does not put one blank before each word, as XLM-R's model does")
    if any(piece.type == piece.USER_DEFINED for piece in proto.pieces):
        raise CannotAdopt(f"{name} has user-defined symbols, which take precedence over scores")
    if fast is not None and fast.get("model", {}).get("type") == "Unigram":
        table = [piece for piece, _ in fast["model"]["vocab"]]
        for place, token in enumerate(table):
            if place >= vocabulary.rows or vocabulary.token(place) != token:
                raise CannotAdopt(
                    f"{FAST} has {token!r} at id {place}, where {name} in XLM-R's layout has "
                    f"{vocabulary.token(place)!r}"
                    if place < vocabulary.rows
                    else f"{FAST} has {len(table)} ids, {name} in XLM-R's layout {vocabulary.rows}"
                )
        check_added(fast, {vocabulary.token(i): i for i in _special_places(vocabulary.rows)})
    return ForeignVocabulary(vocabulary, np.arange(vocabulary.rows))


def _special_places(rows: int) -> list[int]:
    return [*range(FIRST_PIECE_ID), rows - 1]


def sentencepiece_of(fast: Mapping[str, Any]) -> bytes:
    """The SentencePiece model that a tokenizer.json was made of.

    Raises:
        CannotAdopt: it holds what such a model cannot.
    """
    table = fast["model"]["vocab"]
    names = [piece for piece, _ in table]
    special = [*SPECIAL_TOKENS, MASK_TOKEN]
    if [*names[:FIRST_PIECE_ID], *names[-1:]] != special:
        raise CannotAdopt(
            f"{FAST} begins with {names[:FIRST_PIECE_ID]} and ends with {names[-1:]}; XLM-R's "
            f"layout has {list(SPECIAL_TOKENS)} first and {MASK_TOKEN!r} last"
        )
    in_bytes = bool(fast["model"].get("byte_fallback"))
    proto = ModelProto()
    kinds = proto.SentencePiece
    for name, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
        proto.pieces.add(piece=name, score=0.0, type=kind)
    for piece, score in table[FIRST_PIECE_ID:-1]:
        is_byte = in_bytes and BYTE.fullmatch(piece) is not None
        if not is_byte and score < LEAST_SCORE:
            raise CannotAdopt(f"{FAST}: piece {piece!r} has the score {score}, no log-probability")
        kind = kinds.BYTE if is_byte else kinds.NORMAL
        proto.pieces.add(piece=piece, score=0.0 if is_byte else score, type=kind)
    trainer = proto.trainer_spec
    trainer.model_type, trainer.vocab_size = trainer.UNIGRAM, len(proto.pieces)
    trainer.byte_fallback = in_bytes
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, 1, 2, -1
    _check_words(fast.get("pre_tokenizer"))
    proto.normalizer_spec.CopyFrom(_rules_of(fast.get("normalizer")))
    return bytes(proto.SerializeToString(deterministic=True))


def _check_words(cutter: Mapping[str, Any] | None) -> None:
    """Refuse what does not cut at blanks and put the sign of one before each word."""
    parts = parts_of(cutter, "pretokenizers")
    kinds = [part["type"] for part in parts]
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise CannotAdopt(f"{FAST} cuts text by {kinds or 'nothing'}; need Metaspace")
    scheme = parts[-1].get("prepend_scheme") or (
        "always" if parts[-1].get("add_prefix_space", True) else "never"
    )
    if scheme == "never" or (scheme == "first" and len(parts) > 1):
        raise CannotAdopt(f"{FAST} puts no blank before words (prepend_scheme = {scheme!r})")


def _rules_of(normalizer: Mapping[str, Any] | None) -> NormalizerSpec:
    """SentencePiece's rules of a tokenizer.json: a table of its own, and blanks that are folded."""
    spec = NormalizerSpec(
        add_dummy_prefix=True, remove_extra_whitespaces=True, escape_whitespaces=True
    )
    for part in parts_of(normalizer, "normalizers"):
        folds = part["type"] == "Strip" or (
            part["type"] == "Replace"
            and part.get("pattern") in ({"Regex": " {2,}"}, {"String": "  "})
        )
        if part["type"] == "Precompiled" and not spec.precompiled_charsmap:
            spec.precompiled_charsmap = base64.b64decode(part["precompiled_charsmap"])
        elif not folds:
            raise CannotAdopt(
                f"{FAST} has the normaliser {part['type']}, which a SentencePiece model cannot "
                f"hold; put its {SENTENCEPIECE} into the folder"
            )
    for name in NORMALIZERS:
        known = normalizer_spec(name)
        if known.precompiled_charsmap == spec.precompiled_charsmap:
            return known
    return spec


def same_rules(model: bytes) -> str | None:
    """The name of the rule set (normalizers.py) that a SentencePiece model has; None for others."""
    charsmap = ModelProto.FromString(model).normalizer_spec.precompiled_charsmap
    known = (n for n in NORMALIZERS if normalizer_spec(n).precompiled_charsmap == charsmap)
    return next(known, None)
