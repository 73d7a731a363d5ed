"""The labels of identifiers and data sets in one code system: BCP 47, with script where it matters.

`cmn_Hani` (GlotLID), `zho_Hans` (NLLB, SIB-200), `zh` (fastText) are all Chinese; which of its two
scripts a text is in, only the text says.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import langcodes
import regex

from pipelines.core.languages import (
    COMPOSED_SCRIPTS,
    SAME_SCRIPT,
    WRITTEN_IN,
    default_script,
    normalise,
    with_script,
)
from pipelines.core.records import UNKNOWN_LANGUAGE

PREFIX = "__label__"
VARIANTS = frozenset({"Hans", "Hant"})
"""Two ways to write Han characters, which Unicode does not tell apart."""
LEVEL_1_OF_GB2312 = range(0xB0, 0xD8)
LEVEL_1_OF_BIG5 = range(0xA4, 0xC7)


class Label(NamedTuple):
    """What a label says."""

    language: str
    """A tag without script."""
    script: str | None
    """ISO 15924, where the label names one that a text can be in."""


@cache
def parse_label(label: str) -> Label:
    """Take a label apart: `__label__kaz_Cyrl` -> kk, Cyrl; `cmn_Hani` -> zh, no script.

    Raises:
        ValueError: it has not the form of a language tag.
    """
    given = label.removeprefix(PREFIX).replace("_", "-")
    standard = langcodes.Language.get(normalise(given), normalize=False)
    language = str(standard.update_dict({"script": None}).to_tag())
    # The script as given: `normalise` leaves the usual one out.
    named = langcodes.Language.get(given, normalize=False).script or standard.script
    return Label(language, SAME_SCRIPT.get(named, named) if named else None)


def tag_of(label: Label, text: str) -> str:
    """The tag of a text that was given this label.

    The script is the text's own, of those that the language is written in and the one that the
    label names; where the text does not decide, the label does, then the language's usual script.
    """
    scripts = scripts_of(label)
    if len(scripts) == 1:
        return with_script(label.language, scripts[0])
    groups: dict[tuple[str, ...], list[str]] = {}
    for script in scripts:
        groups.setdefault(COMPOSED_SCRIPTS.get(script, (script,)), []).append(script)
    counts = [_count(group, text) for group in groups] if len(groups) > 1 else [1]
    named = [label.script in members for members in groups.values()]
    best = max(range(len(groups)), key=lambda i: (counts[i], named[i], -i))
    members = list(groups.values())[best]
    script = members[0]
    if len(members) > 1 and (variant := han_variant(text) or label.script) in members:
        script = str(variant)
    return with_script(label.language, script)


def tags_of(label: Label) -> list[str]:
    """Every tag that a text with this label can get."""
    return [with_script(label.language, script) for script in scripts_of(label)]


@cache
def scripts_of(label: Label) -> Sequence[str]:
    """Scripts a text with this label may be in, the usual one first."""
    if label.language == UNKNOWN_LANGUAGE:
        return (default_script(label.language),)
    language = label.language.partition("-")[0]
    scripts = WRITTEN_IN.get(language)
    if scripts is None:
        # A language with one known script: the label knows better where it names another.
        return (label.script or default_script(label.language),)
    return scripts if label.script in (None, *scripts) else (*scripts, str(label.script))


def han_variant(text: str) -> str | None:
    """Whether Chinese characters are simplified (Hans) or traditional (Hant); None if undecided.

    Counts the frequent characters (level 1) of each of the two national character sets, GB 2312
    and Big5, that the other one does not have.
    """
    simplified, traditional = _han_tables()
    difference = sum(map(simplified.__contains__, text)) - sum(map(traditional.__contains__, text))
    return ("Hans" if difference > 0 else "Hant") if difference else None


@cache
def _han_tables() -> tuple[frozenset[str], frozenset[str]]:
    level_1 = {}
    for encoding, rows in (("gb2312", LEVEL_1_OF_GB2312), ("big5", LEVEL_1_OF_BIG5)):
        cells = (bytes((row, cell)) for row in rows for cell in range(0x40, 0xFF))
        found = (cell.decode(encoding, "ignore") for cell in cells)
        level_1[encoding] = {char for char in found if len(char) == 1 and ord(char) > 0x3400}
    return (
        frozenset(char for char in level_1["gb2312"] if not char.encode("big5", "ignore")),
        frozenset(char for char in level_1["big5"] if not char.encode("gb2312", "ignore")),
    )


def _count(scripts: Sequence[str], text: str) -> int:
    return len(_characters_of(tuple(scripts)).findall(text)) if scripts else 0


@cache
def _characters_of(scripts: tuple[str, ...]) -> regex.Pattern[str]:
    return regex.compile("[" + "".join(rf"\p{{Script={script}}}" for script in scripts) + "]")
