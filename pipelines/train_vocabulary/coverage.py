"""Which characters a vocabulary must have, so that no language and no script loses its letters.

SentencePiece's character_coverage looks at the whole text: at 0.9995 a language with 0.1 % of it
may lose half of its letters. Here the same share is asked of every language by itself, and in it of
every script that it is written in. The rest is left to the whole.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fontTools.unicodedata import script

LEAST_SCRIPT_SHARE = 0.01
"""Least share of a language's characters for a script to be one that it is written in; what is
rarer are quotations and noise."""

LEAST_COUNT = 2
"""A character that stands once in the whole corpus is not asked for, wherever it stands."""

NEVER_ASKED = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
"""Categories that are never asked for: controls and invisible characters (but for the joiners),
unassigned and private code points, and blanks."""

JOINERS = frozenset({0x200C, 0x200D})
RESERVED = frozenset({0x2581, 0x2585})
"""SentencePiece's own: the blank's mark, and what it writes for unknown text while training."""

COMMON_SCRIPTS = frozenset({"Zyyy", "Zinh", "Zzzz"})


@dataclass(frozen=True)
class Required:
    """Characters that get a piece of their own."""

    characters: str
    """Sorted, each once."""
    by_language: dict[str, int]
    """How many of them each language asks for."""
    by_script: dict[str, int]
    """How many of the characters are of each script (ISO 15924)."""


def required_characters(characters: Mapping[str, Mapping[int, int]], coverage: float) -> Required:
    """The characters that reach `coverage` in every language, and there in every script of its own.

    Args:
        characters: code points of the normalised text with their counts, by language.
        coverage: share of the occurrences, above 0 and at most 1.
    """
    whole: Counter[int] = Counter()
    for counts in characters.values():
        whole.update(counts)
    asked_by: dict[str, set[int]] = {}
    for language, counts in characters.items():
        written = {point: count for point, count in counts.items() if point not in RESERVED}
        total = sum(written.values())
        asked = most_frequent(written, coverage)
        scripts: dict[str, dict[int, int]] = defaultdict(dict)
        for point, count in written.items():
            scripts[script(chr(point))][point] = count
        for name, letters in scripts.items():
            if name not in COMMON_SCRIPTS and sum(letters.values()) >= LEAST_SCRIPT_SHARE * total:
                asked |= most_frequent(letters, coverage)
        asked_by[language] = {
            point for point in asked if may_be_asked(point) and whole[point] >= LEAST_COUNT
        }
    every = sorted(set().union(*asked_by.values()))
    by_script = Counter(script(chr(point)) for point in every)
    return Required(
        "".join(map(chr, every)),
        {language: len(asked) for language, asked in sorted(asked_by.items())},
        dict(sorted(by_script.items())),
    )


def most_frequent(counts: Mapping[int, float], coverage: float) -> set[int]:
    """The fewest code points that make up `coverage` of the counts; of equal ones the lowest."""
    needed = coverage * sum(counts.values())
    taken: set[int] = set()
    seen = 0.0
    for point, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if seen >= needed:
            break
        taken.add(point)
        seen += count
    return taken


def may_be_asked(point: int) -> bool:
    """Whether a code point may be asked for: a character that shows, or a joiner."""
    return point in JOINERS or (
        point not in RESERVED and unicodedata.category(chr(point)) not in NEVER_ASKED
    )


def allowed_characters(
    counts: Mapping[int, float], required: Iterable[str], coverage: float
) -> str:
    """The alphabet of a trainer without a coverage of its own: what is required, and the characters
    that reach `coverage` of the whole; sorted.

    Args:
        counts: code points with their counts in the mix that is trained on.
    """
    shown = {point: count for point, count in counts.items() if may_be_asked(point)}
    return "".join(sorted({*required, *map(chr, most_frequent(shown, coverage))}))
