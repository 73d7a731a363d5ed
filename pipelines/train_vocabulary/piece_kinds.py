"""What the pieces of a vocabulary are: scripts, lengths and kinds, and which may be junk."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from fontTools.unicodedata import script as script_of_character
from fontTools.unicodedata import script_name

from pipelines.core.vocabulary import BOS_ID, FIRST_PIECE_ID
from pipelines.core.words import BLANK_SIGN

CONTINUED = "##"
"""How WordPiece marks a piece that does not begin a word."""
BYTE = re.compile("<0x[0-9A-F]{2}>")
"""A piece that stands for one byte (byte fallback of SentencePiece)."""
REPEATED = re.compile(r"(.)\1{3}", re.DOTALL)
"""One character four times in a row."""

WITHOUT_SCRIPT = frozenset({"Zyyy", "Zinh", "Zzzz"})
WRITTEN_TOGETHER = (
    (frozenset({"Hani", "Hira", "Kana", "Bopo"}), "Jpan"),
    (frozenset({"Hang", "Hani"}), "Kore"),
)
"""Scripts that one word may mix, and the ISO 15924 code of the mixture."""
NAMES = {
    "Jpan": "Japanese, mixed",
    "Kore": "Korean, mixed",
    "mixed": "mixed scripts",
    "digits": "digits",
    "punctuation": "punctuation, symbols",
    "bytes": "bytes",
    "blank": "blank",
    "other": "other",
}
"""Groups of pieces that are not one script, as they are shown."""


class Pieces(Protocol):
    """A table of pieces."""

    @property
    def mask_id(self) -> int:
        """The id after the last piece."""

    def token(self, token_id: int) -> str:
        """The written form of an id."""


def word_mark(vocabulary: Pieces) -> str:
    """How the vocabulary marks words: BLANK_SIGN or CONTINUED."""
    return CONTINUED if vocabulary.token(BOS_ID) == "[CLS]" else BLANK_SIGN


def body_of(token: str, mark: str) -> str:
    """The text of a piece, without the mark of a word's beginning or continuation."""
    if mark == BLANK_SIGN:
        return token.replace(BLANK_SIGN, "")
    return token.removeprefix(mark) if len(token) > len(mark) else token


@cache
def scripts_of(text: str) -> frozenset[str]:
    """ISO 15924 codes of the scripts of a text's characters, common and inherited ones left out."""
    if len(text) > 1:
        return frozenset().union(*map(scripts_of, set(text)))
    return frozenset({script_of_character(text)} - WITHOUT_SCRIPT) if text else frozenset()


def group_of(text: str) -> str:
    """The script of a piece's text, or what it is instead: a key of NAMES."""
    if BYTE.fullmatch(text):
        return "bytes"
    if not text:
        return "blank"
    categories = {unicodedata.category(character)[0] for character in text}
    if categories == {"N"}:
        return "digits"  # of any script
    scripts: frozenset[str] = frozenset().union(*map(scripts_of, text))
    if len(scripts) == 1:
        return next(iter(scripts))
    for together, code in WRITTEN_TOGETHER:
        if scripts and scripts <= together:
            return code
    if scripts:
        return "mixed"
    return "punctuation" if categories <= {"P", "S", "N"} else "other"


def pieces_report(
    vocabulary: Pieces, uses: npt.NDArray[np.int64], most_listed: int
) -> dict[str, Any]:
    """Count the pieces of a vocabulary by script, length and kind, and list the odd ones.

    Args:
        uses: how often each id occurs in held-out text, shape (rows,).
        most_listed: entries of each list of examples, the lowest ids (so the most likely pieces of
            a Unigram vocabulary) first.

    Returns:
        `pieces_by`: rows of `script` (the most pieces first) and of `length` in characters without
        the word mark, and counts of kinds. `examples`: the longest pieces, and those that may be
        junk: letters of several scripts in one piece, one character four times in a row.
    """
    mark = word_mark(vocabulary)
    tokens = [vocabulary.token(i) for i in range(FIRST_PIECE_ID, vocabulary.mask_id)]
    used = uses[FIRST_PIECE_ID : vocabulary.mask_id] > 0
    texts = [body_of(token, mark) for token in tokens]
    groups = [group_of(text) for text in texts]
    texts = ["" if group == "bytes" else text for text, group in zip(texts, groups, strict=True)]
    all_of, used_of = Counter(groups), Counter(np.array(groups, dtype=object)[used].tolist())
    lengths = Counter(map(len, texts))
    mixed = [token for token, group in zip(tokens, groups, strict=True) if group == "mixed"]
    repeated = [t for t, text in zip(tokens, texts, strict=True) if REPEATED.search(text)]
    longest = sorted(range(len(texts)), key=lambda place: (-len(texts[place]), place))
    count = len(tokens)
    return {
        "pieces_by": {
            "script": [
                {
                    "script": group,
                    "name": NAMES.get(group) or script_name(group),
                    "pieces": number,
                    "share": round(number / count, 6),
                    "used": used_of[group],
                }
                for group, number in sorted(all_of.items(), key=lambda item: (-item[1], item[0]))
            ],
            "length": {str(length): lengths[length] for length in sorted(lengths) if length},
            "kind": {
                "normal": count,
                "used_on_held_out_text": int(used.sum()),
                "unused_share": round(1 - int(used.sum()) / count, 6) if count else None,
                "one_character": lengths[1],
                "begins_a_word": sum(_begins_word(token, mark) for token in tokens),
                "mixed_scripts": len(mixed),
                "repeated_character": len(repeated),
            },
        },
        "examples": {
            "longest": [tokens[place] for place in longest[:most_listed]],
            "mixed_scripts": mixed[:most_listed],
            "repeated_character": repeated[:most_listed],
        },
    }


def _begins_word(token: str, mark: str) -> bool:
    if mark == BLANK_SIGN:
        return token.startswith(mark)
    return not (token.startswith(mark) and len(token) > len(mark))
