from __future__ import annotations

from tests.pipelines.filters.pages import document, judged

GOOD = "A sentence that stays, with its own words."


def cleaned(text: str, language: str = "en", **settings):
    page = document(text, language)
    found, count = judged(page, "lines", **settings)
    return found, page.text, count


def test_boilerplate_goes_and_all_else_stays_to_the_character() -> None:
    kept = f"  {GOOD}\t\n{GOOD}\u200d x"
    text = f"Please enable JavaScript to view.\n{kept}\n\nOur site uses cookies.\n\n{GOOD}"
    found, after, count = cleaned(text)
    assert found is None
    assert after == f"{kept}\n\n{GOOD}"
    assert count == {
        "dropped_lines.boilerplate": 2,
        "dropped_lines.boilerplate/en": 2,
        "dropped_characters.lines/en": 33 + 22,
    }


def test_a_text_without_a_poor_line_is_untouched() -> None:
    text = f"\n{GOOD}\r\n\n\n\n{GOOD}  \n"
    assert cleaned(text) == (None, text, {})
    assert cleaned("") == (None, "", {})
    assert cleaned(" \n ") == (None, " \n ", {})


def test_long_lines_about_javascript_are_text() -> None:
    text = f"JavaScript is a language. {GOOD * 5}"
    assert cleaned(text) == (None, text, {})
    found, after, _ = cleaned(text, max_boilerplate_characters=1000)
    assert (found, after) == ("no_lines_left", text)
    assert cleaned("Uses javascript.", boilerplate=False)[0] is None


def test_notices_are_found_in_other_languages_and_by_a_person_s_phrases() -> None:
    text = f"Diese Seite VERWENDET Cookies.\n{GOOD}"
    assert cleaned(text, "de")[1] == GOOD
    text = f"本网站使用 Cookie。\n{GOOD}"
    assert cleaned(text, "zh-Hans")[1] == GOOD
    text = f"Jetzt ABONNIEREN\n{GOOD}"
    assert cleaned(text, "de")[1] == text
    assert cleaned(text, "de", by_language={"de": {"phrases": ["abonnieren"]}})[1] == GOOD


def test_lines_of_digits_and_signs_go() -> None:
    text = f"12:30 | 45,00 EUR | 99\n{GOOD}\n=====\nที่นี่ ๑๒"
    found, after, count = cleaned(text, "th")
    assert (found, after) == (None, f"{GOOD}\nที่นี่ ๑๒")
    assert count["dropped_lines.few_letters"] == 2
    # 3 letters of 10 characters that are no blanks
    assert cleaned(f"abc 1234567\n{GOOD}")[2] == {}
    assert cleaned(f"abc 12345678\n{GOOD}")[1] == GOOD


def test_short_lines_and_lines_without_an_end_go_when_asked_for() -> None:
    text = f"Home\nRead more here\n{GOOD}\nA line without an end"
    assert cleaned(text)[2] == {}
    found, after, count = cleaned(text, min_words=3)
    assert after == f"Read more here\n{GOOD}\nA line without an end"
    assert count["dropped_lines.few_words"] == 1
    found, after, count = cleaned(text, end_punctuation=True)
    assert (found, after) == (None, GOOD)
    assert count["dropped_lines.no_end_punctuation"] == 3
    assert cleaned("ที่นี่", "th", end_punctuation=True)[0] is None
    assert cleaned("一二三四五", "zh-Hans", min_words=3)[0] is None  # 5 / 1.5 words
    assert cleaned("一二三四", "zh-Hans", min_words=3)[0] == "no_lines_left"


def test_a_text_of_which_nothing_is_left_is_dropped_as_it_was() -> None:
    text = "1234\n\n5678"
    found, after, count = cleaned(text)
    assert (found, after, count) == ("no_lines_left", text, {})
    assert found.because == "all 2 lines are boilerplate or debris"


def test_sections_still_begin_where_they_did() -> None:
    page = document(f"{GOOD} One.\n\nThis site uses cookies.\n\n{GOOD} Two.", "en")
    before = {"sections": '[[0,2,"A"],[1,2,"B"],[2,2,"C"]]'}
    page.metadata = before
    assert judged(page, "lines")[0] is None
    assert page.metadata == {"sections": '[[0,2,"A"],[1,2,"B"],[1,2,"C"]]'}
    assert before == {"sections": '[[0,2,"A"],[1,2,"B"],[2,2,"C"]]'}, "the reject keeps its own"
