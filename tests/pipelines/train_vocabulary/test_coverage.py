from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.train_vocabulary.coverage import (
    allowed_characters,
    may_be_asked,
    most_frequent,
    required_characters,
)


def counts(text: str, times: int = 1) -> Counter[int]:
    return Counter({ord(character): count * times for character, count in Counter(text).items()})


@settings(deadline=None)
@given(st.dictionaries(st.integers(0x61, 0x90), st.integers(1, 50), min_size=1), st.floats(0.5, 1))
def test_the_fewest_characters_that_reach_the_share(found: dict[int, int], share: float) -> None:
    taken = most_frequent(found, share)
    total, mass = sum(found.values()), sum(found[point] for point in taken)

    assert mass >= share * total - 1e-6
    if taken:
        assert mass - min(found[point] for point in taken) < share * total
        assert min(found[point] for point in taken) >= max(
            (count for point, count in found.items() if point not in taken), default=0
        )


def test_a_language_with_a_thousandth_of_the_text_keeps_its_letters() -> None:
    amharic = counts("ሀለሐመሠረሰቀበተኀነአከወዐዘየደገ", 50)
    english = counts("abcdefghijklmnopqrstuvwxyz", 100_000)
    assert amharic.total() / english.total() < 0.001
    alone = most_frequent(english + amharic, 0.9995)
    assert not alone & amharic.keys()  # what the coverage of the whole text would do

    required = required_characters({"en": english, "am": amharic}, 0.9995)

    assert set(map(ord, required.characters)) == english.keys() | amharic.keys()
    assert required.by_language == {"am": 20, "en": 26}
    assert required.by_script == {"Ethi": 20, "Latn": 26}


def test_each_script_of_a_language_is_covered_by_itself() -> None:
    latin, cyrillic = counts("abcdefghij", 10_000), counts("абвгдежзик", 150)
    cyrillic[ord("џ")] = 40  # 0.04 % of the language, 2.6 % of its Cyrillic text
    serbian = latin + cyrillic
    assert ord("џ") not in most_frequent(serbian, 0.9995)
    required = required_characters({"sr": serbian}, 0.9995)
    assert "џ" in required.characters
    # A script that is not the language's own, but noise in it, is left to the whole.
    serbian += counts("漢字", 20)
    assert "漢" not in required_characters({"sr": serbian}, 0.9995).characters


def test_what_stands_once_in_the_whole_corpus_is_noise() -> None:
    one, two = counts("aaaabbbbx"), counts("ccccddddy")
    assert required_characters({"en": one, "fr": two}, 1.0).characters == "abcd"
    both = required_characters({"en": one + counts("y"), "fr": two}, 1.0)
    assert both.characters == "abcdy"


@pytest.mark.parametrize(
    ("point", "asked"),
    [
        (ord("a"), True),
        (0x0301, True),
        (0x200C, True),
        (0x200D, True),
        (ord("。"), True),
        (0xE000, False),  # private use
        (0x0378, False),  # unassigned
        (0xFFFF, False),
        (0x2581, False),  # the blank's mark
        (0x2585, False),  # SentencePiece leaves out words with it
        (0x00A0, False),
        (0x2028, False),
        (0x0000, False),
        (0x0009, False),
        (0x200B, False),
        (0xFEFF, False),
    ],
)
def test_what_may_be_asked_for(point: int, asked: bool) -> None:
    assert may_be_asked(point) is asked
    found = required_characters({"en": Counter({point: 10, ord("z"): 10})}, 1.0)
    assert (chr(point) in found.characters) is asked


def test_the_alphabet_is_what_is_required_and_what_covers_the_whole() -> None:
    found = {ord("a"): 9990.0, ord("b"): 9.0, ord("c"): 1.0, 0xE000: 10_000.0}
    assert allowed_characters(found, "x", 0.999) == "ax"
    assert allowed_characters(found, "", 1.0) == "abc"
