"""Language tags: BCP 47, with a script where one language is written in several."""

from __future__ import annotations

from functools import cache

import langcodes

from pipelines.core.records import UNKNOWN_LANGUAGE

PREFERRED = {
    "no": "nb",  # the macro-language; what is written under it is Bokmål, Nynorsk says `nn`
    "ajp": "apc",  # merged by ISO 639-3 in 2023: Levantine Arabic
    "pbt": "ps",  # the individual languages that identifiers use for a macro-language and that
    "pst": "ps",  # CLDR does not name as its main one
    "quy": "qu",
    "lah": "pnb",  # Western Punjabi, under which its Wikipedia and the identifiers have it
    "zxx": UNKNOWN_LANGUAGE,  # no linguistic content
    "mul": UNKNOWN_LANGUAGE,
}
"""Where this project's name for a language differs from CLDR's canonical one."""

WRITTEN_IN = {
    "az": ("Latn", "Cyrl", "Arab"),
    "kk": ("Cyrl", "Latn", "Arab"),
    "ks": ("Arab", "Deva"),
    "ky": ("Cyrl", "Latn", "Arab"),
    "mn": ("Cyrl", "Mong"),
    "pa": ("Guru", "Arab"),
    "sd": ("Arab", "Deva"),
    "sr": ("Cyrl", "Latn"),
    "tg": ("Cyrl", "Latn"),
    "tk": ("Latn", "Cyrl"),
    "tt": ("Cyrl", "Latn"),
    "uz": ("Latn", "Cyrl"),
    "yue": ("Hant", "Hans"),
    "zh": ("Hans", "Hant"),
}
"""Languages in several scripts; a bare tag means the first, unless the script is always said."""
ALWAYS_WITH_SCRIPT = frozenset({"sr", "zh"})
OWN_TAG = {"az-Arab": "azb", "pa-Arab": "pnb"}
"""A language in one of its scripts that has a code of its own, which the identifiers use."""
LIKELY_SCRIPT = {"azb": "Arab", "xal": "Cyrl"}
"""Likely scripts that the installed CLDR data does not have."""
SAME_SCRIPT = {"Hang": "Kore", "Hani": None, "Zyyy": None, "Zzzz": None, "Aran": "Arab"}
"""Scripts as labels name them -> as tags name them; None says nothing about a tag."""


@cache
def normalise(tag: str) -> str:
    """Write a tag in its one form: `iw` -> `he`, `swh` -> `sw`, `pt_BR` -> `pt-BR`.

    Individual languages that CLDR takes for their macro-language get its tag (`cmn` -> `zh`,
    `arb_Arab` -> `ar`, `als` -> `sq`), and a script that goes without saying is left out
    (`uz-Latn` -> `uz`, but `sr-Latn` stays). Source: UTS #35, canonicalisation of locale
    identifiers.

    Raises:
        ValueError: the tag is not BCP 47.
    """
    try:
        standard = langcodes.standardize_tag(tag.replace("_", "-"), macro=True)
        parts = langcodes.Language.get(standard, normalize=False)
    except langcodes.LanguageTagError as error:
        raise ValueError(f"{tag!r} is not a language tag (BCP 47): {error}") from None
    language = PREFERRED.get(parts.language or "", parts.language or "")
    if language != parts.language:
        parts = parts.update_dict({"language": language})
    script = SAME_SCRIPT.get(parts.script, parts.script) if parts.script else None
    return with_script(str(parts.update_dict({"script": None}).to_tag()), script)


@cache
def with_script(tag: str, script: str | None) -> str:
    """A tag without script, written in a script: `uz`, Cyrl -> `uz-Cyrl`; `uz`, Latn -> `uz`."""
    language, _, rest = tag.partition("-")
    if script is None or (script == default_script(tag) and language not in ALWAYS_WITH_SCRIPT):
        return tag
    written = f"{language}-{script}"
    return "-".join(filter(None, (OWN_TAG.get(written, written), rest)))


@cache
def default_script(tag: str) -> str:
    """The script that a tag without one stands for."""
    language = tag.split("-")[0]
    return WRITTEN_IN[language][0] if language in WRITTEN_IN else script_of(tag)


@cache
def script_of(tag: str) -> str:
    """ISO 15924 code of a language's script: its own subtag, else the likely one."""
    if tag == UNKNOWN_LANGUAGE:
        return "Zyyy"
    if tag in LIKELY_SCRIPT:
        return LIKELY_SCRIPT[tag]
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
