"""The trained vocabulary: text to ids in XLM-R's layout, and back.

`<s>` 0, `<pad>` 1, `</s>` 2, `<unk>` 3, pieces from 4, `<mask>` last. SentencePiece numbers
`<unk>` 0, `<s>` 1, `</s>` 2 and its pieces from 3, so piece k >= 3 becomes k + 1: 250,000 pieces
(three of them control) give 250,002 rows. Source: fairseq's dictionary.py and XLM-R's README.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import sentencepiece as spm
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pipelines.core.mask_rules import Ids
from pipelines.core.store import Store
from pipelines.core.word_cache import MAX_CACHED_WORDS, WordCache, cutting_of, why_not_by_word
from pipelines.core.words import BLANK_SIGN, piece_word_starts

if TYPE_CHECKING:
    from pipelines.core.wordpiece import WordPieceVocabulary

BOS_ID, PAD_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
FIRST_PIECE_ID = 4
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
MASK_TOKEN = "<mask>"
VOCABULARY_PARTS = ("spm.model", "tokenizer.json")
"""Files that a vocabulary is read from: the first of these that there is."""
ARRAY_CHARACTERS = 100
"""From this length of a line, an array of its ids is faster than a list."""
SURROGATE = re.compile("[\ud800-\udfff]")


def special_ids(rows: int) -> frozenset[int]:
    """Ids that stand for no text; <unk> among them, for nothing can be learnt from it."""
    return frozenset({BOS_ID, PAD_ID, EOS_ID, UNK_ID, rows - 1})


class IdLayout(ABC):
    """What vocabularies of every kind share: the places of the special ids, and plain encoding."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows of the embedding table: ids 0 ... mask_id."""

    @abstractmethod
    def encode_ragged(self, texts: Sequence[str]) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Encode texts to ordinary ids.

        Returns:
            ids of all texts, shape (tokens,), and where each begins and ends, shape (texts + 1,).
        """

    @property
    def mask_id(self) -> int:
        """The id of <mask>, the last one."""
        return self.rows - 1

    @property
    def special_ids(self) -> frozenset[int]:
        """See the function of this name."""
        return special_ids(self.rows)

    def encode(self, text: str) -> Ids:
        """Encode one text to ordinary ids, shape (tokens,), without special ids at its ends."""
        return self.encode_ragged([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Encode several texts; see `encode`."""
        ids, offsets = self.encode_ragged(texts)
        return np.split(ids, offsets[1:-1]) if len(texts) else []


class Vocabulary(IdLayout):
    """A SentencePiece model seen through XLM-R ids.

    Args:
        model: the bytes of spm.model.
        max_cached_words: words whose ids are kept between calls (see word_cache.py); 0 for none.

    Raises:
        ValueError: the model's own special ids are not unk 0, bos 1, eos 2, without pad.
    """

    def __init__(self, model: bytes, max_cached_words: int = MAX_CACHED_WORDS) -> None:
        self.model = model
        self._processor = spm.SentencePieceProcessor(model_proto=model)
        own = (
            self._processor.unk_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
            self._processor.pad_id(),
        )
        if own != (0, 1, 2, -1):
            raise ValueError(f"SentencePiece ids unk, bos, eos, pad are {own}; need (0, 1, 2, -1)")
        proto = ModelProto.FromString(model)
        self.byte_fallback = bool(proto.trainer_spec.byte_fallback)
        """Whether characters without a piece are written as bytes."""
        self.not_by_word = why_not_by_word(proto)
        """Why whole lines are encoded, which is slower; None where words are."""
        self._words: WordCache | None = None
        if max_cached_words and self.not_by_word is None:
            self._words = WordCache(self._encode_lines, max_cached_words, cutting_of(proto, 1))

    @property
    def piece_count(self) -> int:
        """Pieces of the SentencePiece model, its three control pieces included."""
        return int(self._processor.get_piece_size())

    @property
    def rows(self) -> int:
        """Rows of the embedding table: ids 0 ... mask_id."""
        return self.piece_count + 2

    @cached_property
    def word_starts(self) -> npt.NDArray[np.bool_]:
        """Whether a piece begins a word, shape (rows,); see `piece_word_starts`."""
        return piece_word_starts([self.token(i) for i in range(self.rows)], "unigram")

    def encode_ragged(self, texts: Sequence[str]) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Encode texts to ordinary ids, without <s> and </s>.

        A text's lines are encoded one by one and joined. Nothing in a text becomes a special id
        but <unk>: a literal `</s>` is cut into pieces like any other text. A lone surrogate counts
        as U+FFFD. Ids are those of plain SentencePiece (see word_cache.py for the proof).

        Returns:
            ids of all texts, shape (tokens,), and where each begins and ends, shape (texts + 1,).
        """
        if self._words is not None:
            encoded = self._words.encode(texts)
        else:
            lines = [text.split("\n") for text in texts]
            every = iter(self._encode_lines([line for of_text in lines for line in of_text]))
            encoded = [b"".join(islice(every, len(of_text))) for of_text in lines]
        return join_encoded(encoded)

    def _encode_lines(self, lines: Sequence[str]) -> list[bytes]:
        """Plain SentencePiece: bytes of uint32 ids in XLM-R's layout, one a line."""
        if not lines:
            return []
        # An array for each of many short words takes longer than a list.
        arrays = sum(map(len, lines)) > ARRAY_CHARACTERS * len(lines)
        out_type: Any = "numpy" if arrays else int
        encoded = self._processor.encode(encodable(lines), out_type=out_type, num_threads=1)
        ends = [4 * end for end in accumulate(map(len, encoded))]
        if arrays:
            ids = np.concatenate(encoded).view(np.uint32)
        else:
            ids = np.fromiter(chain.from_iterable(encoded), np.uint32, count=ends[-1] // 4)
        data = to_xlmr(ids).tobytes()
        return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        """Turn ordinary ids back into text; special ids are left out, <unk> becomes U+2047."""
        own = [
            0 if i == UNK_ID else i - 1
            for i in ids
            if i == UNK_ID or FIRST_PIECE_ID <= i < self.mask_id
        ]
        return str(self._processor.decode([int(i) for i in own]))

    def normalize(self, text: str) -> str:
        """The text as the model's own normalisation rules write it, before it is cut to pieces."""
        normal = str(self._processor.normalize(without_surrogates(text)))
        return normal.removeprefix(BLANK_SIGN).replace(BLANK_SIGN, " ")

    def token(self, token_id: int) -> str:
        """The written form of an id.

        Raises:
            IndexError: there is no such id.
        """
        if not 0 <= token_id < self.rows:
            raise IndexError(f"id {token_id} is outside 0 ... {self.rows - 1}")
        if token_id < FIRST_PIECE_ID:
            return SPECIAL_TOKENS[token_id]
        if token_id == self.mask_id:
            return MASK_TOKEN
        return str(self._processor.id_to_piece(token_id - 1))

    def score(self, token_id: int) -> float:
        """Unigram log-probability of a piece (natural logarithm); 0 for special tokens."""
        if FIRST_PIECE_ID <= token_id < self.mask_id:
            return float(self._processor.get_score(token_id - 1))
        return 0.0


def vocabulary_part(parts: Collection[str]) -> str | None:
    """Which of some files' parts is the vocabulary; None where none is."""
    return next((part for part in VOCABULARY_PARTS if part in parts), None)


def open_vocabulary(
    store: Store, outputs_by_part: Mapping[str, str], sha256: str | None
) -> Vocabulary | WordPieceVocabulary:
    """The vocabulary that the vocabulary stage wrote.

    Args:
        outputs_by_part: keys in the store by part: `spm.model`, or only `tokenizer.json` where the
            vocabulary is WordPiece's.
        sha256: of that file, as its stage wrote it; None takes the file as it is.

    Raises:
        DamagedObject: the file's bytes are not those that were written.
        ValueError: neither part is there; those that are are named.
    """
    from pipelines.core.wordpiece import WordPieceVocabulary  # it needs this module's ids

    part = vocabulary_part(outputs_by_part)
    if part is None:
        raise ValueError(
            f"a vocabulary has a part {' or '.join(VOCABULARY_PARTS)}; "
            f"here are {sorted(outputs_by_part)}"
        )
    kind = Vocabulary if part == "spm.model" else WordPieceVocabulary
    return kind(store.read_bytes(outputs_by_part[part], sha256))


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, for which UTF-8 has no form."""
    return SURROGATE.sub("\ufffd", text)


def encodable(texts: Sequence[str]) -> list[str]:
    """The texts with U+FFFD for each lone surrogate."""
    try:
        "".join(texts).encode("utf-8")  # several times as fast as looking for them
    except UnicodeEncodeError:
        return [without_surrogates(text) for text in texts]
    return list(texts)


def join_encoded(encoded: Sequence[bytes]) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Ids of several texts, one after the other.

    Args:
        encoded: uint32 ids in bytes, one a text.

    Returns:
        ids of all, shape (tokens,), and where each begins and ends, shape (texts + 1,).
    """
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, count=len(encoded)) // 4, out=offsets[1:])
    return np.frombuffer(bytearray().join(encoded), dtype=np.uint32), offsets


def to_xlmr(ids: Ids) -> Ids:
    """SentencePiece ids to XLM-R ids, shape (tokens,): k >= 3 -> k + 1, unknown 0 -> 3."""
    shifted = ids + np.uint32(1)
    shifted[ids == 0] = UNK_ID
    return shifted


def id_dtype(rows: int) -> type[np.uint16] | type[np.uint32]:
    """The narrowest storage type that holds all ids of a table of `rows` rows."""
    return np.uint16 if rows <= 2**16 else np.uint32


def check_ids(ids: npt.NDArray[np.uint32], rows: int, where: str) -> None:
    """Refuse ids outside the vocabulary.

    Raises:
        ValueError: an id is not below `rows`; the file and the id are named.
    """
    if len(ids) and int(ids.max()) >= rows:
        raise ValueError(f"{where}: id {int(ids.max())} is not below the vocabulary's {rows} rows")
