"""The bidirectional transformer in RoBERTa's layout, so that export is a renaming.

Post-norm, GELU (erf), layer-norm epsilon 1e-5, learnt positions that start at pad id + 1 = 2,
one token type. Sources: Devlin et al. 2019 (BERT), section 3; Liu et al. 2019 (RoBERTa);
Conneau et al. 2020 (XLM-R).
"""

from __future__ import annotations

import torch
from torch import nn

from model.attention import SelfAttention
from model.config import EncoderSection
from pipelines.core.vocabulary import PAD_ID

LAYER_NORM_EPSILON = 1e-5
FIRST_POSITION = PAD_ID + 1


class Layer(nn.Module):
    """Attention and feed-forward, each with a residual and a norm behind it."""

    def __init__(self, section: EncoderSection) -> None:
        super().__init__()
        size = section.hidden_size
        self.attention = SelfAttention(size, section.heads, section.dropout)
        self.attention_norm = nn.LayerNorm(size, eps=LAYER_NORM_EPSILON)
        self.expand = nn.Linear(size, section.feed_forward_size)
        self.contract = nn.Linear(section.feed_forward_size, size)
        self.output_norm = nn.LayerNorm(size, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(section.dropout)

    def forward(self, hidden: torch.Tensor, attend: torch.Tensor | None) -> torch.Tensor:
        """One layer; shapes as in `SelfAttention.forward`."""
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, attend)))
        inner = self.contract(nn.functional.gelu(self.expand(hidden)))
        normed: torch.Tensor = self.output_norm(hidden + self.dropout(inner))
        return normed


class Encoder(nn.Module):
    """Embeddings and layers.

    Args:
        section: sizes.
        rows: rows of the vocabulary, <mask> included.
        length: longest sequence in tokens, <s> and </s> included.
    """

    def __init__(self, section: EncoderSection, rows: int, length: int) -> None:
        super().__init__()
        self.section, self.rows, self.length = section, rows, length
        size = section.hidden_size
        self.words = nn.Embedding(rows, size, padding_idx=PAD_ID)
        self.positions = nn.Embedding(length + FIRST_POSITION, size, padding_idx=PAD_ID)
        self.token_type = nn.Embedding(1, size)
        self.embedding_norm = nn.LayerNorm(size, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(section.dropout)
        self.layers = nn.ModuleList(Layer(section) for _ in range(section.layers))
        self.apply(lambda module: initialise(module, section.initializer_std))

    def forward(
        self, tokens: torch.Tensor, document_starts: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Encode a batch; padding is found by its id and may stand at the end only.

        Args:
            tokens: ids, shape (batch, tokens).
            document_starts: positions in the flattened batch at which documents begin, shape
                (documents,). Given, each document is encoded as if it stood alone: attention stays
                inside it and its positions begin anew. None: a row is one text.

        Returns:
            Hidden states, shape (batch, tokens, hidden_size); those of padding mean nothing.

        Raises:
            ValueError: the batch is longer than the encoder's length.
        """
        if tokens.shape[1] > self.length:
            raise ValueError(
                f"a sequence of {tokens.shape[1]} tokens is longer than the encoder's "
                f"{self.length} (packing.length)"
            )
        real = tokens != PAD_ID
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        attend = None if bool(real.all()) else real[:, None, None, :]
        if document_starts is not None:
            number, first = documents_of(tokens.shape, document_starts)
            steps = steps - first
            same = number[:, None, :, None] == number[:, None, None, :]
            attend = same if attend is None else same & attend
        positions = torch.where(real, steps + FIRST_POSITION, PAD_ID)
        embedded = self.words(tokens) + self.positions(positions) + self.token_type.weight[0]
        hidden: torch.Tensor = self.dropout(self.embedding_norm(embedded))
        for layer in self.layers:
            hidden = layer(hidden, attend)
        return hidden


def documents_of(
    shape: torch.Size, document_starts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which document each token belongs to, and where in its row that document begins.

    Padding belongs to the last document of its row, so that no row of the attention is empty.

    Args:
        shape: of the batch, (batch, tokens).
        document_starts: positions in the flattened batch, shape (documents,).

    Returns:
        Numbers, counted within a row, and first positions, both int64 of shape (batch, tokens).
    """
    begins = torch.zeros(shape, dtype=torch.int64, device=document_starts.device)
    begins.view(-1)[document_starts] = 1
    steps = torch.arange(shape[1], device=document_starts.device)
    return begins.cumsum(dim=1), (begins * steps).cummax(dim=1).values


def initialise(module: nn.Module, std: float) -> None:
    """Start the weights of one module as BERT does: normal, biases and padding rows 0."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, mean=0.0, std=std)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        with torch.no_grad():
            module.weight[module.padding_idx].zero_()
