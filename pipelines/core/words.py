"""Where words begin among the pieces of a vocabulary, also in scripts without blanks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import regex

BLANK_SIGN = "▁"
"""How SentencePiece writes a blank (U+2581); a piece that begins with it begins a word."""

UNSPACED_SCRIPTS = (
    *("Hani", "Hira", "Kana", "Bopo", "Yiii", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"),
    *("Talu", "Lana", "Tavt", "Java", "Bali"),
)
"""Scripts whose words no blank separates: ideographic ones, and those that UAX #14 puts into its
class SA (and Tibetan, whose mark separates syllables)."""

# Extensions count: the Japanese mark of a long vowel is of script Common, but for Kana alone.
_UNSPACED = "".join(rf"\p{{scx={script}}}" for script in UNSPACED_SCRIPTS)
_FIRST_LETTER_UNSPACED = regex.compile(
    rf"[^\p{{L}}\p{{M}}]*+[[{_UNSPACED}]&&[\p{{L}}\p{{M}}]]", regex.V1
)


def piece_word_starts(
    pieces: Sequence[str], kind: Literal["unigram", "wordpiece"]
) -> npt.NDArray[np.bool_]:
    """Whether each piece begins a word, shape (pieces,).

    With unigram a word begins at U+2581, where the text has a blank; with wordpiece at every piece
    without `##`. A piece whose first letter is of a script without blanks always begins one: there
    are no blanks to go by, and the trainer has cut such text at what occurs together.

    Other pieces without a blank belong to the word before them: punctuation, digits, and also Latin
    letters right behind a Chinese piece, because a table by id does not know a piece's neighbours.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in ("unigram", "wordpiece"):
        raise ValueError(f"kind is {kind!r}; need unigram or wordpiece")
    blank = kind == "unigram"
    return np.array(
        [piece.startswith(BLANK_SIGN) if blank else not piece.startswith("##") for piece in pieces],
        dtype=np.bool_,
    ) | np.array([_FIRST_LETTER_UNSPACED.match(piece) is not None for piece in pieces], np.bool_)
