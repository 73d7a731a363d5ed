"""What the model sees: one clean line, and the text itself untouched."""

from __future__ import annotations

import unicodedata

import regex
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.identify_language.clean import has_words, shown_text

TAKEN_OUT = regex.compile(r"[\p{Nd}\p{So}\p{Sk}\p{Cc}\p{Cs}\p{Emoji_Presentation}]")


def test_the_window_is_the_middle() -> None:
    assert shown_text("a" * 10 + "b" * 10 + "c" * 10, 10) == "b" * 10


def test_addresses_digits_and_emoji_go_and_case_is_lower() -> None:
    text = (
        "Siehe HTTPS://A.example/Ä?b=1#c, www.b.example oder x.y@c.example: 12 👩‍👩‍👧 1️⃣ Häuser°\tİ"
    )
    assert shown_text(text, 99).replace("\u200d ", "") == "siehe oder : häuser i\u0307"


def test_an_address_ends_where_an_unspaced_script_begins() -> None:
    assert shown_text("请访问https://a.example/b查看更多", 99) == "请访问 查看更多"
    assert shown_text("ติดต่อa@b.exampleไทย", 99) == "ติดต่อ"


def test_joiners_and_marks_stay() -> None:
    for text in ("می‌خواهم", "ක්‍ෂ", "ที่น้ำ", "e\u0301a"):
        assert shown_text(text, 99) == text


@given(st.text(max_size=300), st.integers(1, 50))
@example("\U0001cc00", 9)  # a symbol since Unicode 16, which the interpreter may not know
def test_the_line_holds_nothing_that_is_to_go(text: str, size: int) -> None:
    line = shown_text(text, size)
    assert len(line) <= size
    assert not TAKEN_OUT.search(line)
    assert line == " ".join(line.split()) or line.strip() == " ".join(line.split())


@given(st.text(st.sampled_from("aЖ中ที½Ⅳ²_1- \u0301"), max_size=8))
def test_letters_are_counted_as_unicode_does(line: str) -> None:
    letters = sum(unicodedata.category(char).startswith("L") for char in line)
    assert has_words(line) == (letters >= 3)


def test_numbers_are_no_letters() -> None:
    assert not has_words("①②③ ½ ⅣⅤ ²³ ab") and has_words("½ abc")


def test_a_window_without_words_does_not_hide_the_words_around_it() -> None:
    words = "Die Häuser der Stadt stehen am Fluss. "
    text = words * 9 + "12 345 " * 3000 + words * 9
    assert "häuser der stadt" in shown_text(text, 400)


def test_long_texts_without_blanks_end() -> None:
    """A pattern that looks at a run again from each character would take minutes here."""
    runs = ("ไทย" * 60_000 + "@", "a" * 200_000 + "@", "a@" * 90_000, "www." * 50_000)
    assert [len(shown_text(run, 200_000)) for run in runs] == [180_001, 200_000, 180_000, 0]
