"""Normalisation with Hugging Face's parts: SentencePiece's, for every key and in any company."""

from __future__ import annotations

import unicodedata
from functools import cache

import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import NormalizerSpec
from tokenizers import normalizers

from pipelines.core.fast_normalizer import _check_rules, fast_normalizer
from pipelines.core.normalizers import NORMALIZERS, normalizer_spec, rules_of
from tests.pipelines.core.small_vocabularies import LINES, SECOND_LINES

BASES = (
    "aeioucAEOU\u00fc\u00ea\u00e2\u00f4\u01a1αωιΑカｶﾊは가각ㄱㅏ\u1100\u1161\u11a8\u09c7\u0cc6\u0dd9\u0b95"
    "ا½①ª¨ \t\u3000\x01\u0344"
)
MARKS = "".join(c for c in map(chr, range(0x300, 0x1000)) if unicodedata.category(c)[0] == "M")
OTHERS = (
    "\u200c\u200d\u200b\ufe0f\u3099\u309a\uff9e\uff9f\u0e33\u09be\u0bbe\u0cd5\u11a8\u20dd\u2581\n\r"
)
ALPHABET = st.one_of(
    st.sampled_from(BASES),
    st.sampled_from(MARKS),
    st.sampled_from(OTHERS),
    st.characters(exclude_categories=["Cs", "Cn"]),
)


@cache
def both(name: str) -> tuple[normalizers.Normalizer, spm.SentencePieceNormalizer]:
    spec = normalizer_spec(name)
    every = {c for key, value in rules_of(spec).items() for c in key + value}
    return fast_normalizer(spec, every), spm.SentencePieceNormalizer(normalizer_spec=spec)


def check(name: str, text: str) -> None:
    fast, plain = both(name)
    assert fast.normalize_str(text).replace(" ", "▁") == plain.Normalize(text), ascii(text)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_every_key_alone_and_between_letters(name: str) -> None:
    for number, key in enumerate(rules_of(normalizer_spec(name))):
        if len(key) == 1 or number % 23 == 0:  # most keys of several are Hangul's
            check(name, key)
            check(name, f"a{key}\u0301b")


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("line", range(len(LINES + SECOND_LINES)))
def test_lines_in_many_scripts(name: str, line: int) -> None:
    text = (LINES + SECOND_LINES)[line].replace("\ufdd0\ufdd1", "")
    check(name, text)
    check(name, unicodedata.normalize("NFD", text))


@pytest.mark.parametrize("name", NORMALIZERS)
@settings(max_examples=300, deadline=None)
@given(text=st.text(ALPHABET, max_size=12))
def test_any_text(name: str, text: str) -> None:
    check(name, text.replace("\u2581", "") if name != "identity" else text)


def test_marks_that_precompiled_alone_loses_or_does_not_compose() -> None:
    precompiled = normalizers.Precompiled(normalizer_spec("nmt_nfkc").precompiled_charsmap)
    fast, _ = both("nmt_nfkc")
    for text, wanted in (
        ("½\u0301", "1⁄2\u0301"),
        ("α\u0313\u0301", "\u1f04"),
        ("\u09c7\u09be", "\u09cb"),
        ("ا\u0651\u064e", "ا\u0651\u064e"),
        ("\u00ea\u0323", "\u00ea\u0323"),
        ("e\u0323\u0302", "\u1ec7"),
    ):
        assert fast.normalize_str(text) == f" {wanted}"
    assert precompiled.normalize_str("½\u0301") != "1⁄2\u0301"  # the reason for all this
    assert precompiled.normalize_str("α\u0313\u0301") != "\u1f04"


def test_keys_that_nfc_does_not_know_are_replaced_where_the_vocabulary_has_their_pieces() -> None:
    spec = normalizer_spec("nmt_nfkc")
    known_by_name = _check_rules(rules_of(spec))
    assert "\U000105d2\u0307" in known_by_name
    assert all(any(c >= "\U000105d2" for c in key) for key in known_by_name)
    with_dot = fast_normalizer(spec, {"\u0307"})
    assert with_dot.normalize_str("\U000105d2\u0307") == " \U000105c9"


def test_a_noncharacter_of_ours_becomes_another_unknown_one() -> None:
    fast, _ = both("nmt_nfkc")
    assert fast.normalize_str("a\ufdd0\u0301\ufdd1b") == " a\ufdd2\u0301\ufdd2b"
    with pytest.raises(ValueError, match="noncharacters U\\+FDD0 to U\\+FDD2"):
        fast_normalizer(normalizer_spec("nmt_nfkc"), {"a", "\ufdd1"})


def spec_of(rules: list[tuple[str, str]]) -> NormalizerSpec:
    made = spm.SentencePieceNormalizer(norm_map=rules)
    return NormalizerSpec.FromString(made.serialized_normalizer_spec())


def test_rules_whose_keys_overlap_are_refused() -> None:
    overlapping = spec_of([("x", "e"), ("ax", "ae"), ("x\u0301", "\u00e9")])
    with pytest.raises(ValueError, match="1 characters end one key and begin another"):
        fast_normalizer(overlapping, {"a"})


def test_a_key_that_nfc_would_not_make_is_replaced_by_name() -> None:
    assert fast_normalizer(spec_of([("ab", "x")]), {"x"}).normalize_str("cab ab") == " cx x"


def test_models_without_a_blank_before_words_are_refused() -> None:
    spec = normalizer_spec("nmt_nfkc")
    spec.add_dummy_prefix = False
    with pytest.raises(ValueError, match="add_dummy_prefix"):
        fast_normalizer(spec, set("ab"))
