"""One layer of the encoder: attention and feed-forward, each with a residual and a norm.

Sources: Devlin et al. 2019 (BERT): the norm stands behind the residual; Warner et al. 2024
(ModernBERT): before the sub-layer, gated feed-forward (Shazeer 2020), no biases.
"""

from __future__ import annotations

import torch
from torch import nn

from model.attention import SelfAttention
from model.boundaries import Boundaries
from model.config import EncoderSection


def norm_of(section: EncoderSection) -> nn.LayerNorm:
    """A layer norm over hidden states."""
    return nn.LayerNorm(section.hidden_size, eps=section.norm_epsilon, bias=section.biases)


class Layer(nn.Module):
    """Attention and feed-forward.

    Args:
        section: sizes and layout.
        first: of its encoder; with norms before the sub-layers it has none before attention, for
            the embeddings are normed already (as in ModernBERT).
    """

    def __init__(self, section: EncoderSection, first: bool = False) -> None:
        super().__init__()
        size, inner, bias = section.hidden_size, section.feed_forward_size, section.biases
        self.gated, self.norm_first = section.feed_forward == "geglu", section.norm == "pre"
        self.attention = SelfAttention(size, section.heads, section.dropout_of_attention, bias)
        self.attention_norm: nn.Module = (
            nn.Identity() if first and self.norm_first else norm_of(section)
        )
        self.expand = nn.Linear(size, inner * (1 + self.gated), bias=bias)
        self.contract = nn.Linear(inner, size, bias=bias)
        self.output_norm = norm_of(section)
        self.dropout = nn.Dropout(section.dropout)

    def forward(self, hidden: torch.Tensor, boundaries: Boundaries) -> torch.Tensor:
        """One layer; `hidden` and the result are (batch, tokens, hidden_size)."""
        if self.norm_first:
            attended = self.attention(self.attention_norm(hidden), boundaries)
            hidden = hidden + self.dropout(attended)
            hidden = hidden + self.dropout(self.feed_forward(self.output_norm(hidden)))
        else:
            attended = self.attention(hidden, boundaries)
            hidden = self.attention_norm(hidden + self.dropout(attended))
            hidden = self.output_norm(hidden + self.dropout(self.feed_forward(hidden)))
        return hidden

    def feed_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Dense, GELU, dense; or dense x GELU(dense), dense. Shape is kept.

        Both gates are one matrix: what goes through GELU stands first.
        """
        inner = self.expand(hidden)
        if self.gated:
            gate, inner = inner.chunk(2, dim=-1)
            inner = nn.functional.gelu(gate) * inner
        else:
            inner = nn.functional.gelu(inner)
        contracted: torch.Tensor = self.contract(inner)
        return contracted
