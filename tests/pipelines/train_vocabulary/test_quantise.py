from __future__ import annotations

import random

import numpy as np
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from pipelines.train_vocabulary.quantise import STEP, quantise_scores
from tests.pipelines.train_vocabulary.known_models import model_of

LETTERS = [a + b for a in "abcdefghij" for b in ["", *"abcdefghij"]]


def with_scores(scores: list[float], byte_fallback: bool = False) -> bytes:
    """A model whose ordinary pieces have the given scores."""
    pieces = ["▁", *LETTERS][: len(scores)]
    proto = sentencepiece_model_pb2.ModelProto.FromString(
        model_of(pieces, byte_fallback=byte_fallback)
    )
    ordinary = [piece for piece in proto.pieces if piece.type == piece.NORMAL]
    for piece, score in zip(ordinary, scores, strict=True):
        piece.score = score
    return bytes(proto.SerializeToString())


def scores_of(model: bytes) -> list[float]:
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return [piece.score for piece in proto.pieces if piece.type == piece.NORMAL]


def test_scores_go_to_the_nearest_multiple() -> None:
    given_scores = [-1.0, -10.2843523, -3.4921875, -0.007, -0.0079, -17.99]
    #               exact  -658.2/64     -223.5/64  -0.45/64 -0.51/64  -1151.4/64
    assert scores_of(quantise_scores(with_scores(given_scores))) == [
        -1.0,
        -658 / 64,
        -224 / 64,
        0.0,
        -1 / 64,
        -1151 / 64,
    ]


def test_only_scores_of_ordinary_pieces_change() -> None:
    model = with_scores([-2.34567, -3.45678], byte_fallback=True)
    before = sentencepiece_model_pb2.ModelProto.FromString(model)
    after = sentencepiece_model_pb2.ModelProto.FromString(quantise_scores(model))
    for old, new in zip(before.pieces, after.pieces, strict=True):
        if new.type == new.NORMAL:
            old.score = new.score
    assert before == after
    assert quantise_scores(quantise_scores(model)) == quantise_scores(model)


@settings(deadline=None)
@given(st.lists(st.floats(-40, 0, width=32), min_size=1, max_size=20), st.integers(0, 2**32))
def test_sums_are_exact_in_any_order_and_width(scores: list[float], seed: int) -> None:
    rng = random.Random(seed)
    quantised = rng.choices(scores_of(quantise_scores(with_scores(scores))), k=2000)
    units = [round(score / STEP) for score in quantised]
    assert [unit * STEP for unit in units] == quantised
    in_order = np.float32(0)
    for score in np.array(quantised, dtype=np.float32):
        in_order += score
    shuffled = rng.sample(quantised, len(quantised))
    assert float(in_order) == sum(quantised) == sum(shuffled) == sum(units) * STEP


def test_an_unknown_character_scores_ten_below_the_least() -> None:
    scores = [-2.0] + [-7.3 - n / 37 for n in range(109)]
    quantised = quantise_scores(with_scores(scores))
    least = min(scores_of(quantised))
    processor = spm.SentencePieceProcessor(model_proto=quantised)
    # One unknown character more costs the unknown's score once more.
    one, _ = processor.nbest_encode("abXcd", nbest_size=2, out_type="proto").nbests
    two, _ = processor.nbest_encode("abcd", nbest_size=2, out_type="proto").nbests
    known = {piece.piece: piece.id for piece in one.pieces}
    assert known["X"] == processor.unk_id()
    assert (least - 10) % STEP == 0
    assert (
        one.score
        - sum(
            processor.get_score(piece.id) for piece in one.pieces if piece.id != processor.unk_id()
        )
        == least - 10
    )
    assert two.score == sum(processor.get_score(piece.id) for piece in two.pieces)
