"""Encoding by words equals SentencePiece on whole lines, and only models that allow it do it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pipelines.core import word_cache
from pipelines.core.normalizers import NORMALIZERS
from pipelines.core.vocabulary import Vocabulary, without_surrogates
from pipelines.core.word_cache import Cutting, WordCache, why_not_by_word
from tests.pipelines.core.small_vocabularies import LINES, plain_ids, small_model

NASTY = (
    " \t\r\u00a0\u3000\u2028\u2029\u200b\u200c\u200d\ufeff\u0000\u0001\u001c\u0085\u00ad\u2060"
    "\u0300\u0301\u0308\u0323\u0344\u00a8\u00b4\u02d8\u037a\u0384\u2581\ufffd\ud800\udfff"
    "ab\u00e9ж人가ᄀ\u1161\u11a8\u0e33\u09c7\u09be\ufb01½①ﷺ<s>/\u0130\U00013000\U0001f469"
)
WORDS = st.sampled_from([word for line in LINES for word in line.split(" ")])
TEXT = st.lists(
    st.one_of(WORDS, st.text(st.sampled_from(NASTY), max_size=6), st.text(max_size=5)), max_size=8
).map(" ".join)


@cache
def vocabularies(normalization: str, byte_fallback: bool) -> tuple[Vocabulary, Vocabulary]:
    """With few cached words, so that it is emptied often; and without."""
    model = small_model(normalization, byte_fallback=byte_fallback)
    return Vocabulary(model, max_cached_words=40), Vocabulary(model, max_cached_words=0)


@cache
def never_learning(normalization: str, byte_fallback: bool) -> Vocabulary:
    """One that may spend nothing on new words and so encodes in chunks."""
    vocabulary = Vocabulary(small_model(normalization, byte_fallback=byte_fallback))
    assert vocabulary._words is not None
    vocabulary._words._balance = -1e18
    return vocabulary


@pytest.mark.parametrize("normalization", NORMALIZERS)
@pytest.mark.parametrize("byte_fallback", [False, True])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXT, max_size=16))
def test_any_text(normalization: str, byte_fallback: bool, texts: list[str]) -> None:
    texts = [text.replace("\n", " ") for text in texts]  # a line each
    by_word, whole = vocabularies(normalization, byte_fallback)
    plain = plain_ids(by_word.model, [without_surrogates(text) for text in texts])
    assert [ids.tolist() for ids in by_word.encode_batch(texts)] == plain
    assert [ids.tolist() for ids in whole.encode_batch(texts)] == plain
    chunked = never_learning(normalization, byte_fallback)
    assert [ids.tolist() for ids in chunked.encode_batch(texts)] == plain


@pytest.mark.parametrize("normalization", NORMALIZERS)
def test_very_long_words_and_lines(normalization: str) -> None:
    by_word, _ = vocabularies(normalization, False)
    lines = [
        "ab" * 20_000,
        "人" * 8_000,
        " ".join(["人人", "woord", "ж"] * 3_000),
        "x" + "\u0301" * 5_000,
        "ﷺ" * 500,
        "a" * 64 + " " + "a" * 65 + " " + "a" * 64,
    ]
    plain = plain_ids(by_word.model, lines)
    assert [ids.tolist() for ids in by_word.encode_batch(lines)] == plain
    assert [ids.tolist() for ids in never_learning(normalization, False).encode_batch(lines)] == (
        plain
    )


@pytest.mark.parametrize("words", [["\x01", "a\u00a0b"], ["a\ud800b", "\x01"], ["\x01"]])
def test_a_word_that_is_two_and_a_word_that_is_none_are_not_cut_wrongly(words: list[str]) -> None:
    fresh = Vocabulary(small_model("nmt_nfkc"))
    line = " ".join(["one", *words, "two", "three"])
    assert [fresh.encode(line).tolist()] == plain_ids(fresh.model, [without_surrogates(line)])
    for word in [*words, "one", "two", "three"]:  # each was remembered with its own ids
        plain = plain_ids(fresh.model, [without_surrogates(word)])
        assert [fresh.encode(word).tolist()] == plain


def test_text_of_new_words_stops_being_learnt_and_known_text_is_still_looked_up() -> None:
    calls: list[list[str]] = []

    def encode_lines(lines: list[str]) -> list[bytes]:
        calls.append(lines)
        return [np.arange(len(line.split(" ")), dtype=np.uint32).tobytes() for line in lines]

    cutting = Cutting(200, np.ones(10_000, dtype=np.bool_), re.compile(word_cache.BLANK_SIGN))
    words = WordCache(encode_lines, cutting=cutting)  # type: ignore[arg-type]
    known = " ".join(f"known{i}" for i in range(2_000))
    words.encode([known])
    for number in range(200):
        words.encode([" ".join(f"{number}x{i}" for i in range(2_000))])
    assert len(words._words) < 50_000  # of 402,000 words
    calls.clear()
    words.encode([known])
    assert calls == []
    words._balance = -1e18
    words.encode([" ".join(f"new{i}" for i in range(2_000))])
    assert max(map(len, calls[0])) <= 200
    assert min(map(len, calls[0][:-1])) > 180


def test_words_are_kept_and_long_or_doubtful_ones_are_not() -> None:
    calls: list[list[str]] = []

    def encode_lines(lines: list[str]) -> list[bytes]:
        calls.append(sorted(lines))
        return [f"<{line}>".encode() for line in lines]

    words = WordCache(encode_lines, max_words=10)  # type: ignore[arg-type]
    long = "l" * 65
    assert words.encode(["a b", f"a {long}"]) == [b"<a><b>", f"<a><{long}>".encode()]
    assert calls == [["a", "b", long]]
    assert words.encode(["b a", f"{long}\nb"]) == [b"<b><a>", f"<{long}><b>".encode()]
    assert calls[1:] == [[long]]
    # The sign of the blank in a text: the lines go as a whole.
    assert words.encode(["b a\u2581 a\nb", "a"]) == ["<b a\u2581 a><b>".encode(), b"<a>"]
    assert calls[2:] == [[], ["b", "b a\u2581 a"]]


def test_the_memory_begins_anew_when_it_is_full() -> None:
    seen: list[str] = []

    def encode_lines(lines: list[str]) -> list[bytes]:
        seen.extend(lines)
        return [line.encode() for line in lines]

    words = WordCache(encode_lines, max_words=3)  # type: ignore[arg-type]
    for number in range(6):
        assert words.encode([f"w{number}"]) == [f"w{number}".encode()]
    assert words.encode(["w5 w4"]) == [b"w5w4"]
    assert sorted(seen) == ["w0", "w1", "w2", "w3", "w4", "w5"]
    assert words.encode(["w0"]) == [b"w0"]
    assert sorted(seen)[:2] == ["w0", "w0"]


def changed(change: Callable[[ModelProto], None]) -> ModelProto:
    model = ModelProto.FromString(small_model())
    change(model)
    return model


def piece(model: ModelProto, index: int = 10) -> ModelProto.SentencePiece:
    return model.pieces[index]


def index_of_blank(model: ModelProto) -> int:
    return [piece.piece for piece in model.pieces].index("\u2581")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: setattr(m.trainer_spec, "model_type", m.trainer_spec.BPE), "no Unigram model"),
        (lambda m: setattr(m.trainer_spec, "treat_whitespace_as_suffix", True), "end with the"),
        (lambda m: setattr(piece(m), "type", piece(m).USER_DEFINED), "user-defined symbols"),
        (lambda m: setattr(piece(m), "piece", "▁a▁b"), "piece '▁a▁b' reaches over a blank"),
        (lambda m: setattr(piece(m), "piece", "▁▁"), "piece '▁▁' reaches over a blank"),
        (lambda m: setattr(piece(m, index_of_blank(m)), "piece", "qq"), "'▁' is no piece"),
        (lambda m: setattr(piece(m), "score", -7.13), "no multiples of 0.015625"),
        (lambda m: setattr(piece(m), "score", -120.0), "scores reach to -120.0"),
        (lambda m: setattr(m.normalizer_spec, "remove_extra_whitespaces", False), "put one blank"),
        (lambda m: setattr(m.normalizer_spec, "add_dummy_prefix", False), "put one blank"),
        (lambda m: setattr(m.normalizer_spec, "escape_whitespaces", False), "put one blank"),
    ],
)
def test_what_keeps_a_model_from_being_used_by_words(
    change: Callable[[ModelProto], None], reason: str
) -> None:
    assert why_not_by_word(ModelProto.FromString(small_model())) is None
    assert reason in str(why_not_by_word(changed(change)))


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ([("a b", "c")], "a rule for 'a b'"),
        ([(" \u0308", "\u00a8")], "a rule for ' \u0308'"),
        ([("x", "\u2581")], "makes 'x' to '\u2581'"),
        ([("x", "y" * 19)], "makes 'x' to 19 characters"),
    ],
)
def test_rules_that_look_over_a_blank(rules: list[tuple[str, str]], reason: str) -> None:
    import sentencepiece as spm

    made = spm.SentencePieceNormalizer(norm_map=rules)
    model = ModelProto.FromString(small_model("identity"))
    model.normalizer_spec.precompiled_charsmap = (
        type(model.normalizer_spec)
        .FromString(made.serialized_normalizer_spec())
        .precompiled_charsmap
    )
    assert reason in str(why_not_by_word(model))


def test_the_bounds_keep_a_cached_word_exact_in_float32() -> None:
    most_characters = 18 * word_cache.MAX_CACHED_CHARACTERS + 1
    # 24 bits of mantissa: multiples of 2^-6 are exact up to 2^18.
    assert most_characters * word_cache.MAX_SCORE <= 2**24 * word_cache.SCORE_STEP
