"""Encoding word by word with a memory of words, equal to SentencePiece on whole lines.

A Unigram model takes the pieces with the largest sum of scores. If no piece reaches over the blank
between two words, the best pieces of a line are those of its words, one after the other: a word
that was met before need not be cut again. Natural text repeats its words, so most are looked up.

Three things could break this, and `why_not_by_word` asks the model for each of them:

- a piece with a blank inside, or a user-defined symbol, which takes precedence over scores;
- a rule of the normaliser that depends on what stands beyond a blank;
- rounding. SentencePiece adds scores from the start of the line in float32, so the same word could
  be cut otherwise further right. Where all scores are multiples of 2^-6, such sums are exact as far
  as 2^18 (24 bits of mantissa), and a comparison has one answer everywhere. A word of
  MAX_CACHED_CHARACTERS stays below that bound, whatever it is made of. A line does, unless it has
  some 8,000 unknown characters or some 60,000 ordinary ones: beyond that SentencePiece rounds, and
  encoding by words is the exact one, as is Hugging Face's, which adds in float64.

Source: unigram_model.cc (EncodeOptimized) and normalizer.cc of SentencePiece 0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from sentencepiece.sentencepiece_model_pb2 import ModelProto, NormalizerSpec

from pipelines.core.normalizers import rules_of

BLANK = "\u2581"
"""How pieces write the blank before a word."""
MAX_CACHED_CHARACTERS = 64
"""Longer words seldom come again: lines of unspaced scripts, addresses."""
MAX_CACHED_WORDS = 2**18
"""Words kept; about 60 MB. When there are more, the memory begins anew."""
SCORE_STEP = 2.0**-6
"""Scores that are multiples of it have exact sums."""
MAX_SCORE = 2.0**7
"""Largest absolute score: 18 characters that one becomes by NFKC, 64 of them, 2^7 each: 2^17.2."""
UNKNOWN_PENALTY = 10.0
"""What an unknown character costs beyond the least score (kUnkPenalty)."""


def why_not_by_word(model: ModelProto) -> str | None:
    """What keeps a model from being used word by word; None where nothing does."""
    kinds = model.SentencePiece
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        return "it is no Unigram model"
    if model.trainer_spec.treat_whitespace_as_suffix:
        return "its pieces end with the blank"
    known = {kinds.NORMAL, kinds.UNKNOWN, kinds.CONTROL, kinds.BYTE, kinds.UNUSED}
    if {piece.type for piece in model.pieces} - known:
        return "it has user-defined symbols"
    normal = [piece for piece in model.pieces if piece.type == kinds.NORMAL]
    crossing = [piece.piece for piece in normal if BLANK in piece.piece[1:]]
    if crossing:
        return f"piece {crossing[0]!r} reaches over a blank"
    if all(piece.piece != BLANK for piece in normal):
        return f"{BLANK!r} is no piece, so unknown words would run together"
    scores = np.array([piece.score for piece in normal], dtype=np.float64)
    if not np.array_equal(scores, np.round(scores / SCORE_STEP) * SCORE_STEP):
        return f"its scores are no multiples of {SCORE_STEP}"
    if np.abs(scores).max() + UNKNOWN_PENALTY > MAX_SCORE:
        return f"scores reach to {scores.min()}, and sums would be rounded"
    return _why_not_normalized_by_word(model.normalizer_spec.SerializeToString(deterministic=True))


@lru_cache(maxsize=8)
def _why_not_normalized_by_word(serialized: bytes) -> str | None:
    spec = NormalizerSpec.FromString(serialized)
    if not (spec.add_dummy_prefix and spec.remove_extra_whitespaces and spec.escape_whitespaces):
        return "its normaliser does not put one blank before each word"
    for key, value in rules_of(spec).items():
        if " " in key:
            return f"its normaliser has a rule for {key!r}, which depends on a blank"
        if BLANK in value:
            return f"its normaliser makes {key!r} to {value!r}"
        if len(value) > 18:
            return f"its normaliser makes {key!r} to {len(value)} characters"
    return None


class WordCache:
    """Encodes texts by their words; the memory changes the speed and never the ids.

    Args:
        encode_lines: plain encoding: bytes of uint32 ids, one a line; of a model whose
            `why_not_by_word` is None.
        max_words: words kept; when there are more, the memory begins anew.
    """

    def __init__(
        self,
        encode_lines: Callable[[Sequence[str]], list[bytes]],
        max_words: int = MAX_CACHED_WORDS,
    ) -> None:
        self._encode_lines = encode_lines
        self._max_words = max_words
        self._words: dict[str, bytes] = {}

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """Bytes of uint32 ids, one a text. A text's lines are encoded one by one and joined."""
        if len(self._words) > self._max_words:
            self._words.clear()
        get = self._words.get
        encoded = [b""] * len(texts)
        open_texts: list[tuple[int, list[str]]] = []
        missing: set[str] = set()
        for index, text in enumerate(texts):
            words = text.replace("\n", " ").split(" ")
            found = list(map(get, words))
            if None in found:
                open_texts.append((index, words))
                missing.update(w for w, ids in zip(words, found, strict=True) if ids is None)
            else:
                encoded[index] = b"".join(found)  # type: ignore[arg-type]
        if missing:
            passing = self._learn(missing)
            for index, words in open_texts:
                found = list(map(get, words))
                if None in found:  # a word whose pieces depend on its neighbours
                    encoded[index] = b"".join(self._encode_lines(texts[index].split("\n")))
                else:
                    encoded[index] = b"".join(found)  # type: ignore[arg-type]
            for word in passing:
                del self._words[word]
        return encoded

    def _learn(self, missing: set[str]) -> list[str]:
        """Take words into the memory; returns those that shall not stay there."""
        # The blank's own sign in the text: whether it is dropped depends on what follows.
        words = [word for word in missing if BLANK not in word]
        self._words.update(zip(words, self._encode_lines(words), strict=True))
        return [word for word in words if len(word) > MAX_CACHED_CHARACTERS]
