"""Filters on length, letters and script."""

from __future__ import annotations

from functools import cache

import regex

from pipelines.config import LengthFilter, LettersFilter, ScriptFilter
from pipelines.core.languages import unicode_scripts_of
from pipelines.core.records import Document

LETTER = regex.compile(r"\p{L}")


def too_short(document: Document, config: LengthFilter) -> str | None:
    """Drop a document with fewer characters than `min_characters`."""
    return "too_short" if len(document.text) < config.min_characters else None


def too_few_letters(document: Document, config: LettersFilter) -> str | None:
    """Drop a document when the share of words with at least one letter is below the threshold.

    A word needs one letter, not only letters: in Thai or Hindi words marks stand between them.
    Source: Rae et al. 2021 (Gopher), table A1.
    """
    words = document.text.split()
    if not words:
        return "no_words"
    with_letter = sum(1 for word in words if LETTER.search(word))
    return "few_letters" if with_letter / len(words) < config.min_share_of_words else None


@cache
def _letters_of(scripts: tuple[str, ...]) -> regex.Pattern[str]:
    wanted = "".join(rf"\p{{sc={script}}}" for script in scripts)
    return regex.compile(rf"[[{wanted}]&&\p{{L}}]", flags=regex.V1)


def wrong_script(document: Document, config: ScriptFilter) -> str | None:
    """Drop a document when too few of its letters are in its language's script.

    A language whose script is not known passes.
    """
    scripts = unicode_scripts_of(document.language)
    if not scripts:
        return None
    letters = len(LETTER.findall(document.text))
    if not letters:
        return "no_letters"
    own = len(_letters_of(scripts).findall(document.text))
    return "wrong_script" if own / letters < config.min_share_of_letters else None
