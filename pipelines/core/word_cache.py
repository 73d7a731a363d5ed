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

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sentencepiece.sentencepiece_model_pb2 import ModelProto, NormalizerSpec

from pipelines.core.normalizers import rules_of
from pipelines.core.words import BLANK_SIGN

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
EXACT_SUM = 2.0**24 * SCORE_STEP
"""Sums of multiples of SCORE_STEP are exact in float32 up to here."""

GROUP_CHARACTERS = 2**14
"""Whether to encode by words or by lines is decided for texts of so many characters together."""
START_BALANCE = 2.0**18
"""Characters' worth of time that may be spent on learning words before any was saved."""
MAX_BALANCE = 2.0**20
"""What was saved long ago is not spent on text that saves nothing."""
LEARNING_SHARE = 0.04
"""Share of the time of plain encoding that goes on being spent on learning."""
SAMPLE_CHARACTERS = 400
"""Looked up of a group while nothing may be spent."""
KNOWN_SHARE = 0.85
"""Words known in the sample from which looking up saves time at once."""
WORD_COST = 3.0
"""A lookup, in characters of plain encoding; this and the next two were measured."""
NEW_WORD_COST = 12.0
NEW_CHARACTER_COST = 2.0


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
    crossing = [piece.piece for piece in normal if BLANK_SIGN in piece.piece[1:]]
    if crossing:
        return f"piece {crossing[0]!r} reaches over a blank"
    if all(piece.piece != BLANK_SIGN for piece in normal):
        return f"{BLANK_SIGN!r} is no piece, so unknown words would run together"
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
        if BLANK_SIGN in value:
            return f"its normaliser makes {key!r} to {value!r}"
        if len(value) > 18:
            return f"its normaliser makes {key!r} to {len(value)} characters"
    return None


class Cutting(NamedTuple):
    """What is known of a model that cuts text at blanks, so that words can be encoded together."""

    characters: int
    """Text of so many characters has exact sums, whatever it is made of."""
    word_starts: npt.NDArray[np.bool_]
    """Whether the piece of an id begins with the blank, shape (rows,)."""
    apart: re.Pattern[str]
    """Characters that may become blanks: words that hold one are encoded alone.

    Lone surrogates too: they count as U+FFFD, of which some normalisers make a blank."""


def cutting_of(model: ModelProto, shift: int) -> Cutting:
    """How the ids of a text are cut at its blanks.

    Args:
        model: one whose `why_not_by_word` is None.
        shift: what is added to the model's own ids by the function that encodes.
    """
    pieces = model.pieces
    word_starts = np.zeros(len(pieces) + shift, dtype=np.bool_)
    word_starts[shift:] = [piece.piece.startswith(BLANK_SIGN) for piece in pieces]
    cost = max(abs(piece.score) for piece in pieces) + UNKNOWN_PENALTY
    rules = rules_of(model.normalizer_spec)
    longest = max(map(len, rules.values()), default=1)
    spreading = {key[0] for key, value in rules.items() if " " in value}
    return Cutting(
        int(EXACT_SUM / cost / max(longest, 1)) - 1,
        word_starts,
        re.compile(f"[{re.escape(''.join(sorted(spreading | {BLANK_SIGN})))}\ud800-\udfff]"),
    )


class WordCache:
    """Encodes texts by their words; the memory changes the speed and never the ids.

    Where most words are new, plain encoding is the faster way: there a lookup costs time and saves
    none. So a balance is kept, in characters that plain encoding would have done in that time:
    lookups and new words are paid from it, the text that they encode is paid into it. When it is
    used up, groups of texts whose words are not known are encoded plainly, and a share of what is
    encoded so is paid in, that new words can be learnt again. What is lost against plain encoding
    is bounded by that share and by the balance at the start. It counts and never looks at a clock.

    Args:
        encode_lines: plain encoding: bytes of uint32 ids, one a line; of a model whose
            `why_not_by_word` is None.
        max_words: words kept; when there are more, the memory begins anew.
        cutting: how ids of several words are cut; without it each new word is encoded alone, and
            never whole lines.
    """

    def __init__(
        self,
        encode_lines: Callable[[Sequence[str]], list[bytes]],
        max_words: int = MAX_CACHED_WORDS,
        cutting: Cutting | None = None,
    ) -> None:
        self._encode_lines = encode_lines
        self._max_words = max_words
        self._cutting = cutting
        self._words: dict[str, bytes] = {"": b""}
        self._balance = START_BALANCE

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """Bytes of uint32 ids, one a text. A text's lines are encoded one by one and joined."""
        if self._cutting is None:
            return self._encode_by_word(texts)
        encoded: list[bytes] = []
        for group in _groups(texts):
            if self._balance > 0 or self._mostly_known(group):
                encoded += self._encode_by_word(group)
            else:
                encoded += self._encode_by_chunk(group, self._cutting.characters)
                self._balance += LEARNING_SHARE * sum(map(len, group))
        return encoded

    def _mostly_known(self, texts: Sequence[str]) -> bool:
        """Whether words in the middle of the texts are in the memory."""
        text = texts[len(texts) // 2]
        start = len(text) // 2
        words = text[start : start + SAMPLE_CHARACTERS].replace("\n", " ").split(" ")[1:-1]
        known = sum(word in self._words for word in words)
        return known > KNOWN_SHARE * len(words)

    def _encode_by_chunk(self, texts: Sequence[str], limit: int) -> list[bytes]:
        """Plain encoding of long chunks, each short enough that no sum is rounded."""
        chunks = [_chunks(text, limit) for text in texts]
        encoded = iter(self._encode_lines(list(chain.from_iterable(chunks))))
        return [b"".join(islice(encoded, len(of_text))) for of_text in chunks]

    def _encode_by_word(self, texts: Sequence[str]) -> list[bytes]:
        if len(self._words) > self._max_words + 1:  # and the empty word
            self._words = {"": b""}
        get = self._words.get
        encoded = [b""] * len(texts)
        open_texts: list[tuple[int, list[str]]] = []
        missing: dict[str, None] = {}  # in the order of the text, which is kind to the trie
        looked_up = 0
        for index, text in enumerate(texts):
            words = text.replace("\n", " ").split(" ")
            looked_up += len(words)
            found = list(map(get, words))
            if None in found:
                open_texts.append((index, words))
                new = (word for word, ids in zip(words, found, strict=True) if ids is None)
                missing.update(dict.fromkeys(new))
            else:
                encoded[index] = b"".join(found)  # type: ignore[arg-type]
        cost = WORD_COST * looked_up
        if missing:
            cost += NEW_WORD_COST * len(missing) + NEW_CHARACTER_COST * sum(map(len, missing))
            passing = self._learn(missing)
            for index, words in open_texts:
                found = list(map(get, words))
                if None in found:  # a word whose pieces depend on its neighbours
                    encoded[index] = b"".join(self._encode_lines(texts[index].split("\n")))
                else:
                    encoded[index] = b"".join(found)  # type: ignore[arg-type]
            for word in passing:
                del self._words[word]
        self._balance = min(self._balance + sum(map(len, texts)) - cost, MAX_BALANCE)
        return encoded

    def _learn(self, missing: Iterable[str]) -> list[str]:
        """Take words into the memory; returns those that shall not stay there."""
        # The blank's own sign in the text: whether it is dropped depends on what follows.
        words = [word for word in missing if BLANK_SIGN not in word]
        if self._cutting is not None:
            words = self._learn_together(words, self._cutting)
        self._words.update(zip(words, self._encode_lines(words), strict=True))
        return [
            word for word in missing if len(word) > MAX_CACHED_CHARACTERS and BLANK_SIGN not in word
        ]

    def _learn_together(self, words: list[str], cutting: Cutting) -> list[str]:
        """Encode many words in one call each; returns those that are to be encoded alone."""
        alone = [word for word in words if len(word) > MAX_CACHED_CHARACTERS]
        short = [word for word in words if len(word) <= MAX_CACHED_CHARACTERS]
        if cutting.apart.search(" ".join(short)):
            alone += [word for word in short if cutting.apart.search(word)]
            short = [word for word in short if not cutting.apart.search(word)]
        if not short:
            return alone
        # A word belongs to the chunk in which it ends, so a chunk is longer by less than a word.
        ends = np.cumsum(np.fromiter(map(len, short), np.int64, count=len(short)) + 1)
        chunk = ends // max(cutting.characters - MAX_CACHED_CHARACTERS - 1, 1)
        bounds = [0, *(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(short)]
        encoded = self._encode_lines([" ".join(short[a:b]) for a, b in pairwise(bounds)])
        for (first, last), data in zip(pairwise(bounds), encoded, strict=True):
            starts = np.flatnonzero(cutting.word_starts[np.frombuffer(data, np.uint32)])
            # A word that becomes nothing has no such piece, and no word has two.
            if len(starts) != last - first:
                alone += short[first:last]
                continue
            cuts = [*(4 * starts).tolist(), len(data)]
            self._words.update(
                zip(short[first:last], (data[a:b] for a, b in pairwise(cuts)), strict=True)
            )
        return alone


def _groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Texts in their order, in groups of some GROUP_CHARACTERS."""
    first = size = 0
    for index, text in enumerate(texts):
        size += len(text)
        if size >= GROUP_CHARACTERS:
            yield texts[first : index + 1]
            first, size = index + 1, 0
    if first < len(texts):
        yield texts[first:]


def _chunks(text: str, limit: int) -> list[str]:
    """A text cut at blanks into chunks of at most `limit` characters, or one longer word.

    Texts with the blank's own sign are only cut into their lines, see `_learn`.
    """
    if BLANK_SIGN in text:
        return text.split("\n")
    text = text.replace("\n", " ")
    found: list[str] = []
    start = 0
    while len(text) - start > limit:
        cut = text.rfind(" ", start, start + limit + 1)
        if cut < 0 and (cut := text.find(" ", start + limit)) < 0:
            break
        found.append(text[start:cut])
        start = cut + 1
    found.append(text[start:])
    return found
