"""Cross-entropy of a large vocabulary, fused with the projection to it, in bounded memory.

Logits are needed twice: for the normaliser, and for the gradient. They are kept between the two for
one chunk of rows, and the gradients of a chunk are made at once, in the forward pass: no matrix
product is done twice, and no second copy of the logits ever lies in memory. Within a chunk the
vocabulary is walked in blocks that a processor's cache can hold. torch 2.13's own chunked
`linear_cross_entropy` is not used: on a CPU it takes 12 times as long (tests/benchmarks/
vocabulary_loss.py), and torch.compile falls back from it.
Sources: Hsu et al. 2024 (Liger Kernel: gradients in the forward pass); Wijmans et al. 2025 (Cut
Your Losses: blocks of the vocabulary).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch.autograd.function import once_differentiable

MAX_ROWS = 8192
"""Rows of logits at once: 8,192 x 250,002 stays below the 2^31 elements of 32-bit indexing."""

CACHED_ELEMENTS = 1 << 20
"""Logits in a block on a CPU: 4 MB."""
DEVICE_ELEMENTS = 1 << 27
"""Logits in a block on other devices: few and large matrix products."""
FEWEST_COLUMNS = 1024
"""Narrower blocks would make slow matrix products."""
SEGMENT_BYTES = 40 << 20
"""Memory for logits is taken and given back in pieces of about this size, or up to twice as much
(what glibc gives back to the system at once has 32 MB or more)."""

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Of hidden states, weight and bias."""


def chunked_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    labels: torch.Tensor,
    max_rows: int = MAX_ROWS,
) -> torch.Tensor:
    """Sum over rows of -log softmax(hidden weight^T + bias)[label], in nats.

    Under autocast the matrix products run in its type; normalisers and sums do not. The gradients
    of `weight` and `bias` are dense, also of no rows, and can be asked for once.

    Args:
        hidden: shape (rows, hidden_size); zero rows give 0.
        weight: shape (vocabulary, hidden_size).
        bias: shape (vocabulary,).
        labels: ids, shape (rows,).
        max_rows: rows in one chunk.

    Returns:
        The loss summed over rows, shape (), in the type of `bias`.

    Raises:
        ValueError: `max_rows` is below 1.
    """
    if max_rows < 1:
        raise ValueError(f"max_rows = {max_rows}: a chunk has at least one row")
    wanted = torch.is_grad_enabled()
    loss = _ProjectedCrossEntropy.apply(hidden, weight, bias, labels, max_rows, wanted)  # type: ignore[no-untyped-call]
    return cast("torch.Tensor", loss)


def slices(count: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover `count` in order."""
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Loss and gradients in one pass; the backward pass scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        labels: torch.Tensor,
        max_rows: int,
        wanted: bool,
    ) -> torch.Tensor:
        device = hidden.device.type
        dtype = weight.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        gradients = None
        if wanted and any(ctx.needs_input_grad):
            make = torch.empty_like if len(labels) else torch.zeros_like
            gradients = (torch.zeros_like(hidden, dtype=bias.dtype), make(weight), make(bias))
        total = bias.new_zeros(())
        with torch.autocast(device, enabled=False):
            for rows in slices(len(labels), max_rows):
                total += _chunk(hidden, weight, bias, labels, rows, dtype, gradients)
        ctx.gradients, ctx.hidden_dtype = gradients, hidden.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError(
                "the gradients of this loss were given away by an earlier backward pass: "
                "compute the loss again"
            )
        # Nothing here keeps them, so autograd may add to them in place and make them `.grad`.
        (hidden, weight, bias), ctx.gradients = ctx.gradients, None
        return (
            hidden.mul_(scale).to(ctx.hidden_dtype),
            weight.mul_(scale) if ctx.needs_input_grad[1] else None,
            bias.mul_(scale) if ctx.needs_input_grad[2] else None,
            None,
            None,
            None,
        )


def _chunk(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    labels: torch.Tensor,
    rows: slice,
    dtype: torch.dtype,
    gradients: Gradients | None,
) -> torch.Tensor:
    """The loss of some rows; their gradients are put into (first chunk) or added to `gradients`."""
    state, targets = hidden[rows].to(dtype), labels[rows, None]
    elements = CACHED_ELEMENTS if hidden.device.type == "cpu" else DEVICE_ELEMENTS
    columns = list(slices(len(bias), max(elements // len(targets), FEWEST_COLUMNS)))
    kept = [] if gradients is None else _blocks(state, columns)
    normaliser = bias.new_full(targets.shape, -torch.inf)
    label_logits = bias.new_zeros(targets.shape)
    for number, part in enumerate(columns):
        block = torch.addmm(
            bias[part].to(dtype),
            state,
            weight[part].to(dtype).t(),
            out=kept[number] if kept else None,
        )
        wide = block.to(bias.dtype)
        normaliser = torch.logaddexp(normaliser, torch.logsumexp(wide, dim=1, keepdim=True))
        place, inside = _place(targets, part)
        label_logits += wide.gather(1, place) * inside
    if gradients is None:
        return (normaliser - label_logits).sum()
    of_hidden, of_weight, of_bias = gradients
    of_hidden = of_hidden[rows]
    kept.reverse()
    for part in columns:
        block = kept.pop()
        wide = block.to(bias.dtype).sub_(normaliser).exp_()
        place, inside = _place(targets, part)
        wide.scatter_add_(1, place, -inside.to(bias.dtype))  # softmax - 1 at the label
        block.copy_(wide)
        _add(of_hidden, block, weight[part].to(dtype), first=False)
        _add(of_weight[part], block.t(), state, first=rows.start == 0)
        of_bias[part] = wide.sum(dim=0) if rows.start == 0 else of_bias[part] + wide.sum(dim=0)
    return (normaliser - label_logits).sum()


def _blocks(state: torch.Tensor, columns: list[slice]) -> list[torch.Tensor]:
    """Room for the logits of every part of the vocabulary.

    Some parts share a segment, large enough that the C library gives it back to the system as soon
    as its last part is let go. So logits go as the gradient of the weight comes, and the peak is
    the larger of the two, not their sum.
    """
    made: list[torch.Tensor] = []
    rows, size = len(state), columns[-1].stop
    segments = max(rows * size * state.element_size() // SEGMENT_BYTES, 1)
    for group in slices(len(columns), -(-len(columns) // segments)):
        widths = [part.stop - part.start for part in columns[group]]
        segment = state.new_empty(rows * sum(widths))
        pieces = torch.split(segment, [rows * width for width in widths])
        made += [piece.view(rows, -1) for piece in pieces]
    return made


def _add(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, first: bool) -> None:
    """Put (first) or add a matrix product into `total`."""
    if total.dtype != left.dtype:
        product = left @ right
        total.copy_(product) if first else total.add_(product)
    elif first:
        torch.mm(left, right, out=total)
    else:
        total.addmm_(left, right)


def _place(labels: torch.Tensor, part: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """Where labels stand in a part of the vocabulary (anywhere, if not there), and which do."""
    place = labels - part.start
    inside = (place >= 0) & (place < part.stop - part.start)
    return place.clamp(0, part.stop - part.start - 1), inside
