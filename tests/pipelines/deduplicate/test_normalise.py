from __future__ import annotations

import pytest
import regex

from pipelines.core.document_counts import count_sentences
from pipelines.deduplicate.normalise import normalise, paragraph_key, words


def test_case_digits_and_blanks_do_not_make_a_difference_but_punctuation_does() -> None:
    assert paragraph_key("Page  12 of 30") == paragraph_key("page 99 OF 75")
    assert paragraph_key("ﬁn") == paragraph_key("fin")
    assert paragraph_key("१२३") == paragraph_key("123")
    assert paragraph_key("a\u3000b\tc") == paragraph_key("a b c")
    assert paragraph_key("Page 12") != paragraph_key("Page 123")
    assert paragraph_key("why?") != paragraph_key("why!")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 5 o'clock, isn't it?", ["it", "s", "0", "o", "clock", "isn", "t", "it"]),
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
    assert words(normalise(longer)) == [*words(normalise(ascii_text)), "é"]


def test_sentences_are_counted_by_the_language_s_own_rules() -> None:
    assert count_sentences("Dr. Smith came. He left!\n\nWhy?", "en") == 3
    assert count_sentences("你好。我很好！再见。", "zh-Hans") == 3
    assert count_sentences("\n\n", "en") == 0
