"""How often each id stands in the text that a vocabulary was trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.core.spelling import speller
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary

BATCH = 1 << 16

Ints = npt.NDArray[np.int64]


def count_ids_of_words(vocabulary: Vocabulary | WordPieceVocabulary, words: pa.Table) -> Ints:
    """Counts by id over counted words, shape (rows,): each word is encoded once and weighed.

    Pieces cross no word's border, so these are the counts over the mix of text that the words were
    counted in, but for words that were cut because of their length.

    Args:
        words: columns `word`, as word_counts.py (unigram) or bert_words.py writes it, `count`.
    """
    total = np.zeros(vocabulary.rows, dtype=np.int64)
    spell = speller(vocabulary) if isinstance(vocabulary, Vocabulary) else None
    for start in range(0, len(words), BATCH):
        part = words.slice(start, BATCH)
        texts = part["word"].to_pylist()
        if spell is not None:
            ids, lengths = spell(texts)
        else:
            ids, offsets = vocabulary.encode_ragged(texts)
            lengths = np.diff(offsets)
        np.add.at(total, ids, np.repeat(part["count"].to_numpy(), lengths))
    return total


def count_ids_of_lines(
    vocabulary: Vocabulary | WordPieceVocabulary, sample: Iterable[tuple[str, str, int]]
) -> Ints:
    """Counts by id over a sample of (language, line, copies), shape (rows,)."""
    total = np.zeros(vocabulary.rows, dtype=np.int64)
    for batch in _batches(sample):
        ids, offsets = vocabulary.encode_ragged([line for _, line, _ in batch])
        times = np.array([copies for _, _, copies in batch], dtype=np.int64)
        np.add.at(total, ids, np.repeat(times, np.diff(offsets)))
    return total


def _batches(sample: Iterable[tuple[str, str, int]]) -> Iterator[list[tuple[str, str, int]]]:
    lines = iter(sample)
    while batch := list(islice(lines, BATCH)):
        yield batch
