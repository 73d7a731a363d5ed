"""Train a WordPiece vocabulary (BERT's kind) on counted words.

Source: Schuster and Nakajima 2012; the trainer is Hugging Face's, which joins the most frequent
pair first (as BPE does) rather than the one that raises the likelihood most.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.hashing import finalise64
from pipelines.core.vocabulary import FIRST_PIECE_ID
from pipelines.core.wordpiece import (
    CONTINUING,
    WORDPIECE_MASK_TOKEN,
    WORDPIECE_SPECIAL_TOKENS,
    WordPieceVocabulary,
    wordpiece_tokenizer,
)
from pipelines.train_vocabulary.word_tables import word_hashes

SPECIAL_PIECES = len(WORDPIECE_SPECIAL_TOKENS) + 1
MOST_OCCURRENCES = 50_000_000
"""The trainer takes text, not counts, so a word is given to it as often as it counts. Larger
counts are scaled down to so many words in all, their fractions drawn by the word's hash."""
WORDS_IN_A_TEXT = 10_000


def train_wordpiece(words: pa.Table, section: VocabularySection, alphabet: str) -> dict[str, int]:
    """Train on counted words.

    Equal tables give equal vocabularies, whatever the number of threads.

    Args:
        words: columns `word` and `count`, cut as BERT's tokenizer cuts (bert_words.py).
        alphabet: the characters that pieces are made of; others in a word are left out of it.

    Returns:
        Ordinary pieces and their ids, from 0, without special tokens: so many that these, and a
        Unigram vocabulary of section.size pieces, need the same number of rows.

    Raises:
        ConfigError: the size is too small for the alphabet, or too large for the text.
    """
    size = section.size - SPECIAL_PIECES + 2
    letters = sorted(set(alphabet))
    # The trainer numbers continuing characters as it meets them, in the order of a hash table, and
    # breaks ties between pairs by these numbers. Named first, all of them have a fixed number.
    first = [*letters, *(CONTINUING + letter for letter in letters)]
    if len(first) >= size:
        raise ConfigError(
            f"vocabulary.size = {section.size}: the text has {len(letters)} characters at "
            f"character_coverage {section.character_coverage}, and each needs a piece that begins "
            f"a word and one that does not; set vocabulary.size well above {2 * len(letters)}"
        )
    tokenizer = Tokenizer(models.WordPiece({}, unk_token="[UNK]", continuing_subword_prefix="##"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=0,
        show_progress=False,
        special_tokens=first,
        limit_alphabet=len(letters),
        initial_alphabet=letters,
        continuing_subword_prefix=CONTINUING,
    )
    with _threads(section.num_threads):
        tokenizer.train_from_iterator(_texts(words), trainer)
    found = tokenizer.get_vocab(with_added_tokens=False)
    if len(found) < size:
        raise ConfigError(
            f"vocabulary.size = {section.size}: the text supports at most "
            f"{len(found) + section.size - size} pieces; set vocabulary.size to that or less"
        )
    return {piece: number for number, piece in enumerate(sorted(found, key=found.__getitem__))}


def wordpiece_vocabulary(pieces: Mapping[str, int], lowercase: bool) -> WordPieceVocabulary:
    """A vocabulary of ordinary pieces with ids from 0, in the project's layout of ids."""
    ids = {token: number for number, token in enumerate(WORDPIECE_SPECIAL_TOKENS)}
    ids |= {piece: FIRST_PIECE_ID + number for piece, number in pieces.items()}
    ids[WORDPIECE_MASK_TOKEN] = len(ids)
    tokenizer = wordpiece_tokenizer(ids, lowercase)
    return WordPieceVocabulary(tokenizer.to_str(pretty=False).encode("utf-8"))


def scaled(words: pa.Table, most: int = MOST_OCCURRENCES) -> npt.NDArray[np.int64]:
    """Counts that sum to about `most` at most, shape (words,): what is left of a fraction is drawn
    by the word's own hash."""
    counts: npt.NDArray[np.int64] = words["count"].to_numpy()
    total = int(counts.sum())
    if total <= most:
        return counts
    exact = counts * (most / total)
    drawn = finalise64(word_hashes(words["word"].combine_chunks())) / 2.0**64
    whole = np.floor(exact)
    return np.asarray(whole + (drawn < exact - whole), dtype=np.int64)


def _texts(words: pa.Table) -> Iterator[str]:
    """Every word as often as it counts, in texts of bounded length."""
    for word, count in zip(words["word"].to_pylist(), scaled(words).tolist(), strict=True):
        for start in range(0, count, WORDS_IN_A_TEXT):
            yield f"{word} " * min(WORDS_IN_A_TEXT, count - start)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Let the trainer have so many threads, if it has none yet in this process."""
    before = {
        name: os.environ.get(name) for name in ("RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM")
    }
    os.environ["RAYON_NUM_THREADS"] = str(number)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if number > 1 else "false"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
