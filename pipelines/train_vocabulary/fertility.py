"""Encode lines with one vocabulary or two, and count what they become, by language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipelines.core.vocabulary import UNK_ID
from pipelines.train_vocabulary.piece_kinds import body_of, word_mark

BATCH_LINES = 4096


class Encoder(Protocol):
    """What a report asks of a vocabulary (`Vocabulary`, `WordPieceVocabulary`)."""

    @property
    def rows(self) -> int:
        """Rows of the embedding table."""

    @property
    def piece_count(self) -> int:
        """Pieces, control pieces of the model included."""

    @property
    def mask_id(self) -> int:
        """The last id."""

    def encode_ragged(
        self, texts: Sequence[str]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Ids of all texts, shape (tokens,), and where each begins and ends, shape (texts + 1,)."""

    def token(self, token_id: int) -> str:
        """The written form of an id."""

    def normalize(self, text: str) -> str:
        """The text as the vocabulary's normalisation writes it."""


@dataclass
class Encoded:
    """What a vocabulary made of some lines."""

    tokens: int = 0
    unknown: int = 0
    """Tokens that are <unk>."""
    unknown_characters: int = 0
    """Characters, after normalisation and without blanks, that are lost in those tokens."""

    def add(self, other: Encoded) -> None:
        """Add the counts of further lines."""
        self.tokens += other.tokens
        self.unknown += other.unknown
        self.unknown_characters += other.unknown_characters


@dataclass
class Sizes:
    """The held-out text of one language, and what each vocabulary made of it."""

    lines: int = 0
    words: int = 0
    characters: int = 0
    encoded: Encoded = field(default_factory=Encoded)
    compared: Encoded = field(default_factory=Encoded)


class Counting:
    """Encodes lines with one vocabulary and counts, also how often each id was used."""

    def __init__(self, vocabulary: Encoder) -> None:
        self.vocabulary = vocabulary
        self.uses: npt.NDArray[np.int64] = np.zeros(vocabulary.rows, dtype=np.int64)
        mark = word_mark(vocabulary)
        bodies = (body_of(vocabulary.token(i), mark) for i in range(vocabulary.rows))
        self._lengths = np.fromiter(map(len, bodies), np.int64, vocabulary.rows)

    def encode(self, lines: Sequence[str]) -> list[Encoded]:
        """Counts of each line."""
        ids, offsets = self.vocabulary.encode_ragged(lines)
        self.uses += np.bincount(ids, minlength=len(self.uses))
        tokens = np.diff(offsets).tolist()
        before = np.concatenate([[0], np.cumsum(ids == UNK_ID)])
        unknown = (before[offsets[1:]] - before[offsets[:-1]]).tolist()
        return [
            Encoded(tokens[i], unknown[i], self._lost(lines[i], ids[offsets[i] : offsets[i + 1]]))
            if unknown[i]
            else Encoded(tokens[i])
            for i in range(len(lines))
        ]

    def _lost(self, line: str, ids: npt.NDArray[np.uint32]) -> int:
        normal = sum(map(len, self.vocabulary.normalize(line).split()))
        return normal - int(self._lengths[ids[ids != UNK_ID]].sum())


def measure(
    held_out: Iterable[tuple[str, str]], ours: Counting, theirs: Counting | None
) -> dict[str, Sizes]:
    """Sizes of (language, line) pairs by language, read once, in batches."""
    languages: dict[str, Sizes] = {}
    lines = iter(held_out)
    while batch := list(islice(lines, BATCH_LINES)):
        texts = [line for _, line in batch]
        other = theirs.encode(texts) if theirs is not None else [Encoded()] * len(texts)
        for (tag, line), mine, compared in zip(batch, ours.encode(texts), other, strict=True):
            sizes = languages.setdefault(tag, Sizes())
            sizes.lines += 1
            sizes.words += len(line.split())
            sizes.characters += len(line)
            sizes.encoded.add(mine)
            sizes.compared.add(compared)
    return languages
