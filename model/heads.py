"""What is put on the encoder: the masked-language-model head and the classification head.

The projection to the vocabulary runs at masked positions only, in chunks of rows, so that the
logits of a large vocabulary never lie in memory at once.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from model.encoder import LAYER_NORM_EPSILON, Encoder, initialise

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


class MaskedLanguageModel(nn.Module):
    """The encoder with BERT's head; the decoder is the word embedding, with a bias of its own."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        size = encoder.section.hidden_size
        self.encoder = encoder
        self.dense = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(torch.zeros(encoder.rows))
        initialise(self.dense, encoder.section.initializer_std)

    def forward(
        self,
        tokens: torch.Tensor,
        masked: torch.Tensor,
        labels: torch.Tensor,
        document_starts: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The loss of a batch.

        Args:
            tokens: masked ids, shape (batch, tokens).
            masked: positions in the flattened batch, shape (masked,).
            labels: the original ids there, shape (masked,).
            document_starts: as in `Encoder.forward`.

        Returns:
            Cross-entropy in nats, summed over masked positions, shape ().
        """
        hidden = self.encoder(tokens, document_starts).flatten(0, 1).index_select(0, masked)
        return chunked_cross_entropy(
            self.transform(hidden), self.encoder.words.weight, self.bias, labels
        )

    def transform(self, hidden: torch.Tensor) -> torch.Tensor:
        """Dense, GELU, norm: what lies between the encoder and the decoder; shape is kept."""
        normed: torch.Tensor = self.norm(nn.functional.gelu(self.dense(hidden)))
        return normed

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits at every position, shape (batch, tokens, vocabulary); for parity checks."""
        hidden = self.transform(self.encoder(tokens))
        return nn.functional.linear(hidden, self.encoder.words.weight, self.bias)


class SequenceClassifier(nn.Module):
    """The encoder with a two-layer head on <s>.

    Args:
        encoder: usually pretrained.
        labels: number of labels.
    """

    def __init__(self, encoder: Encoder, labels: int) -> None:
        super().__init__()
        size = encoder.section.hidden_size
        self.encoder = encoder
        self.dense = nn.Linear(size, size)
        self.output = nn.Linear(size, labels)
        self.dropout = nn.Dropout(encoder.section.dropout)
        for module in (self.dense, self.output):
            initialise(module, encoder.section.initializer_std)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of a batch of padded ids, shape (batch, labels)."""
        first = self.dropout(self.encoder(tokens)[:, 0])
        logits: torch.Tensor = self.output(self.dropout(torch.tanh(self.dense(first))))
        return logits
