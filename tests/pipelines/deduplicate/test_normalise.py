from __future__ import annotations

import pytest
import regex

from pipelines.core.document_counts import count_sentences
from pipelines.deduplicate.normalise import document_key, normalise, words


def test_case_forms_and_blanks_make_no_difference_but_punctuation_and_digits_do() -> None:
    assert normalise("Page  12 OF 30") == normalise("page 12 of 30")
    assert normalise("ﬁn") == normalise("fin")
    assert normalise("a\u3000b\tc") == normalise("a b c")
    assert normalise("Page 12") != normalise("Page 13")
    assert normalise("Größe 12") != normalise("Größe 13")
    assert normalise("why?") != normalise("why!")


def test_digits_may_be_ignored_but_not_how_many_they_are() -> None:
    assert normalise("Page  12 of 30", True) == normalise("page 99 OF 75", True)
    assert normalise("Größe 12", True) == normalise("größe 98", True)
    assert normalise("१२३", True) == normalise("123", True)
    assert normalise("Page 12", True) != normalise("Page 123", True)


def test_documents_are_equal_up_to_blanks_and_no_further() -> None:
    same = document_key(["A  text", "and more"])
    assert same == document_key(["A\ttext", " and more "])
    for other in (["a text", "and more"], ["A text and more"], ["A text", "and more", "x"]):
        assert document_key(other) != same
    assert document_key(["Room 12"]) != document_key(["Room 13"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 5 o'clock, isn't it?", ["it", "s", "5", "o", "clock", "isn", "t", "it"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("天地 玄黃。", ["天", "地", "玄", "黃"]),
        ("ภาษา", ["ภ", "า", "ษ", "า"]),
        ("Pythonで書く", ["python", "で", "書", "く"]),
        ("한국어 텍스트", ["한국어", "텍스트"]),
        ("!!! — …", []),
    ],
)
def test_words_are_runs_of_letters_and_characters_of_scripts_without_blanks(
    text: str, expected: list[str]
) -> None:
    assert words(normalise(text)) == expected


EVERYTHING = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def test_the_fast_ways_give_what_the_slow_ones_give() -> None:
    slow = regex.compile(
        r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
    )
    for character in slow.findall(EVERYTHING):
        assert words(f"ab{character}cd") in (["ab", character, "cd"], ["ab", "cd"]), hex(
            ord(character)
        )
    ascii_text = EVERYTHING[:128] + " AbC-dE 12x3.4\n\x1f_z"
    longer = ascii_text + " é"
    assert normalise(longer) == f"{normalise(ascii_text)} é"
    assert normalise(longer, True) == f"{normalise(ascii_text, True)} é"
    assert words(normalise(longer)) == [*words(normalise(ascii_text)), "é"]


def test_sentences_are_counted_by_the_language_s_own_rules() -> None:
    assert count_sentences("Dr. Smith came. He left!\n\nWhy?", "en") == 3
    assert count_sentences("你好。我很好！再见。", "zh-Hans") == 3
    assert count_sentences("\n\n", "en") == 0
