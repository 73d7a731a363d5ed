"""How often each id stands in the text that a vocabulary was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2

from pipelines.core.vocabulary import Vocabulary, to_xlmr
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
    encode = _unigram_encoder(vocabulary) if isinstance(vocabulary, Vocabulary) else None
    for start in range(0, len(words), BATCH):
        part = words.slice(start, BATCH)
        texts = part["word"].to_pylist()
        if encode is not None:
            ids, lengths = encode(texts)
        else:
            ids, offsets = vocabulary.encode_ragged(texts)
            lengths = np.diff(offsets)
        np.add.at(total, ids, np.repeat(part["count"].to_numpy(), lengths))
    return total


def _unigram_encoder(
    vocabulary: Vocabulary,
) -> Callable[[list[str]], tuple[npt.NDArray[np.uint32], Ints]]:
    """Encodes words that are normalised already and carry their own mark: ids, and lengths."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.model)
    rules = proto.normalizer_spec
    rules.name, rules.precompiled_charsmap = "identity", b""
    rules.add_dummy_prefix = rules.remove_extra_whitespaces = False
    processor = spm.SentencePieceProcessor(model_proto=proto.SerializeToString())

    def encode(words: list[str]) -> tuple[npt.NDArray[np.uint32], Ints]:
        encoded = processor.encode(words, out_type=int, num_threads=1)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        own = np.fromiter(chain.from_iterable(encoded), np.uint32, int(lengths.sum()))
        return to_xlmr(own), lengths

    return encode


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
