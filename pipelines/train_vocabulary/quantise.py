"""Scores of a vocabulary as multiples of 2^-6, so that their sums are exact in any order.

A segmentation is chosen by a sum of scores. SentencePiece sums in float32 from the start of a
line, the Hugging Face tokenizer in float64, a cache of words from the start of each word: with
scores such as -10.2843523 they round apart, and now and then choose another segmentation of the
same text. Multiples of 2^-6 are summed exactly in float32 up to 2^18, thousands of pieces of any
real vocabulary, so that all of them compare the same numbers.
"""

from __future__ import annotations

import numpy as np
from sentencepiece import sentencepiece_model_pb2

STEP = 2.0**-6


def quantise_scores(model: bytes) -> bytes:
    """Round the scores of ordinary pieces to the nearest multiple of STEP, halves to even.

    Control, unknown and byte pieces are left as they are; SentencePiece gives them 0. The score of
    an unknown character, the least score minus 10, is a multiple then too.

    Args:
        model: a serialised SentencePiece model.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    ordinary = [piece for piece in proto.pieces if piece.type == piece.NORMAL]
    scores = np.array([piece.score for piece in ordinary], dtype=np.float64)
    for piece, score in zip(ordinary, np.round(scores / STEP) * STEP, strict=True):
        piece.score = float(score)
    return bytes(proto.SerializeToString(deterministic=True))
