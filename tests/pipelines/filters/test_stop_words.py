from __future__ import annotations

import pytest

from pipelines.filters.stop_words import stop_words_of
from tests.pipelines.filters.pages import document, judged, reason

RUNNING = {
    "en": "The cat sat and the dog slept.",
    "de": "Der Hund und die Katze schlafen nicht.",
    "ru": "Он не пришёл, и это было хорошо.",
    "ar": "ذهب الولد إلى المدرسة من البيت في الصباح",
    "hi": "यह एक साधारण वाक्य है जिसमें कई शब्द हैं",
    "th": "เขาไปที่ตลาดและซื้อของ",
    "zh-Hans": "我们在公园里看到了他的朋友。",
    "ja": "これは私の本です。",
    "ko": "그리고 나는 그것을 하지 않았다. 그러나 우리 모두",
    "sw": "Watoto walikwenda kwa bibi na baba katika kijiji hiyo baada ya siku.",
    "nb": "Han gikk ikke hjem, men det var for sent.",
    "fil": "Ang bata ay nasa bahay ng kanyang ina.",
}


@pytest.mark.parametrize("language", RUNNING)
def test_running_text_passes_and_a_list_of_names_does_not(language: str) -> None:
    found, count = judged(document(RUNNING[language], language), "stop_words")
    assert found is None and not count
    names = {"th": "ฎฐฒณ", "zh-Hans": "龙凤麒麟", "ja": "東京大阪京都"}.get(
        language, "Xqz Zzyx Wvut"
    )
    found, _ = judged(document(names, language), "stop_words")
    assert found == "few_stop_words" and found.because == "different stop words 0 < 2"


def test_the_same_word_twice_is_one_word_and_case_is_ignored() -> None:
    assert reason("the the THE cat", "stop_words") == "few_stop_words"
    assert reason("The cat AND dog", "stop_words") is None
    assert reason("otherwise andante", "stop_words") == "few_stop_words"


def test_a_language_without_a_list_passes_and_is_counted() -> None:
    found, count = judged(document("blahblah", "yue"), "stop_words")
    assert found is None and count == {"passed.no_stop_words/yue": 1}


def test_a_person_gives_a_list_for_a_language() -> None:
    settings = {"min_distinct": 1, "by_language": {"cy": {"words": ["Mae", "yn"]}}}
    assert reason("mae hen wlad", "stop_words", "cy", **settings) is None
    assert reason("hen wlad", "stop_words", "cy", **settings) == "few_stop_words"
    assert reason("hen wlad", "stop_words", "cy", min_distinct=3, words=["hen"]) is None


def test_lists_are_in_the_language_s_own_script() -> None:
    assert stop_words_of("en") == {"the", "be", "to", "of", "and", "that", "have", "with"}
    assert "и" in stop_words_of("ru") or "не" in stop_words_of("ru")
    assert not stop_words_of("ms-Arab")
    for language in ("de", "zh-Hans", "th", "ru", "ja", "fa"):
        words = stop_words_of(language)
        assert len(words) > 20 and not any(any(c.isdigit() for c in word) for word in words)
        assert all(any(c.isalpha() for c in word) for word in words)
