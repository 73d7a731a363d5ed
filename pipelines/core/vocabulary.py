"""The trained vocabulary: text to ids in XLM-R's layout, and back.

`<s>` 0, `<pad>` 1, `</s>` 2, `<unk>` 3, pieces from 4, `<mask>` last. SentencePiece numbers
`<unk>` 0, `<s>` 1, `</s>` 2 and its pieces from 3, so piece k >= 3 becomes k + 1: 250,000 pieces
(three of them control) give 250,002 rows. Source: fairseq's dictionary.py and XLM-R's README.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import sentencepiece as spm

from pipelines.core.masking import Ids

BOS_ID, PAD_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
FIRST_PIECE_ID = 4
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
MASK_TOKEN = "<mask>"


class Vocabulary:
    """A SentencePiece model seen through XLM-R ids.

    Raises:
        ValueError: the model's own special ids are not unk 0, bos 1, eos 2, without pad.
    """

    def __init__(self, model: bytes) -> None:
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

    @property
    def piece_count(self) -> int:
        """Pieces of the SentencePiece model, its three control pieces included."""
        return int(self._processor.get_piece_size())

    @property
    def mask_id(self) -> int:
        """The id of <mask>, the last one."""
        return self.piece_count + 1

    @property
    def rows(self) -> int:
        """Rows of the embedding table: ids 0 ... mask_id."""
        return self.piece_count + 2

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text; <unk> among them, for nothing can be learnt from it."""
        return frozenset({BOS_ID, PAD_ID, EOS_ID, UNK_ID, self.mask_id})

    def encode(self, text: str) -> Ids:
        """Encode one text to ordinary ids, shape (tokens,), without <s> and </s>."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Encode several texts; see `encode`."""
        encoded = self._processor.encode(list(texts), out_type=int, num_threads=1)
        return [_to_xlmr(np.asarray(ids, dtype=np.uint32)) for ids in encoded]

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
        normal = str(self._processor.normalize(text))
        return normal.removeprefix("▁").replace("▁", " ")

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


def _to_xlmr(ids: Ids) -> Ids:
    """SentencePiece ids to XLM-R ids, shape (tokens,): k >= 3 -> k + 1, unknown 0 -> 3."""
    return np.where(ids == 0, np.uint32(UNK_ID), ids + np.uint32(1))


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
