"""What of a text is compared: normalised paragraphs, their keys, and words."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

import regex

_DIGITS = regex.compile(r"\p{Nd}")
_WORDS = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_WORDS_AND_CHARACTERS = regex.compile(
    rf"[{_UNSPACED}]|[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]+", regex.VERSION1
)
# Most text is in none of these scripts and some of it is ASCII; `re` with plain ranges and
# `bytes.translate` tell and treat it about ten times as fast. The results are the same.
_MAYBE_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u19e0-\u19ff\u2e80-\u33ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U000116d0-\U000116ff"
    "\U00016fe0-\U00016fff\U0001aff0-\U0001b16f\U0001f200\U00020000-\U0003ffff]"
)
_ASCII_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_ASCII_WORDS = bytes(c if chr(c).isalnum() and c < 128 else 32 for c in range(256))


def normalise(paragraph: str, ignore_digits: bool = False) -> str:
    """What two paragraphs share when they count as the same.

    Case, kinds and number of blanks, and compatibility forms do not matter; with `ignore_digits`
    the values of digits do not either. Source: CCNet (Wenzek et al. 2020), section 3.1, which
    ignores digits, and punctuation as well, which matters here.
    """
    if paragraph.isascii():
        text = paragraph.lower()
        if ignore_digits:
            text = text.encode("ascii").translate(_ASCII_DIGITS).decode("ascii")
    else:
        text = unicodedata.normalize("NFKC", paragraph).casefold()
        if ignore_digits:
            text = _DIGITS.sub("0", text)
    return " ".join(text.split())


def key_of(text: str) -> bytes:
    """128 bits that stand for a text."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()


def document_key(paragraphs: Iterable[str]) -> bytes:
    """What two documents share when their paragraphs are equal, but for kinds and number of blanks.

    Nothing else is overlooked: documents that differ in a digit are two documents.
    """
    return key_of("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))


def words(normalised: str) -> list[str]:
    """The units of shingles: runs of letters, marks and digits; punctuation does not matter.

    In scripts that put no blank between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese,
    Tibetan) every character is a unit, whatever language the text is labelled with.
    """
    if normalised.isascii():
        return normalised.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()
    if _MAYBE_UNSPACED.search(normalised) is None:
        return list(_WORDS.findall(normalised))
    return list(_WORDS_AND_CHARACTERS.findall(normalised))
