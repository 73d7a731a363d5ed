"""How a vocabulary spells pieces that are written already: normalised, with their own marks.

Text goes through `encode`, which cleans it and puts a blank before its first word. A piece of
another vocabulary, or a counted word, must not be changed again: `▁ab` begins a word and `ab` goes
on with one (`ab` and `##ab` in WordPiece).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import sentencepiece as spm
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pipelines.core.mask_rules import Ids
from pipelines.core.vocabulary import UNK_ID, Vocabulary, to_xlmr
from pipelines.core.wordpiece import CONTINUING, WordPieceVocabulary

Lengths = npt.NDArray[np.int64]
Speller = Callable[[Sequence[str]], tuple[Ids, Lengths]]


def speller(vocabulary: Vocabulary | WordPieceVocabulary) -> Speller:
    """What cuts written pieces into ids of the vocabulary.

    Returns:
        A function of n pieces that gives the ids of all of them, shape (tokens,), and how many each
        has, shape (n,). What cannot be written is <unk>.
    """
    if isinstance(vocabulary, Vocabulary):
        return _unigram_speller(vocabulary.model)
    return _wordpiece_speller(vocabulary)


def _unigram_speller(model: bytes) -> Speller:
    proto = ModelProto.FromString(model)
    rules = proto.normalizer_spec
    rules.name, rules.precompiled_charsmap = "identity", b""
    rules.add_dummy_prefix = rules.remove_extra_whitespaces = False
    processor = spm.SentencePieceProcessor(model_proto=proto.SerializeToString())

    def spell(pieces: Sequence[str]) -> tuple[Ids, Lengths]:
        encoded = processor.encode(list(pieces), out_type=int, num_threads=1)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        own = np.fromiter(chain.from_iterable(encoded), np.uint32, int(lengths.sum()))
        return to_xlmr(own), lengths

    return spell


def _wordpiece_speller(vocabulary: WordPieceVocabulary) -> Speller:
    """The longest piece that fits, again and again (BERT's tokenization.py)."""
    ids = {vocabulary.token(i): i for i in range(vocabulary.rows)}

    def cut(piece: str) -> list[int]:
        mark = CONTINUING if piece.startswith(CONTINUING) and piece != CONTINUING else ""
        text, start, found = piece.removeprefix(mark), 0, []
        while start < len(text):
            for end in range(len(text), start, -1):
                number = ids.get(mark + text[start:end])
                if number is not None:
                    break
            else:
                return [UNK_ID]
            found.append(number)
            start, mark = end, CONTINUING
        return found

    def spell(pieces: Sequence[str]) -> tuple[Ids, Lengths]:
        encoded = [cut(piece) for piece in pieces]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.fromiter(chain.from_iterable(encoded), np.uint32), lengths

    return spell
