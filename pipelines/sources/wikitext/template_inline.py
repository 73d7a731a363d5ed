"""Templates that are not known by name: what they show, told by the place where they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from pipelines.sources.wikitext.mediawiki_names import FILE_ENDING
from pipelines.sources.wikitext.template_arguments import HOLE, Arguments
from pipelines.sources.wikitext.template_names import DATA, MONTH_OF_NOTE, SILENT

GOES_ON = re.compile(r"[ \u00a0]?[^\s|{}]")
WORD_BEFORE = re.compile(r"[\w,\])%][ \u00a0]$|\w['’]$")
WORD_BEHIND = re.compile(r"[ \u00a0](\w)")
OPENING = " \u00a0'\"’(（„“«‘["
GAPS = " \u00a0(（„“«["
LINE_MARKS = " \u00a0*#:;|!"
FLAG = re.compile(r"[A-Z]{3}")
NUMBER_BEHIND = re.compile(r"['\s:,]*[\d(]")
NO_TEXT = re.compile(r"://|[ˈˌːʁɐɪʊ_]|^[a-z]{2,3}$|^[A-Z]{2,3}$")
LONGEST_NAME = 60
LONGEST = 300
"""Characters of an argument that is part of a sentence."""


@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    """ "data", "silent", "flag" or "other": what a template's name says."""
    if DATA.match(name):
        return "data"
    if SILENT.match(name):
        return "silent"
    return "flag" if FLAG.fullmatch(name) else "other"


def inline_text(content: str, before: Callable[[], str], after: str) -> str:
    """What a template shows whose name is not known, by the place where it stands.

    In the middle of a sentence one with a single argument that is text probably shows it. One that
    shows a number which is kept elsewhere leaves a hole; so does another one between two words.

    Args:
        content: what stands between the braces.
        before: gives the end of the text before it; most need it not.
        after: the beginning of the text behind it.
    """
    head, _, rest = content.partition("|")
    kind = _kind(head.strip().replace("_", " ")[:LONGEST_NAME])
    if kind == "silent":
        return ""
    goes_on = GOES_ON.match(after) is not None
    if kind == "data":
        return HOLE if goes_on or before().strip(LINE_MARKS) else ""
    if kind == "flag":
        return HOLE if NUMBER_BEHIND.match(after) else ""
    if not goes_on or not _in_sentence(text := before()):
        return ""
    if HOLE in content:
        return HOLE
    values = Arguments(rest)
    if len(values) == 1 and not values.named and _is_text(values[0]):
        return values[0]
    if rest and not any(values):
        return ""  # named arguments only: a note or a source
    behind = WORD_BEHIND.match(after)
    if behind and behind[1].islower() and WORD_BEFORE.search(text):
        return HOLE
    return ""


def _is_text(value: str) -> bool:
    return (
        len(value) <= LONGEST
        and any(map(str.isalpha, value))
        and not NO_TEXT.search(value)
        and not FILE_ENDING.search(value)
        and not MONTH_OF_NOTE.fullmatch(value)
    )


def _in_sentence(before: str) -> bool:
    """Whether words stand before a place in its line, and a blank or a bracket after them."""
    words = before.rstrip(OPENING)
    if not words.strip(LINE_MARKS):
        return False
    gap = before[len(words) :]
    return (
        gap in ("'", "’") or any(sign in gap for sign in GAPS) or "\u3040" <= words[-1] <= "\u9fff"
    )
