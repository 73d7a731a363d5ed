"""Rules of normalisation: what each set does in 20 scripts and to invisible characters."""

from __future__ import annotations

import sys
import unicodedata

import pytest
import sentencepiece as spm

from pipelines.core.normalizers import (
    KEPT_BY_JOINERS,
    NORMALIZERS,
    normalizer_spec,
    rules_of,
)
from tests.pipelines.core.small_vocabularies import normalize

C24_DEFAULT = {
    "\u0d9a\u0dca\u200d\u0dc2": "\u0d9a\u0dca\u200d\u0dc2",
    "\u0645\u06cc\u200c\u062e\u0648\u0627": "\u0645\u06cc \u062e\u0648\u0627",
    "a\u200bb": "a b",
    "a\u2028b": "a b",
    "a\ufeffb": "a b",
    "a\u200fb": "a b",
    "a\u061cb": "a b",
    "a\u2026b": "a...b",
    "e\u0301": "\u00e9",
    "\uff12": "2",
}
"""CASES.md C24, "with the default rules today"."""

SCRIPTS = {
    "Latin": ("e\u0302\u0323 ﬁ Å", "\u00ea\u0323 fi Å"),
    "Cyrillic": ("и\u0306", "й"),
    "Greek": ("α\u0313\u0301", "\u1f04"),
    "Arabic": ("اشدّ\u064e ﻻ", "اشدّ\u064e لا"),
    "Hebrew": ("ש\u05c1\u05bc \ufb2a", "ש\u05c1\u05bc ש\u05c1"),
    "Devanagari": ("\u0928\u093c \u0958", "\u0929 \u0915\u093c"),
    "Bengali": ("\u0995\u09c7\u09be", "\u0995\u09cb"),
    "Gurmukhi": ("\u0a33", "\u0a32\u0a3c"),
    "Tamil": ("\u0b95\u0bc6\u0bbe", "\u0b95\u0bca"),
    "Kannada": ("\u0c95\u0cc6\u0cc2", "\u0c95\u0cca"),
    "Malayalam": ("\u0d15\u0d46\u0d3e", "\u0d15\u0d4a"),
    "Sinhala": ("\u0d9a\u0dd9\u0dcf", "\u0d9a\u0ddc"),
    "Thai": ("\u0e19\u0e49\u0e33", "\u0e19\u0e49\u0e4d\u0e32"),
    "Lao": ("\u0e99\u0ec9\u0eb3", "\u0e99\u0ec9\u0ecd\u0eb2"),
    "Tibetan": ("\u0f43", "\u0f42\u0fb7"),
    "Myanmar": ("\u1025\u102e", "\u1026"),
    "Georgian": ("\u10fc", "\u10dc"),
    "Hangul": ("\u1112\u1161\u11ab", "한"),
    "Katakana": ("ｶﾞﾊﾟ カ\u3099", "ガパ ガ"),
    "Han": ("\uf900 ㍻", "\u8c48 平成"),
    "Ethiopic": ("ሰው", "ሰው"),
}


@pytest.mark.parametrize("text", C24_DEFAULT, ids=ascii)
def test_default_rules_do_what_is_known_of_them(text: str) -> None:
    assert normalize("nmt_nfkc", text) == C24_DEFAULT[text]


@pytest.mark.parametrize("text", C24_DEFAULT, ids=ascii)
def test_joiner_rules_differ_only_at_the_non_joiner(text: str) -> None:
    wanted = text if "\u200c" in text else C24_DEFAULT[text]
    assert normalize("nmt_nfkc_joiners", text) == wanted


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_composed_and_compatibility_forms_made_plain(script: str) -> None:
    text, wanted = SCRIPTS[script]
    assert normalize("nmt_nfkc", text) == wanted
    assert normalize("nfkc", text) == wanted
    kept = text if script in ("Thai", "Lao") else wanted
    assert normalize("nmt_nfkc_joiners", text) == kept
    assert normalize("identity", text) == text


def test_joiner_rules_are_the_default_ones_for_every_other_character() -> None:
    default = rules_of(normalizer_spec("nmt_nfkc"))
    joiners = rules_of(normalizer_spec("nmt_nfkc_joiners"))
    assert set(default) - set(joiners) == set(KEPT_BY_JOINERS) - {"\u200d"}
    assert all(default[key] == value for key, value in joiners.items())
    # And the compiled set does what its rules say, for every single character that has one.
    compiled = spm.SentencePieceNormalizer(normalizer_spec=normalizer_spec("nmt_nfkc_joiners"))
    for point in [*map(ord, filter(is_character, default)), *range(0x80, sys.maxunicode + 1, 53)]:
        character = chr(point)
        if not 0xD800 <= point < 0xE000 and character not in KEPT_BY_JOINERS:
            wanted = default.get(character, character)
            assert compiled.Normalize(f"x {character} x") == by_hand(f"x {wanted} x")


def is_character(text: str) -> bool:
    return len(text) == 1


def by_hand(text: str) -> str:
    return "▁" + "▁".join(part for part in text.split(" ") if part)


def test_nfkc_agrees_with_unicode_for_every_character_python_knows() -> None:
    rules = rules_of(normalizer_spec("nfkc"))
    for point in range(0x80, sys.maxunicode + 1):
        character = chr(point)
        known = unicodedata.category(character) not in ("Cn", "Cs")
        if known and unicodedata.normalize("NFKC", character) != character:
            assert rules[character] == unicodedata.normalize("NFKC", character)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_specs_name_themselves_fold_blanks_and_are_made_anew(name: str) -> None:
    spec = normalizer_spec(name)
    assert spec.name == name
    assert spec.add_dummy_prefix and spec.remove_extra_whitespaces and spec.escape_whitespaces
    assert normalize(name, "  a   b ") == "a b"
    spec.name = "changed"
    assert normalizer_spec(name).name == name


def test_identity_has_no_rules() -> None:
    assert rules_of(normalizer_spec("identity")) == {}


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no normaliser 'nfd'; there are nmt_nfkc, "):
        normalizer_spec("nfd")
