"""Cross-entropy of a large vocabulary in bounded memory: the projection runs by chunks of rows."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

MAX_ROWS = 8192
"""Rows of logits at once: 8,192 x 250,002 stays below the 2^31 elements of 32-bit indexing."""


def cross_entropy_sum(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Sum of -log softmax(hidden weight^T + bias)[label], in nats and float32."""
    logits = nn.functional.linear(hidden, weight, bias)
    return nn.functional.cross_entropy(logits.float(), labels, reduction="sum")


def chunked_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    labels: torch.Tensor,
    max_rows: int = MAX_ROWS,
) -> torch.Tensor:
    """`cross_entropy_sum` by chunks of rows; all but the current chunk's logits are recomputed.

    Args:
        hidden: shape (rows, hidden_size); zero rows give 0.
        weight: shape (vocabulary, hidden_size).
        bias: shape (vocabulary,).
        labels: ids, shape (rows,).
        max_rows: rows in one chunk.

    Returns:
        The loss summed over rows, shape ().
    """
    if len(labels) <= max_rows:
        return cross_entropy_sum(hidden, weight, bias, labels)
    whole = hidden.new_zeros((), dtype=torch.float32)
    for begin in range(0, len(labels), max_rows):
        part = slice(begin, begin + max_rows)
        whole = whole + checkpoint(
            cross_entropy_sum, hidden[part], weight, bias, labels[part], use_reentrant=False
        )
    return whole
