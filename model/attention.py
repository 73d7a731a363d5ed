"""Multi-head self-attention, bidirectional, over a padded batch.

Source: Vaswani et al. 2017, section 3.2; laid out as in Devlin et al. 2019 (BERT).
"""

from __future__ import annotations

import torch
from torch import nn


class SelfAttention(nn.Module):
    """Scaled dot-product attention with its output projection.

    Args:
        hidden_size: width of the hidden states, a multiple of `heads`.
        heads: attention heads.
        dropout: probability on attention weights.
    """

    def __init__(self, hidden_size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden: torch.Tensor, attend: torch.Tensor | None) -> torch.Tensor:
        """Attend.

        Args:
            hidden: shape (batch, tokens, hidden_size).
            attend: boolean, shape (batch, 1, 1 or tokens, tokens), true where the token of the last
                axis may be looked at by that of the axis before; None when everything may be
                (the faster kernels need no mask).

        Returns:
            Shape (batch, tokens, hidden_size).
        """
        batch, tokens, size = hidden.shape
        shape = (batch, tokens, self.heads, size // self.heads)
        query = self.query(hidden).view(shape).transpose(1, 2)
        key = self.key(hidden).view(shape).transpose(1, 2)
        value = self.value(hidden).view(shape).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attend, dropout_p=self.dropout if self.training else 0.0
        )
        projected: torch.Tensor = self.output(mixed.transpose(1, 2).reshape(batch, tokens, size))
        return projected
