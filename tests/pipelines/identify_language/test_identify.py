"""The real model: one line, clean text, stable tags."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import langcodes
import pytest

from pipelines.config import LanguageIdentificationSection
from pipelines.identify_language import identify, identify_document, known_languages

CONFIG = LanguageIdentificationSection()
GERMAN = "Die Universität liegt in der Mitte der Stadt und hat viele Studenten."


def test_line_ends_change_nothing() -> None:
    """Case C10."""
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


def test_ten_parts_of_addresses_do_not_decide() -> None:
    links = "https://www.example.org/the-best-english-page-of-the-world/index.html " * 8
    text = f"{links}\n{GERMAN}\n{links.upper()}"
    assert len(GERMAN) < len(text) / 10
    assert identify(text, CONFIG) == identify(GERMAN, CONFIG)


@pytest.mark.parametrize("unit", ["document", "paragraph"])
def test_the_text_that_is_stored_is_not_the_clean_copy(unit: str) -> None:
    """Case C12."""
    text = (
        "GROSSE Überschrift — 42 €\n\n"
        f"{GERMAN} Siehe https://tiss.example.org/A?b=C oder x@y.example! 😀\r\n"
        "\u200d\u00a0\tEnde.\n\n"
    )
    config = LanguageIdentificationSection.model_validate({"unit": unit})
    found, kept = identify_document(text, config, Counter())
    assert found.language == "de" and kept == text


def test_a_language_may_have_its_own_threshold() -> None:
    score = identify("Uma boa experiencia de vida", CONFIG).score
    strict = LanguageIdentificationSection(min_score=1.0, min_score_by_language={"por": score})
    assert identify("Uma boa experiencia de vida", strict).language == "pt"
    assert identify(GERMAN, LanguageIdentificationSection(min_score_by_language={"pt": 1.0})) == (
        identify(GERMAN, CONFIG)
    )


def test_the_same_text_gives_the_same_bits_in_another_process() -> None:
    program = (
        "from pipelines.config import LanguageIdentificationSection as Section;"
        "from pipelines.identify_language import identify;"
        f"print(repr(identify({GERMAN!r}, Section())))"
    )
    root = str(Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert printed.stdout.strip() == repr(identify(GERMAN, CONFIG))
