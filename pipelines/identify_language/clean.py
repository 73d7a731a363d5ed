"""What an identifier is shown of a text: one clean line. A copy; the stored text stays as it is."""

from __future__ import annotations

import re
from functools import cache

import regex

MIN_LETTERS = 3
"""A text with fewer letters is not in any language."""
WINDOW = 2
"""So many times the wanted length is cut from the middle before it is cleaned."""

_UP_TO_A_BLANK = (
    # or to a script that is written without blanks around an address.
    r"[^\s\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7a3\uf900-\ufaff\uff00-\uffef]+"
)
ADDRESSES = {
    # Tried in lower-cased text, and only when the key is in it. Fixed beginnings, and a bound on
    # the first part of a mail address: no pattern takes time that is quadratic in the text.
    "://": re.compile(r"(?:https?|ftp)://" + _UP_TO_A_BLANK),
    "www.": re.compile(r"www\." + _UP_TO_A_BLANK),
    "@": re.compile(r"(?<![a-z0-9.+%_-])[a-z0-9.+%_-]{0,64}@[\w-]+(?:\.[\w-]+)+"),
}
WITHOUT_WORDS = regex.compile(
    r"[\p{Nd}\p{So}\p{Sk}\p{Cc}\p{Cs}\p{Extended_Pictographic}\N{VARIATION SELECTOR-16}"
    r"\N{COMBINING ENCLOSING KEYCAP}]"
)
"""Digits, symbols, emoji, control characters and lone surrogates."""
BEYOND_FIRST_PLANE = re.compile("[\U00010000-\U0001ffff]")


def shown_text(text: str, max_characters: int) -> str:
    """What the model sees of a text: one clean line, at most `max_characters` from the middle.

    Addresses, digits, emoji and control characters are taken out, blanks become one space, letters
    are lower-cased, for lid.176 was trained on such lines. Of a long text only the middle is
    cleaned, unless there is nothing but addresses and digits in it.
    """
    size = max_characters * WINDOW
    start = (len(text) - size) // 2
    line = _clean(text[start : start + size] if start > 0 else text)
    if start > 0 and not has_words(line):
        line = _clean(text)
    start = max(0, (len(line) - max_characters) // 2)
    return line[start : start + max_characters]


def has_words(line: str) -> bool:
    """Whether there are enough letters in a line to be in some language."""
    letters = 0
    for character in line:
        letters += character.isalpha()
        if letters == MIN_LETTERS:
            return True
    return False


def _clean(text: str) -> str:
    text = text.lower()
    for mark, pattern in ADDRESSES.items():
        if mark in text:
            text = pattern.sub(" ", text)
    text = _runs_without_words(0, 0xFFFF).sub(" ", text)
    if BEYOND_FIRST_PLANE.search(text):
        text = _runs_without_words(0x10000, 0x1FFFF).sub(" ", text)
    return " ".join(text.split())


@cache
def _runs_without_words(first: int, last: int) -> re.Pattern[str]:
    """Runs of WITHOUT_WORDS with the characters of a Unicode range written out.

    The standard library's matcher looks characters of the first plane up in a bitmap, and walks
    through a list as soon as one is beyond: a pattern for each is ten times as fast as one for all,
    and as properties in `regex`.
    """
    characters = WITHOUT_WORDS.findall("".join(map(chr, range(first, last + 1))))
    return re.compile("[" + "".join(f"\\U{ord(char):08x}" for char in characters) + "]+")
