"""Packed sequences to a micro-batch: masks, padding, and rows folded to a shorter length.

All on flat arrays; nothing is done token by token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from model.data.packed_dataset import Array, Int64s, Rows
from pipelines.core.masking import (
    MaskingRule,
    Sampler,
    mask_keys,
    mask_sequences,
)
from pipelines.core.vocabulary import PAD_ID


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of a micro-batch, padded to its longest sequence, or to a fixed shape."""

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
    """Only packing.mode = pairs: the second segment follows the first, bool, shape (pairs,): the
    first rows of the batch; any after them are padding."""
    number: int = 0
    """Its place among the micro-batches of its step, of all workers together."""

    @property
    def masked_tokens(self) -> int:
        """Tokens that are predicted."""
        return len(self.labels)

    @property
    def padding_tokens(self) -> int:
        """Tokens that are padding; with the real ones, all that are computed."""
        return self.tokens.numel() - self.real_tokens


@dataclass(frozen=True, slots=True)
class Layout:
    """The rectangle that sequences are laid out in."""

    length: int
    """Most tokens in a row."""
    size: int
    """Sequences in one micro-batch; the last may have fewer."""
    rows: int | None = None
    """Rows of every micro-batch, `length` wide, whatever is in them: what is missing is padding.
    So shapes repeat. None: as many and as wide as needed."""
    documents_apart: bool = False
    """As in `Batch`."""


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

    def by_token(self, rate: float) -> Masker:
        """The same with single tokens chosen: how held-out text is masked, so that losses of
        different runs compare."""
        return replace(self, rule=replace(self.rule, rate=rate, unit="token"), word_starts=None)


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
    layout: Layout,
    first_number: int = 0,
) -> list[Batch]:
    """Mask sequences and lay them out as micro-batches.

    A sequence longer than the layout's length is folded: its slices of that many tokens become rows
    of their own, so n sequences of k x length tokens give n x k rows with the same tokens and the
    same masks. Slices after the first have no <s> in front, a document is cut where a slice ends,
    and a slice of padding alone only comes to be where the number of rows is fixed.

    Args:
        passes: how often each sequence was used before, shape (n,).
        first_number: of the first micro-batch.

    Raises:
        ValueError: see `masks_of`; or there are more rows than the layout has.
    """
    length, size = layout.length, layout.size
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
    batches: list[Batch] = []
    for first in range(0, len(slices), size):
        last = min(first + size, len(slices))
        begin, end = int(first_slice[first]), int(first_slice[last])
        frame = _Frame(row_lengths[begin:end], begin * length, layout)
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
                layout.documents_apart,
                None if rows.segments is None else frame.padded(rows.segments[tokens], 0),
                None if rows.is_next is None else torch.from_numpy(rows.is_next[first:last]),
                first_number + len(batches),
            )
        )
    return batches


class _Frame:
    """The rectangle of one micro-batch.

    Args:
        lengths: real tokens of its rows, shape (rows,).
        begin: of its first row, if every row before it were as wide as the layout allows.
    """

    def __init__(self, lengths: Int64s, begin: int, layout: Layout) -> None:
        self._begin, self._length, self._width = begin, layout.length, int(lengths.max())
        self._lengths = lengths
        if layout.rows is not None:
            if len(lengths) > layout.rows:
                raise ValueError(f"{len(lengths)} rows do not fit a micro-batch of {layout.rows}")
            self._width = layout.length
            self._lengths = np.pad(lengths, (0, layout.rows - len(lengths)))

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
