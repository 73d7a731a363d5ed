"""One weight with two uses: rows are looked up in it, and hidden states are projected by it.

Left to itself, autograd makes a second gradient of the whole vocabulary for the few rows that a
batch looks up, and adds the two: for 250,002 rows of 1,024 that is 1 GB more, filled and added at
every micro-batch. Here the rows are added to the projection's gradient, in place.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn
from torch.autograd.function import once_differentiable


def tied(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same weight twice: to look rows up (`look_up`), and to project by.

    The gradient of `weight` is dense, and the projection's is used up for it: what makes that
    gradient must not keep it, which autograd's own functions do not.
    """
    return cast("tuple[torch.Tensor, torch.Tensor]", _Tied.apply(weight))  # type: ignore[no-untyped-call]


def look_up(tokens: torch.Tensor, weight: torch.Tensor, padding: int) -> torch.Tensor:
    """Rows of the first weight that `tied` gave.

    Args:
        tokens: ids, any shape.
        weight: shape (rows, hidden_size).
        padding: the id whose row gets no gradient from here.

    Returns:
        Shape (*tokens.shape, hidden_size).
    """
    # On a CPU rows are added in the order of tokens; on a GPU in any order, and the sum would
    # differ from run to run, so there the gradient is torch's dense one.
    sparse = weight.device.type == "cpu"
    return nn.functional.embedding(tokens, weight, padding_idx=padding, sparse=sparse)


class _Tied(torch.autograd.Function):
    """Two views forward, one sum of gradients backward."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return weight.view_as(weight), weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, looked_up: torch.Tensor | None, projected: torch.Tensor | None
    ) -> torch.Tensor | None:
        if looked_up is not None and projected is None:
            return looked_up.to_dense() if looked_up.is_sparse else looked_up
        if looked_up is None or projected is None:
            return projected
        projected = projected.contiguous()  # the same tensor, unless it is an expanded one
        if not looked_up.is_sparse:
            return projected.add_(looked_up)
        rows, values = looked_up._indices()[0], looked_up._values()
        return projected.index_add_(0, rows, values.to(projected.dtype))
