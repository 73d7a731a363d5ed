"""Where the texts of a batch begin and end: the one source of every attention path.

A document here is a run of tokens that see each other and nothing else: a document of a packed row,
a whole row where rows are single texts, and also the padding behind either. Everything is made on
the batch's own device without asking it back, so that a GPU is not waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

Rotary = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Boundaries:
    """What attention has to know of a batch; the same for all layers.

    At most one of `mask`, `cumulative` and `lengths` is given; with none, every token of a row sees
    every other.
    """

    mask: torch.Tensor | None = None
    """Bool, shape (batch, 1, tokens, tokens): true where the token of the last axis may be looked
    at by that of the axis before."""
    cumulative: torch.Tensor | None = None
    """First token of each document in the flattened batch, and the end; int32, rising, shape
    (documents + 1,). Empty documents are allowed."""
    lengths: tuple[tuple[int, bool], ...] | None = None
    """Tokens of each document that is not empty, and whether they are no padding."""
    rotary: Rotary | None = None
    """Cosines and sines of each token, float32, shape (batch or 1, tokens, 1, width of a head)."""
    weights: list[torch.Tensor] | None = field(default=None)
    """Given, attention is computed step by step, and each layer appends its weights."""


def cumulative_lengths(real: torch.Tensor, document_starts: torch.Tensor | None) -> torch.Tensor:
    """Bounds of the documents of a batch.

    Args:
        real: false at padding, which stands at the end of rows only; shape (batch, tokens).
        document_starts: positions in the flattened batch at which documents begin, shape
            (documents,); None where each row is one text.

    Returns:
        As `Boundaries.cumulative`, but int64. Their number depends on the shapes alone.
    """
    rows, width = real.shape
    starts = torch.arange(rows + 1, device=real.device) * width
    padding = starts[:-1] + real.sum(dim=1)
    bounds = [starts, padding] if document_starts is None else [starts, padding, document_starts]
    return torch.cat(bounds).sort().values


def document_numbers(real: torch.Tensor, cumulative: torch.Tensor) -> torch.Tensor:
    """Which document each token belongs to: an index into `cumulative`, int64, as `real` in shape.

    Of documents that begin at one place only the last is not empty; that one is meant.
    """
    places = torch.arange(real.numel(), device=real.device).view(real.shape)
    return torch.searchsorted(cumulative, places, right=True) - 1


def steps_in_documents(numbers: torch.Tensor, cumulative: torch.Tensor) -> torch.Tensor:
    """How far from the beginning of its document each token is, counted from 0; int64."""
    places = torch.arange(numbers.numel(), device=numbers.device).view(numbers.shape)
    return places - cumulative[numbers]


def block_mask(numbers: torch.Tensor) -> torch.Tensor:
    """`Boundaries.mask`: tokens of one document see each other. No row of it is empty."""
    return (numbers[:, :, None] == numbers[:, None, :])[:, None]


def document_lengths(real: torch.Tensor, cumulative: torch.Tensor) -> tuple[tuple[int, bool], ...]:
    """`Boundaries.lengths`, for the CPU."""
    sizes = cumulative.diff()
    kept = sizes > 0
    is_real = real.flatten()[cumulative[:-1][kept]]
    return tuple(zip(sizes[kept].tolist(), is_real.tolist(), strict=True))
