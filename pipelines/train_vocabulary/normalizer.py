"""The normaliser that words are counted with: the vocabulary's own rule, blanks written "▁".

A rule of ours has a name; that of a vocabulary from somewhere else (vocabulary.start_from) may have
none, and is then read from its model.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any

import sentencepiece as spm
from sentencepiece.sentencepiece_model_pb2 import ModelProto, NormalizerSpec

from pipelines.core.foreign import same_rules
from pipelines.core.normalizers import normalizer_spec
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import Cleaning, WordPieceVocabulary

UNNAMED = "sha256:"
"""What the digest of rules without a name begins with."""


@cache
def word_normalizer(name: str) -> spm.SentencePieceNormalizer:
    """The rule of that name (a value of vocabulary.normalization), made once in a process.

    It is what training, encoding and the exported tokenizer use, so that words are counted in the
    form in which they will be met.
    """
    return _normalizer(normalizer_spec(name))


def model_normalizer(model: bytes) -> spm.SentencePieceNormalizer:
    """The rule of a SentencePiece model."""
    return _normalizer(ModelProto.FromString(model).normalizer_spec)


def _normalizer(rules: NormalizerSpec) -> spm.SentencePieceNormalizer:
    model = ModelProto()
    model.normalizer_spec.CopyFrom(rules)
    return spm.SentencePieceNormalizer(
        model_proto=model.SerializeToString(),
        add_dummy_prefix=True,
        escape_whitespaces=True,
        remove_extra_whitespaces=True,
    )


def rules_of(vocabulary: Vocabulary | WordPieceVocabulary) -> dict[str, Any]:
    """How text is written before words are counted, as settings of the counting step.

    Rules that training knows too have its settings, so that counts of a corpus serve both.
    """
    if isinstance(vocabulary, WordPieceVocabulary):
        cleaning = vocabulary.cleaning
        read: dict[str, Any] = {"lowercase": cleaning.lowercase}
        if cleaning != Cleaning(cleaning.lowercase, cleaning.lowercase):
            read["cleaning"] = cleaning._asdict()
        return read
    return {"normalization": same_rules(vocabulary.model) or rules_digest(vocabulary.model)}


def rules_digest(model: bytes) -> str:
    """A name for rules that have none: of their table, which is all that can differ."""
    charsmap = ModelProto.FromString(model).normalizer_spec.precompiled_charsmap
    return f"{UNNAMED}{sha256(charsmap).hexdigest()}"
