"""The normaliser that words are counted with: the vocabulary's own rule, blanks written "▁"."""

from __future__ import annotations

from functools import cache

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2

from pipelines.core.normalizers import normalizer_spec


@cache
def word_normalizer(name: str) -> spm.SentencePieceNormalizer:
    """The rule of that name (a value of vocabulary.normalization), made once in a process.

    It is what training, encoding and the exported tokenizer use, so that words are counted in the
    form in which they will be met.
    """
    model = sentencepiece_model_pb2.ModelProto()
    model.normalizer_spec.CopyFrom(normalizer_spec(name))
    return spm.SentencePieceNormalizer(
        model_proto=model.SerializeToString(),
        add_dummy_prefix=True,
        escape_whitespaces=True,
        remove_extra_whitespaces=True,
    )
