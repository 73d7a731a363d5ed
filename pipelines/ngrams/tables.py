"""The n-grams of a language as sorted arrays: a trie whose nodes are rows.

An n-gram of order k is its prefix's row in the table of order k - 1 and its last word:
key = prefix row x vocabulary size + word, in 64 bits. Rows are sorted by key, and so by words.
Every prefix of a row and every row without its first word is a row of the order below, as it is
when all windows of a text are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

UNK, BOS, EOS = "<unk>", "<s>", "</s>"
UNK_ID, BOS_ID, EOS_ID = 0, 1, 2
SPECIALS = (UNK, BOS, EOS)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def lookup(keys: Ints, wanted: Ints) -> Ints:
    """Rows of `wanted` in the sorted `keys`; -1 where there is none."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    rows = np.searchsorted(keys, wanted)
    rows[rows == len(keys)] = 0
    rows[keys[rows] != wanted] = -1
    return rows.astype(np.int64, copy=False)


@dataclass
class Tables:
    """N-grams of orders 1 to n. Row i of order 1 is word i."""

    vocabulary: list[str]
    """Tokens by id; <unk>, <s>, </s> come first, the others in the order of their code points."""
    keys: list[Ints]
    """Sorted keys of order k at index k - 1."""
    ids: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = {token: number for number, token in enumerate(self.vocabulary)}

    @property
    def order(self) -> int:
        """Length of the longest n-grams."""
        return len(self.keys)

    @property
    def size(self) -> int:
        """Words of the vocabulary, with <unk>, <s> and </s>."""
        return len(self.vocabulary)

    @property
    def predicted(self) -> int:
        """Words that can come next: all but <s>."""
        return self.size - 1

    def prefix(self, order: int) -> Ints:
        """For each row of an order of 2 or more, the row of its first order - 1 words."""
        return self.keys[order - 1] // self.size

    def last(self, order: int) -> Ints:
        """For each row of an order, its last word."""
        return self.keys[order - 1] % self.size if order > 1 else self.keys[0]

    @cached_property
    def suffixes(self) -> list[Ints]:
        """For each row of order k + 2, at index k: the row of its last k + 1 words.

        Raises:
            ValueError: the tables are not those of a text: a last part is missing.
        """
        found: list[Ints] = []
        for order in range(2, self.order + 1):
            words = self.last(order)
            if order == 2:
                found.append(words)
                continue
            shorter = found[-1][self.prefix(order)]
            rows = lookup(self.keys[order - 2], shorter * self.size + words)
            if rows.size and rows.min() < 0:
                raise ValueError(
                    f"an n-gram of order {order} ends in words that are no n-gram of order "
                    f"{order - 1}; counts must hold all windows of the text"
                )
            found.append(rows)
        return found

    def suffix(self, order: int) -> Ints:
        """For each row of an order of 2 or more, the row of its last order - 1 words."""
        return self.suffixes[order - 2]

    def begins_with_bos(self, order: int) -> npt.NDArray[np.bool_]:
        """For each row of an order, whether its first word is <s>."""
        rows = np.arange(len(self.keys[order - 1]))
        for lower in range(order, 1, -1):
            rows = self.prefix(lower)[rows]
        first: npt.NDArray[np.bool_] = rows == BOS_ID
        return first

    def words(self, order: int) -> npt.NDArray[np.int32]:
        """All rows of an order as ids, shape (rows, order)."""
        columns, rows = [], np.arange(len(self.keys[order - 1]))
        for lower in range(order, 0, -1):
            columns.append(self.last(lower)[rows])
            rows = self.prefix(lower)[rows] if lower > 1 else rows
        return np.stack(columns[::-1], axis=1).astype(np.int32)

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Ids of tokens; what is not in the vocabulary, and <s> or </s> in a text, is <unk>."""
        found = (self.ids.get(token, UNK_ID) for token in tokens)
        return [UNK_ID if number in (BOS_ID, EOS_ID) else number for number in found]


def vocabulary_from(tokens: Sequence[str]) -> list[str]:
    """The vocabulary of some tokens: the three special words, then the others sorted."""
    return [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]


def flatten(sentences: Sequence[Sequence[int]]) -> tuple[Ints, Ints, Ints]:
    """Lay sentences out one after the other, each in <s> and </s>.

    Returns:
        ids; for each id its position in its sentence (0 for <s>); where each sentence begins.
    """
    lengths = np.fromiter((len(sentence) + 2 for sentence in sentences), np.int64)
    total = int(lengths.sum())
    starts = np.cumsum(lengths) - lengths
    flat = np.fromiter(
        (n for sentence in sentences for n in (BOS_ID, *sentence, EOS_ID)), np.int64, total
    )
    return flat, np.arange(total) - np.repeat(starts, lengths), starts
