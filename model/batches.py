"""Packed sequences to a micro-batch: masks, padding, and rows folded to a shorter length.

All on flat arrays; nothing is done token by token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from model.packed_dataset import Array, Int64s, Rows
from pipelines.core.masking import (
    MaskingRule,
    Sampler,
    mask_keys,
    mask_sequences,
)
from pipelines.core.vocabulary import PAD_ID


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of a micro-batch, padded to its longest sequence."""

    tokens: torch.Tensor
    """Masked ids, int64, shape (batch, tokens)."""
    masked: torch.Tensor
    """Positions in the flattened batch, int64, shape (masked,)."""
    labels: torch.Tensor
    """Original ids there, int64, shape (masked,)."""
    real_tokens: int
    """Tokens that are not padding."""
    sequence_ids: list[str]
    """The packed sequences in it; one that is folded gives several rows of `tokens`."""
    document_starts: torch.Tensor
    """Positions in the flattened batch at which a document, or the piece of it that is in this row,
    begins; int64, sorted, shape (pieces,)."""
    documents_apart: bool = False
    """Whether documents of a row must not see each other (packing.mode = document)."""
    segments: torch.Tensor | None = None
    """Only packing.mode = pairs: segment of each token, int64, shape (batch, tokens)."""
    is_next: torch.Tensor | None = None
    """Only packing.mode = pairs: the second segment follows the first, bool, shape (batch,)."""
    number: int = 0
    """Its place among the micro-batches of its step, of all workers together."""


@dataclass(frozen=True)
class Masker:
    """How masks are computed that are not stored: as the packing stage computes its own."""

    rule: MaskingRule
    sampler: Sampler
    seed: int
    word_starts: npt.NDArray[np.bool_] | None = None
    """Which ids begin a word, shape (rows,); None where single tokens are chosen."""

    def at_rate(self, rate: float) -> Masker:
        """The same with another share of chosen tokens."""
        return replace(self, rule=replace(self.rule, rate=rate))


def masks_of(rows: Rows, passes: Int64s, masker: Masker | None) -> tuple[Int64s, Array, Int64s]:
    """The masks of sequences: stored ones where there are, else computed.

    Args:
        passes: how often each sequence was used before, shape (n,).

    Returns:
        positions in `rows.tokens`, ascending, and the ids to put there, shape (masked,); and how
        many each sequence has, shape (n,).

    Raises:
        ValueError: a mask is not stored and there is no masker.
    """
    begins = rows.offsets[:-1]
    positions = rows.positions.astype(np.int64) + np.repeat(begins, rows.masked)
    if rows.stored.all():
        return positions, rows.replacements, rows.masked
    if masker is None:
        number = int(np.flatnonzero(~rows.stored)[0])
        raise ValueError(
            f"sequence {rows.ids[number]}: view {passes[number]} is not stored, and there is no "
            f"rule to compute it by"
        )
    missing = np.flatnonzero(~rows.stored)
    lengths = np.diff(rows.offsets)
    whole = len(missing) == len(rows.ids)
    tokens = rows.tokens if whole else rows.tokens[np.repeat(~rows.stored, lengths)]
    offsets = np.concatenate([[0], np.cumsum(lengths[missing])])
    keys = mask_keys(masker.seed, passes[missing], [rows.ids[i] for i in missing.tolist()])
    masks = mask_sequences(
        tokens.astype(np.uint32, copy=False),
        offsets,
        keys,
        masker.rule,
        masker.sampler,
        masker.word_starts,
    )
    counts = rows.masked.copy()
    counts[missing] = np.diff(masks.offsets)
    computed = masks.positions.astype(np.int64) + np.repeat(begins[missing], counts[missing])
    if whole:
        return computed, masks.tokens, counts
    positions = np.concatenate([positions, computed])
    order = np.argsort(positions, kind="stable")  # merges two rising runs
    return positions[order], np.concatenate([rows.replacements, masks.tokens])[order], counts


def batches_of(
    rows: Rows,
    passes: Int64s,
    masker: Masker | None,
    length: int,
    size: int,
    documents_apart: bool = False,
) -> list[Batch]:
    """Mask sequences and lay them out as micro-batches.

    A sequence longer than `length` is folded: its slices of `length` tokens become rows of their
    own, so n sequences of k x length tokens give n x k rows with the same tokens and the same
    masks. Slices after the first have no <s> in front, a document is cut where a slice ends, and a
    slice of padding alone does not come to be.

    Args:
        passes: how often each sequence was used before, shape (n,).
        length: most tokens in a row.
        size: sequences in one micro-batch; the last may have fewer.
        documents_apart: as in `Batch`.

    Raises:
        ValueError: see `masks_of`.
    """
    at, replacements, masked = masks_of(rows, passes, masker)
    labels = rows.tokens[at].astype(np.int64)
    inputs = rows.tokens.copy()
    inputs[at] = replacements
    lengths = np.diff(rows.offsets)
    slices = np.maximum(1, -(-lengths // length))
    first_slice = np.concatenate([[0], np.cumsum(slices)])
    row_lengths = np.full(first_slice[-1], length, np.int64)
    row_lengths[first_slice[1:] - 1] = lengths - (slices - 1) * length
    # Where the positions would be if every row were `length` wide.
    shift = first_slice[:-1] * length - rows.offsets[:-1]
    places = at + np.repeat(shift, masked)
    starts = rows.starts + np.repeat(first_slice[:-1] * length, rows.start_counts)
    if len(row_lengths) > len(slices):
        later = np.setdiff1d(np.arange(len(row_lengths)), first_slice, assume_unique=True)
        starts = np.union1d(starts, later * length)
    batches = []
    for first in range(0, len(slices), size):
        last = min(first + size, len(slices))
        begin, end = int(first_slice[first]), int(first_slice[last])
        frame = _Frame(row_lengths[begin:end], begin * length, length)
        tokens = slice(int(rows.offsets[first]), int(rows.offsets[last]))
        mask = slice(*np.searchsorted(places, [begin * length, end * length]))
        start = slice(*np.searchsorted(starts, [begin * length, end * length]))
        batches.append(
            Batch(
                frame.padded(inputs[tokens], PAD_ID),
                frame.placed(places[mask]),
                torch.from_numpy(labels[mask]),
                tokens.stop - tokens.start,
                rows.ids[first:last],
                frame.placed(starts[start]),
                documents_apart,
                None if rows.segments is None else frame.padded(rows.segments[tokens], 0),
                None if rows.is_next is None else torch.from_numpy(rows.is_next[first:last]),
            )
        )
    return batches


class _Frame:
    """The rectangle of one micro-batch.

    Args:
        lengths: real tokens of its rows, shape (rows,).
        begin: of its first row, if every row before it were `length` wide.
    """

    def __init__(self, lengths: Int64s, begin: int, length: int) -> None:
        self._lengths, self._begin, self._length = lengths, begin, length
        self._width = int(lengths.max())

    def placed(self, places: Int64s) -> torch.Tensor:
        """Positions in the flattened micro-batch, of positions in rows `length` wide."""
        places = places - self._begin
        if self._width < self._length:
            row, column = np.divmod(places, self._length)
            places = row * self._width + column
        return torch.from_numpy(places)

    def padded(self, values: Array, padding: int) -> torch.Tensor:
        """Rows one after the other as a rectangle, padding at the end, shape (rows, width)."""
        shape = len(self._lengths), self._width
        if len(values) == shape[0] * shape[1]:
            return torch.from_numpy(values.reshape(shape).astype(np.int64))
        out = np.full(shape, padding, dtype=np.int64)
        out[np.arange(shape[1]) < self._lengths[:, None]] = values
        return torch.from_numpy(out)
