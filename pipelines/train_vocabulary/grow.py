"""A Unigram vocabulary with more pieces: those that it lacks for this run's text.

Candidates are what the trainer makes of the words that the old vocabulary cuts into two pieces or
more; those are kept that save the most tokens. Old pieces keep their ids and scores, so text in
which no new piece wins is cut as before; new ones follow behind them.

Scores of new pieces. A score is the logarithm of a piece's share of all pieces of a text, and old
and new shares were counted in different texts. A language with a hundredth of the old text has
pieces with a hundredth of the share that they have where the run's text is that language alone:
new pieces with their plain shares would win against better old ones. So all new scores are moved
by one number c, the mean difference, over the old pieces of the run's text as they stand there,
between their old scores and the logarithms of their shares in it:

    score(x) = ln(n(x) / n) + c        c = sum_old n(y) (score(y) - ln(n(y) / n)) / sum_old n(y)

n(x) is how often x stands in the run's text as the grown vocabulary cuts it, found by cutting it a
few times. With c the old pieces are as likely, on average, in the old score as in the new count:
the two are on one scale. That probabilities of two unigram models may be put side by side once
they are weighed is said by SentencePiece's author (its issue 822); with c the weight is estimated
instead of given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.spelling import speller
from pipelines.core.vocabulary import FIRST_PIECE_ID, UNK_ID, Vocabulary
from pipelines.train_vocabulary.quantise import STEP
from pipelines.train_vocabulary.unigram_trainer import CONTROL_PIECES, TooLarge, train_on_words
from pipelines.train_vocabulary.usage import count_ids_of_words

ROUNDS = 3
"""Times that the text is cut and scores are counted anew, before and after the choice."""
CANDIDATES_PER_PIECE = 2
LEAST_SIZE = 100
BATCH = 1 << 16

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grown:
    """A vocabulary with new pieces."""

    vocabulary: Vocabulary
    candidates: int
    """Pieces that were looked at."""
    exchange: float
    """c, see above."""


def grow(
    old: Vocabulary, words: pa.Table, section: VocabularySection, required: str, count: int
) -> Grown:
    """Add pieces to a Unigram vocabulary.

    Args:
        words: columns `word`, `count`: this run's text, weighed (see word_counts.py).
        section: how candidates are trained.
        required: characters that the text needs; those that the old vocabulary lacks are added
            first.
        count: pieces to add.

    Raises:
        ConfigError: the text does not give so many, or they are fewer than the characters.
    """
    have = {old.token(i) for i in range(old.rows)}
    lacking = "".join(sorted(set(required) - have))
    if count < len(lacking):
        raise ConfigError(
            f"vocabulary.add_pieces = {count}: the text has {len(lacking)} characters that the "
            f"vocabulary of start_from lacks (character_coverage = {section.character_coverage}), "
            f"and each needs a piece; set add_pieces well above {len(lacking)}"
        )
    candidates = find_candidates(old, words, section, lacking, count)
    for _ in range(ROUNDS):
        candidates, _ = rescored(old, candidates, words)
    chosen = choose(old, candidates, words, lacking, count)
    scores, exchange = {piece: candidates[piece] for piece in chosen}, 0.0
    for _ in range(ROUNDS):
        scores, exchange = rescored(old, scores, words)
    return Grown(Vocabulary(with_pieces(old.model, scores)), len(candidates), exchange)


def find_candidates(
    old: Vocabulary, words: pa.Table, section: VocabularySection, lacking: str, count: int
) -> dict[str, float]:
    """Pieces that the old vocabulary lacks, with the scores of their own training, best first.

    Raises:
        ConfigError: there are fewer than `count`.
    """
    hard = words.filter(pa.array(cut_by(old, words)))
    have = {old.token(i) for i in range(old.rows)}
    size = max(CANDIDATES_PER_PIECE * count + len(lacking) + CONTROL_PIECES, LEAST_SIZE)
    most = None
    while True:
        try:
            given = section.model_copy(update={"size": size, "byte_fallback": False})
            model = train_on_words(hard, given, lacking)
        except TooLarge as error:
            if most is not None:
                raise
            size = most = error.largest
            continue
        proto = ModelProto.FromString(model)
        found = {
            piece.piece: float(piece.score)
            for piece in proto.pieces
            if piece.type == piece.NORMAL and piece.piece not in have
        }
        if len(found) >= min(CANDIDATES_PER_PIECE * count, count + len(lacking)):
            return found
        if most is not None:
            break
        size *= 2
    if len(found) >= count:
        return found
    raise ConfigError(
        f"vocabulary.add_pieces = {count}: this run's text gives only {len(found)} pieces that the "
        "vocabulary of start_from lacks; set add_pieces to that or less, or leave it out"
    )


def cut_by(old: Vocabulary, words: pa.Table) -> npt.NDArray[np.bool_]:
    """Which words the vocabulary cuts into two pieces or more, or cannot write, shape (words,)."""
    spell, parts = speller(old), [np.zeros(0, dtype=np.bool_)]
    for start in range(0, len(words), BATCH):
        ids, lengths = spell(words["word"].slice(start, BATCH).to_pylist())
        owners = np.repeat(np.arange(len(lengths)), lengths)
        unknown = np.bincount(owners[ids == UNK_ID], minlength=len(lengths)) > 0
        parts.append((lengths > 1) | unknown)
    return np.concatenate(parts)


def rescored(
    old: Vocabulary, pieces: Mapping[str, float], words: pa.Table
) -> tuple[dict[str, float], float]:
    """Count new pieces in the text as it is cut with their present scores.

    Returns:
        Their new scores in the same order (a piece that never wins keeps its own), and c.
    """
    both = Vocabulary(with_pieces(old.model, pieces), max_cached_words=0)
    counts = count_ids_of_words(both, words)
    first_new = old.rows - 1
    exchange = exchange_of(old, counts[:first_new], int(counts.sum()))
    new = counts[first_new : first_new + len(pieces)]
    total = max(int(counts.sum()), 1)
    scores = {
        piece: _rounded(np.log(n / total) + exchange) if n else score
        for (piece, score), n in zip(pieces.items(), new.tolist(), strict=True)
    }
    return scores, exchange


def exchange_of(old: Vocabulary, counts: Ints, total: int) -> float:
    """c of this module's docstring; 0 where no old piece stands in the text.

    Args:
        counts: how often each id of the old vocabulary (<mask> left out) stands in the text.
        total: all pieces of the text.
    """
    used = np.flatnonzero(counts)
    used = used[used >= FIRST_PIECE_ID]
    if not len(used):
        return 0.0
    scores = np.array([old.score(int(i)) for i in used])
    n = counts[used].astype(np.float64)
    return float(np.average(scores - np.log(n / total), weights=n))


def choose(
    old: Vocabulary, pieces: Mapping[str, float], words: pa.Table, lacking: str, count: int
) -> list[str]:
    """The pieces that save the most tokens, and the characters that they are made of.

    What a piece saves is how often it stands in the text times the pieces that the old vocabulary
    needs for it, less one; characters that it cannot write count one each. Of equal ones the more
    likely is taken, then the first by code points.
    """
    both = Vocabulary(with_pieces(old.model, pieces), max_cached_words=0)
    counts = count_ids_of_words(both, words)[old.rows - 1 :]
    names = list(pieces)
    costs = spelling_costs(old, names)
    saved = {n: int(counts[i]) * (costs[i] - 1) for i, n in enumerate(names)}
    order = sorted(names, key=lambda n: (-saved[n], -pieces[n], n))
    have = {old.token(i) for i in range(old.rows)}
    chosen = dict.fromkeys(character for character in lacking if character in pieces)
    for piece in order:
        new = [c for c in dict.fromkeys(piece) if c not in have and c not in chosen]
        if piece not in chosen and len(chosen) + len({*new, piece}) <= count:
            chosen.update(dict.fromkeys([*new, piece]))
    return sorted(chosen, key=lambda n: (-pieces[n], n))


def spelling_costs(old: Vocabulary, pieces: list[str]) -> list[int]:
    """Tokens that the old vocabulary needs for each piece; unknown characters count one each."""
    ids, lengths = speller(old)(pieces)
    ends = np.cumsum(lengths)
    costs = []
    for piece, end, length in zip(pieces, ends.tolist(), lengths.tolist(), strict=True):
        own = ids[end - length : end]
        known = sum(len(old.token(int(i))) for i in own if i != UNK_ID)
        unknown = len(piece) - known if (own == UNK_ID).any() else 0
        # An unknown character is lost: writing it is worth more than a token saved.
        costs.append(int((own != UNK_ID).sum()) + 2 * unknown)
    return costs


def with_pieces(model: bytes, pieces: Mapping[str, float]) -> bytes:
    """A SentencePiece model with further ordinary pieces behind its own."""
    proto = ModelProto.FromString(model)
    for piece, score in pieces.items():
        proto.pieces.add(piece=piece, score=score, type=proto.SentencePiece.NORMAL)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return bytes(proto.SerializeToString(deterministic=True))


def _rounded(score: float) -> float:
    """A multiple of STEP, as scores of our own vocabularies are (quantise.py)."""
    return float(np.round(score / STEP) * STEP)
