"""SentencePiece's normalisation with the parts that Hugging Face `tokenizers` has.

SentencePiece replaces the longest key that stands at a place of the text, whatever it is made of.
`Precompiled`, made for the same rules, looks at whole graphemes below six bytes and takes the
shortest key in them, and at single characters otherwise: it composes no Bengali vowel sign, no
polytonic Greek, no Vietnamese letter in two marks, and loses marks behind `½`. `NFC` composes
rightly, but also puts marks into canonical order, which SentencePiece does not (Arabic shadda).

So the text is first divided: JOIN goes to the places inside a key of several characters, APART to
all other places where a grapheme could be taken as one or where NFC would compose or reorder. Then
`Precompiled` sees single characters, and when JOIN has gone, NFC composes the keys and no more.
This rests on two properties of the rules, checked by `_check_rules`: a key of several characters
becomes what NFC makes of its characters' own replacements, and no character can both end one such
key and begin another. The few keys that NFC does not know (scripts of Unicode 16) are replaced by
name where the vocabulary has a piece for them.

Source: normalizer.cc of SentencePiece, normalizers/precompiled.rs of tokenizers, UAX #15 and #29.
"""

from __future__ import annotations

import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from functools import cache, lru_cache
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import NormalizerSpec
from tokenizers import Regex, normalizers

from pipelines.core.normalizers import rules_of

JOIN, APART, OTHER = "\ufdd0", "\ufdd1", "\ufdd2"
"""Noncharacters, which texts do not hold (Unicode 23.7); were one there, it becomes OTHER, and so
stays unknown."""
EXTENDING = "\u200c\u200d\u0e33\u0eb3\uff9e\uff9f" + "".join(
    chr(point)
    for start, end in ((0x1160, 0x11FF), (0xD7B0, 0xD7FB), (0x1F3FB, 0x1F3FF), (0xE0020, 0xE007F))
    for point in range(start, end + 1)
)
"""Characters that go on with a grapheme (UAX #29) without being marks."""


def fast_normalizer(spec: NormalizerSpec, characters: Set[str]) -> normalizers.Normalizer:
    """The normaliser of a model as a Hugging Face one: same text, with a blank before it.

    Blanks are U+0020 still; `Metaspace` writes them as U+2581.

    Args:
        spec: the model's rules.
        characters: all characters that occur in the model's pieces.

    Raises:
        ValueError: the model does not fold blanks and begin with one, or has pieces with
            noncharacters, or rules of another kind than the four of normalizers.py.
    """
    if not (spec.add_dummy_prefix and spec.remove_extra_whitespaces and spec.escape_whitespaces):
        raise ValueError(
            "only models with add_dummy_prefix, remove_extra_whitespaces and escape_whitespaces "
            "can be written as tokenizer.json"
        )
    steps: list[Any] = []
    if spec.precompiled_charsmap:
        if characters & {JOIN, APART, OTHER}:
            raise ValueError("pieces hold the noncharacters U+FDD0 to U+FDD2, which are needed")
        unknown_to_nfc, join, apart = _plan(spec.SerializeToString(deterministic=True))
        steps += [
            normalizers.Replace(key, value)
            for key, value in unknown_to_nfc
            if characters & set(key + value)
        ]
        steps += [
            normalizers.Replace(Regex(f"[{JOIN}{APART}]"), OTHER),
            normalizers.Replace(Regex(join), JOIN),
            normalizers.Replace(Regex(apart), APART),
            normalizers.Precompiled(spec.precompiled_charsmap),
            normalizers.Replace(JOIN, ""),
            normalizers.NFC(),
            normalizers.Replace(APART, ""),
        ]
    # The sign itself, where no rule makes it a blank, is dropped at the end of a line only.
    steps += [
        normalizers.Replace(Regex(" {2,}"), " "),
        normalizers.Replace(Regex(r"\A |[ \u2581]+\z"), ""),
        normalizers.Prepend(" "),
    ]
    return normalizers.Sequence(steps)


@lru_cache(maxsize=4)
def _plan(serialized: bytes) -> tuple[list[tuple[str, str]], str, str]:
    """Rules to apply by name, longest keys first, and the places for JOIN and for APART."""
    rules = rules_of(NormalizerSpec.FromString(serialized))
    by_name = _check_rules(rules)
    ordered = sorted(by_name, key=lambda key: (-len(key), key))
    return [(key, rules[key]) for key in ordered], *_divisions(rules, by_name)


def _check_rules(rules: Mapping[str, str]) -> set[str]:
    """The keys of several characters that NFC does not compose.

    Raises:
        ValueError: there are too many of them, or keys overlap.
    """
    nfc = normalizers.NFC()
    several = [key for key in rules if len(key) > 1]
    unknown = {
        key
        for key in several
        if nfc.normalize_str("".join(rules.get(c, c) for c in key)) != rules[key]
    }
    known = [key for key in several if key not in unknown]
    overlaps = {key[0] for key in known} & {c for key in known for c in key[1:]}
    shorter = {key for key in known if key[:-1] not in rules and len(key) > 2}
    if len(unknown) > 100 or overlaps or shorter:
        raise ValueError(
            f"the model's rules cannot be written for Hugging Face tokenizers: {len(unknown)} keys "
            f"are no canonical compositions, {len(overlaps)} characters end one key and begin "
            f"another, {len(shorter)} keys have no shorter one"
        )
    return unknown


def _divisions(rules: Mapping[str, str], left_out: Set[str]) -> tuple[str, str]:
    """Regular expressions of the places for JOIN and for APART."""
    several = [key for key in rules if len(key) > 1 and key not in left_out]
    single = {key for key in rules if len(key) == 1}
    later = {c for key in several for c in key[1:]}
    before_by_last: dict[str, set[str]] = defaultdict(set)
    for key in several:
        before_by_last[key[-1]].add(key[:-1])
    lasts_by_before: dict[frozenset[str], set[str]] = defaultdict(set)
    for last, before in before_by_last.items():
        lasts_by_before[frozenset(before)].add(last)
    places = [
        f"(?={_one_of(lasts)})(?:{'|'.join(_behind(before))})"
        for before, lasts in sorted(lasts_by_before.items(), key=lambda item: min(item[1]))
    ]
    # Most characters are ruled out by the first class.
    join = f"(?={_one_of(later)})(?:{'|'.join(places)})"

    marks, decomposing = _marks_and_decomposing()
    begins_with_mark = {key for key in single if rules[key][:1] in marks}
    first = {key[0] for key in several}
    going_on: set[str] = later | marks | begins_with_mark | set(EXTENDING)
    acting = single | first | later | decomposing | {c for c in marks if unicodedata.combining(c)}
    return join, f"(?={_one_of(going_on)})(?<={_one_of(acting)})"


def _behind(before: Iterable[str]) -> list[str]:
    """Look-behinds that together match what may stand before the last character of a key."""
    heads_by_tail: dict[str, set[str]] = defaultdict(set)
    for text in before:
        heads_by_tail[text[1:]].add(text[0])
    tails_by_heads: dict[frozenset[str], set[str]] = defaultdict(set)
    for tail, heads in heads_by_tail.items():
        tails_by_heads[frozenset(heads)].add(tail)
    found = []
    for group, tails in sorted(tails_by_heads.items(), key=lambda item: min(item[1])):
        head = _one_of(group)
        if "" in tails:
            found.append(f"(?<={head})")
        if single := {tail for tail in tails if len(tail) == 1}:
            found.append(f"(?<={head}{_one_of(single)})")
        longer = sorted(tail for tail in tails if len(tail) > 1)
        found += [f"(?<={head}{''.join(map(_escaped, tail))})" for tail in longer]
    return found


@cache
def _marks_and_decomposing() -> tuple[frozenset[str], frozenset[str]]:
    """All marks, and all characters with a canonical decomposition."""
    every = [chr(point) for point in range(sys.maxunicode + 1)]
    marks = {c for c in every if unicodedata.category(c)[0] == "M" or unicodedata.combining(c)}
    return frozenset(marks), frozenset(c for c in every if _decomposes(c))


def _decomposes(character: str) -> bool:
    return "\uac00" <= character <= "\ud7a3" or (
        unicodedata.decomposition(character)[:1] not in ("", "<")
    )


def _one_of(characters: Iterable[str]) -> str:
    """A character class, in ranges; what never matches for no characters."""
    points = sorted(map(ord, characters))
    if not points:
        return "(?!)"
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    written = [
        _escaped(chr(start)) + (f"-{_escaped(chr(end))}" if end > start else "")
        for start, end in ranges
    ]
    return f"[{''.join(written)}]"


def _escaped(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"
