"""Word embeddings of one vocabulary, taken over into those of another.

- Special tokens go to their places, and the row of a piece that both have is copied.
- A piece that only the new vocabulary has gets the mean of the vectors of the old pieces that spell
  it; its output bias likewise. It so begins as what the model made of the same text before
  (fast vocabulary transfer; Gee et al. 2022).
- What the old vocabulary cannot spell (a character that it lacks) is drawn from the normal
  distribution of the old vectors, dimension by dimension, by the seed (Hewitt 2021): its logits
  are then no larger than those of other words. Its bias is the mean one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pipelines.core.hashing import generator
from pipelines.core.spelling import speller
from pipelines.core.vocabulary import FIRST_PIECE_ID, UNK_ID, Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary

AnyVocabulary = Vocabulary | WordPieceVocabulary
Ints = npt.NDArray[np.int64]
MOST_NAMED = 10


@dataclass(frozen=True)
class RowPlan:
    """Where each row of a new table comes from."""

    source: Ints
    """Row of the old table, shape (rows,); -1 for rows that are made."""
    spelled: Ints
    """New ids whose row is a mean, shape (n,)."""
    parts: Ints
    """Old rows of which the means are made, one after the other."""
    lengths: Ints
    """How many of `parts` belong to each of `spelled`, shape (n,)."""
    drawn: Ints
    """New ids whose row is drawn, shape (m,)."""
    ordinary: Ints
    """Old rows that stand for text, shape (k,)."""

    @property
    def as_they_are(self) -> bool:
        """Whether the old table is the new one."""
        return np.array_equal(self.source, np.arange(len(self.source)))

    def notes(self, new: AnyVocabulary, old_rows: int) -> list[str]:
        """What a person should know: how many rows of each kind, and what was left behind."""
        if self.as_they_are and old_rows == len(self.source):
            return []
        copied = self.source[self.source >= 0]
        moved = int((self.source != np.arange(len(self.source)))[self.source >= 0].sum())
        text = f"word embeddings: {len(copied):,} of {len(self.source):,} rows are copied"
        text += f" ({moved:,} had another id)" if moved else ""
        if len(self.spelled):
            text += f", {len(self.spelled):,} are the mean of the old pieces that spell them"
        if len(self.drawn):
            names = ", ".join(repr(new.token(int(i))) for i in self.drawn[:MOST_NAMED])
            text += f", {len(self.drawn):,} are drawn, as the old vocabulary cannot spell them"
            text += f" ({names}{', ...' if len(self.drawn) > MOST_NAMED else ''})"
        left = old_rows - len(np.unique(copied))
        text += f"; {left:,} old rows are left behind" if left else ""
        return [text]


def plan_rows(new: AnyVocabulary, old: AnyVocabulary, old_rows: Ints) -> RowPlan:
    """Find where each row comes from.

    Args:
        old_rows: row of the old tables for each id of `old`, shape (old.rows,).

    Raises:
        ValueError: one vocabulary is Unigram and the other WordPiece.
    """
    if isinstance(new, Vocabulary) != isinstance(old, Vocabulary):
        raise ValueError("one vocabulary is unigram, the other wordpiece")
    places = {old.token(i): i for i in range(FIRST_PIECE_ID, old.mask_id)}
    source = np.full(new.rows, -1, dtype=np.int64)
    special = [*range(FIRST_PIECE_ID), -1]
    source[special] = old_rows[special]
    lacking = []
    for number in range(FIRST_PIECE_ID, new.mask_id):
        place = places.get(new.token(number))
        if place is None:
            lacking.append(number)
        else:
            source[number] = old_rows[place]
    ids, lengths = speller(old)([new.token(i) for i in lacking])
    owners = np.repeat(np.arange(len(lacking)), lengths)
    known = np.bincount(owners[ids == UNK_ID], minlength=len(lacking)) == 0
    known &= lengths > 0
    numbers = np.array(lacking, dtype=np.int64)
    return RowPlan(
        source=source,
        spelled=numbers[known],
        parts=old_rows[ids[known[owners]]],
        lengths=lengths[known],
        drawn=numbers[~known],
        ordinary=old_rows[FIRST_PIECE_ID : old.mask_id],
    )


def carried(table: torch.Tensor, plan: RowPlan, seed: int) -> torch.Tensor:
    """The rows of a table of the old vocabulary as rows of the new one.

    Args:
        table: word embeddings, shape (old rows, hidden), or output biases, shape (old rows,).
        seed: of the rows that are drawn.

    Returns:
        Shape (rows, hidden) or (rows,).
    """
    if plan.as_they_are and len(table) == len(plan.source):
        return table
    result = table[torch.from_numpy(np.maximum(plan.source, 0))].clone()
    if len(plan.spelled):
        owners = torch.from_numpy(np.repeat(np.arange(len(plan.spelled)), plan.lengths))
        sums = torch.zeros((len(plan.spelled), *table.shape[1:]), dtype=torch.float64)
        sums.index_add_(0, owners, table[torch.from_numpy(plan.parts)].double())
        counts = torch.from_numpy(plan.lengths).double()
        means = sums / counts.view(-1, *([1] * (table.dim() - 1)))
        result[torch.from_numpy(plan.spelled)] = means.to(table.dtype)
    if len(plan.drawn):
        ordinary = table[torch.from_numpy(plan.ordinary)].double()
        rows = ordinary.mean(dim=0).expand(len(plan.drawn), *table.shape[1:])
        if table.dim() == 2:
            drawn = generator(seed, "rows of new pieces").standard_normal(tuple(rows.shape))
            rows = rows + torch.from_numpy(drawn) * ordinary.std(dim=0)
        result[torch.from_numpy(plan.drawn)] = rows.to(table.dtype)
    return result
