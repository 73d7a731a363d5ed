from __future__ import annotations

import pytest

from tests.pipelines.filters.pages import HINDI, THAI, document, judged, reason


@pytest.mark.parametrize(("words_with_letter", "kept"), [(8, True), (7, False)])
def test_a_share_exactly_at_the_threshold_passes(words_with_letter: int, kept: bool) -> None:
    text = " ".join(["word"] * words_with_letter + ["--", "42", "..."][: 10 - words_with_letter])
    found, _ = judged(document(text), "letters", min_share_of_words=0.8)

    assert len(text.split()) == 10
    assert (found is None) is kept
    if found is not None:
        assert found == "few_letters"
        assert found.because == "share of words with a letter 0.7 < 0.8"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (THAI, "th"),
        (HINDI, "hi"),
        ("நான் தமிழ் பேசுகிறேன்", "ta"),
        ("می\u200cخواهم به خانه بروم", "fa"),
        ("这是中文，没有空格。", "zh-Hans"),
        ("e\u0301te\u0301 a\u0300 l'e\u0301cole", "fr"),
    ],
)
def test_words_with_marks_between_letters_count_as_words(text: str, language: str) -> None:
    """Case C13."""
    assert reason(text, "letters", language, min_share_of_words=1.0) is None


def test_letters_of_scripts_without_blanks_are_counted_one_by_one() -> None:
    text = "价格199元" * 4 + "¥¥¥¥"  # 12 letters, 12 digits, 4 signs
    found, _ = judged(document(text, "zh-Hans"), "letters")
    assert found.because == "share of letters 0.4286 < 0.7"
    assert reason(text, "letters", "zh-Hans", min_share_of_words=12 / 28) is None
    assert reason("", "letters") == reason(" \n", "letters") == "no_words"


def test_length_counts_characters_and_words() -> None:
    assert reason("东京东京东", "length", "zh-Hans", min_characters=5) is None
    assert reason("東京東京", "length", "ja", min_characters=5) == "too_short"
    assert reason("five words are in here", "length", min_characters=1, min_words=5) is None
    assert reason("only four words here", "length", min_characters=1, min_words=5) == "too_short"
    assert reason("a b c d", "length", min_characters=1, max_words=4) is None
    assert reason("a b c d e", "length", min_characters=1, max_words=4) == "too_long"
    assert reason("aaaaa", "length", min_characters=1, max_characters=4) == "too_long"
    # 9 characters of Chinese are 6 words
    assert reason("一二三四五六七八九", "length", "zh-Hans", min_characters=1, min_words=6) is None
    assert reason("一二三四五六七八", "length", "zh-Hans", min_characters=1, min_words=6) == (
        "too_short"
    )


def test_a_language_may_have_its_own_threshold_and_all_its_scripts_with_it() -> None:
    settings = {
        "min_characters": 6,
        "by_language": {"th": {"min_characters": 2}, "zh": {"min_characters": 3}},
    }
    assert reason("นี่", "length", "th", **settings) is None
    assert reason("中文字", "length", "zh-Hant", **settings) is None
    assert reason("abc", "length", "en", **settings) == "too_short"
    settings["by_language"]["zh-Hant"] = {"min_characters": 4}
    assert reason("中文字", "length", "zh-Hant", **settings) == "too_short"
    assert reason("中文字", "length", "zh-Hans", **settings) is None


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("abc def ghi", "en", None),  # 3.0
        ("abc def gh", "en", "short_words"),
        ("abcdefghij klmnopqrst", "en", None),  # 10.0
        ("abcdefghijk klmnopqrst", "en", "long_words"),
        ("abcdefghijk klmnopqrst", "fi", None),
        ("나 너 우리", "ko", None),
        ("abcdefghijklmnopq", "fi", "long_words"),
        ("한국어문장입니다", "ko", "long_words"),
        ("fi sh", "fon", "short_words"),
        ("东京", "zh-Hans", None),
        ("--", "en", None),
    ],
)
def test_word_length_has_bounds_by_script(text: str, language: str, expected: str | None) -> None:
    found, count = judged(document(text, language), "word_length")
    assert found == expected
    unjudged = language == "zh-Hans" or text == "--"
    assert count == ({f"passed.no_word_lengths/{language}": 1} if unjudged else {})


def test_word_length_as_set_by_a_person() -> None:
    assert reason("abcd", "word_length", min_mean=4, max_mean=4) is None
    assert reason("abcde", "word_length", max_mean=4) == "long_words"
    assert reason("abc", "word_length", min_mean=4) == "short_words"


def test_symbols_are_counted_to_words() -> None:
    assert reason("# a b c d e f g h i j", "symbols") is None  # 0.1
    found, _ = judged(document("#a #b c d e f g h i j"), "symbols")
    assert found == "number_signs" and found.because == "number signs to a word 0.2 > 0.1"
    assert reason("a... b c d e f g h i j", "symbols") is None
    assert reason("a... b… c d e f g h i j", "symbols") == "ellipses"
    assert reason("###", "symbols") == "number_signs"


def test_bullets_and_ellipses_are_counted_by_line() -> None:
    nine = "\n".join(["• item"] * 9 + ["A line."])
    assert reason(nine, "bullets") is None  # 0.9
    assert reason(f"{nine}\n- item\n* item", "bullets") == "bullet_lines"
    teasers = "\n".join(["Read more..."] * 2 + ["Read on…"] + ["A line."] * 7)
    assert reason(teasers, "bullets") is None  # 0.3
    assert reason(f"{teasers}\nMore…", "bullets") == "ellipsis_lines"


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Добро утро", "sr-Cyrl", None),
        ("Dobro jutro", "sr-Cyrl", "wrong_script"),
        ("Dobro jutro", "sr-Latn", None),
        ("これは日本語の文です", "ja", None),
        ("한국어 문장입니다", "ko", None),
        ("这是中文", "zh-Hans", None),
        ("This is English", "zh-Hans", "wrong_script"),
        ("ab аб", "ru", None),  # exactly half
        ("abc аб", "ru", "wrong_script"),
        ("12345 --", "en", "no_letters"),
        (THAI, "th", None),
        (HINDI, "hi", None),
    ],
)
def test_letters_belong_to_the_script_of_the_language(
    text: str, language: str, expected: str | None
) -> None:
    assert reason(text, "script", language) == expected


def test_a_language_without_a_known_script_passes_and_is_counted() -> None:
    found, count = judged(document("text", "qaa-Zyyy"), "script")
    assert found is None and count == {"passed.no_script/qaa-Zyyy": 1}


SENTENCES = {
    "en": 'He said: "Go."',
    "hi": "यह वाक्य है।",
    "ur": "یہ جملہ ہے۔",
    "am": "ይህ ዓረፍተ ነገር ነው።",
    "ja": "これは文です。",
    "hy": "Սա նախադասություն է։",
    "ar": "هل هذا سؤال؟",
    "el": "Είναι αυτό;\nΝαι.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_end_by_the_marks_of_their_script(language: str) -> None:
    text = SENTENCES[language]
    settings = {"min_share_with_end_punctuation": 0.5, "max_line_breaks_per_word": 9}
    assert reason(text, "line_quality", language, **settings) is None
    bare = f"{text.rstrip('.!?…।۔።。։؟').replace('.', '')} x"
    assert reason(bare, "line_quality", language, **settings) == "few_sentence_ends"


@pytest.mark.parametrize("language", ["th", "lo", "km", "my"])
def test_scripts_whose_lines_end_in_no_mark_need_none(language: str) -> None:
    assert reason("abc", "line_quality", language) is None


def test_lines_are_judged_by_length_and_number() -> None:
    text = "A short line.\nAnother one here.\n" + "A long line with many words in it. " * 3
    assert reason(text, "line_quality") is None
    assert reason(text, "line_quality", max_share_of_short_lines=0.6) == "short_lines"
    assert reason(text, "line_quality", max_share_of_short_lines=2 / 3) is None
    assert reason("One.\nTwo.\nThree.\nFour.", "line_quality") == "line_breaks"
    assert reason("One two three four\nfive six seven.", "line_quality") is None


def test_replacement_characters_are_a_share_of_all() -> None:
    assert reason("a" * 999 + "\ufffd", "replacement_characters") is None
    found, _ = judged(document("a" * 998 + "\ufffd\ufffd"), "replacement_characters")
    assert found.because == "share of U+FFFD 0.002 > 0.001"
    assert reason("", "replacement_characters") is None


def test_an_unknown_language_never_passes() -> None:
    assert reason("some text", "length", "und", min_characters=1) == "unknown_language"
