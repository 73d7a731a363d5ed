"""What is put on the encoder: the masked-language-model head and the classification head.

The projection to the vocabulary runs at masked positions only, in chunks of rows, so that the
logits of a large vocabulary never lie in memory at once.
"""

from __future__ import annotations

import torch
from torch import nn

from model.encoder import LAYER_NORM_EPSILON, Encoder, initialise
from model.losses import chunked_cross_entropy


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
        """The losses of a batch, as sums.

        Args:
            tokens: masked ids, shape (batch, tokens).
            masked: positions in the flattened batch, shape (masked,).
            labels: the original ids there, shape (masked,).
            document_starts: as in `Encoder.forward`.

        Returns:
            Cross-entropies in nats, shape (2,): over masked positions, and over pairs (0 where
            there is no next-sentence head).
        """
        hidden = self.encoder(tokens, document_starts).flatten(0, 1).index_select(0, masked)
        masked_loss = chunked_cross_entropy(
            self.transform(hidden), self.encoder.words.weight, self.bias, labels
        )
        return torch.stack([masked_loss, torch.zeros_like(masked_loss)])

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
