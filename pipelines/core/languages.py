"""Language tags: BCP 47, with a script where one language is written in several."""

from __future__ import annotations

from functools import cache

import langcodes

from pipelines.core.records import UNKNOWN_LANGUAGE


@cache
def normalise(tag: str) -> str:
    """Write a tag in its one form: `iw` -> `he`, `sh` -> `sr-Latn`, `pt_BR` -> `pt-BR`.

    Raises:
        ValueError: the tag is not BCP 47.
    """
    try:
        return str(langcodes.standardize_tag(tag.replace("_", "-"), macro=False))
    except langcodes.LanguageTagError as error:
        raise ValueError(f"{tag!r} is not a language tag (BCP 47): {error}") from None


@cache
def script_of(tag: str) -> str:
    """ISO 15924 code of a language's script: its own subtag, else the likely one."""
    if tag == UNKNOWN_LANGUAGE:
        return "Zyyy"
    return langcodes.Language.get(tag).maximize().script or "Zzzz"


GROUPS = {
    "Latn": "Latin",
    "Cyrl": "Cyrillic",
    "Arab": "Arabic",
    "Deva": "Devanagari",
    "Hans": "Chinese, Japanese, Korean",
    "Hant": "Chinese, Japanese, Korean",
    "Jpan": "Chinese, Japanese, Korean",
    "Kore": "Chinese, Japanese, Korean",
}


def group_of(tag: str) -> str:
    """The group a language is reported in: its script family."""
    return GROUPS.get(script_of(tag), "other scripts")


COMPOSED_SCRIPTS = {
    "Hans": ("Hani",),
    "Hant": ("Hani",),
    "Jpan": ("Hani", "Hira", "Kana"),
    "Kore": ("Hang", "Hani"),
    "Zyyy": (),
    "Zzzz": (),
}


def unicode_scripts_of(tag: str) -> tuple[str, ...]:
    """The Unicode script values a language's letters have; empty when nothing is known of it."""
    script = script_of(tag)
    return COMPOSED_SCRIPTS.get(script, (script,))
