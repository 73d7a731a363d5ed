"""The real model: one line, clean text, stable tags."""

from __future__ import annotations

import langcodes
import pytest

from pipelines.config import LanguageIdentificationSection
from pipelines.identify_language import identify, known_languages, shown_text

CONFIG = LanguageIdentificationSection()
GERMAN = "Die Universität liegt in der Mitte der Stadt und hat viele Studenten."


def test_line_ends_change_nothing() -> None:
    lines = ["Bonjour à tous.", "Ceci est une page.", "Elle est en français."]
    unix, windows = (identify(end.join(lines), CONFIG) for end in ("\n", "\r\n"))
    assert unix == windows and unix.language == "fr"


@pytest.mark.parametrize("text", ["", "\n\n", "12345 678", "😀😀 🎉", "https://a.test " * 9, "!?"])
def test_text_without_words_is_unknown(text: str) -> None:
    assert identify(text, CONFIG).language == "und"


def test_the_first_line_does_not_decide() -> None:
    assert identify("Home | Login | Help\n" + "\n".join([GERMAN] * 20), CONFIG).language == "de"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Uma boa experiencia", "uma boa experiencia"),
        (GERMAN, GERMAN + " https://tiss.example.org"),
        (GERMAN, GERMAN.upper()),
    ],
)
def test_capitals_and_addresses_do_not_flip_the_language(one: str, other: str) -> None:
    assert identify(one, CONFIG).language == identify(other, CONFIG).language


def test_the_window_is_the_middle() -> None:
    assert shown_text("a" * 10 + "b" * 10 + "c" * 10, 10) == "b" * 10


def test_below_the_least_score_it_is_unknown_and_the_guess_is_kept() -> None:
    strict = LanguageIdentificationSection(min_score=1.0)
    found = identify("Uma boa experiencia de vida", strict)
    assert found.language == "und" and found.second == "pt" and 0 < found.score < 1


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("这是一个用简体字写的句子,我们来看看它说什么。", "zh-Hans"),
        ("這是一個用繁體字寫的句子,我們來看看它說什麼。", "zh-Hant"),
        ("Ово је реченица на српском језику која говори о граду.", "sr-Cyrl"),
        ("Jeg har ikke noe imot at det blir snø, men nå vil vi gjerne ha sommer og sol.", "nb"),
        ("यह हिन्दी में लिखा हुआ एक वाक्य है।", "hi"),
    ],
)
def test_tags_tell_script_and_variety(text: str, language: str) -> None:
    assert identify(text, CONFIG).language == language


def test_every_known_tag_is_bcp47_in_its_one_form() -> None:
    tags = known_languages()
    assert len(tags) > 175 and {"zh-Hans", "zh-Hant", "sr-Latn", "gsw", "nb", "uz-Cyrl"} <= tags
    assert not {"zh", "sr", "als", "bh", "eml", "no", "sh", "und"} & tags
    assert all(langcodes.tag_is_valid(tag) for tag in tags)
