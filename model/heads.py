"""What is put on the encoder: BERT's two heads of pretraining, and the classification head.

The projection to the vocabulary runs at masked positions only, in chunks of rows, so that the
logits of a large vocabulary never lie in memory at once.
"""

from __future__ import annotations

import torch
from torch import nn

from model.encoder import Encoder, initialise
from model.layers import norm_of
from model.losses import chunked_cross_entropy
from model.tied_weight import tied


class MaskedLanguageModel(nn.Module):
    """The encoder with BERT's heads.

    A masked token's hidden state h goes through dense, GELU and norm (BERT's transform), then to
    the vocabulary by the transposed word embeddings and a bias: u = h E^T + b, y = softmax(u)
    (Jurafsky and Martin, Speech and Language Processing, eq. 9.3; the loss is eq. 9.4). With
    encoder.next_sentence, two logits are computed from tanh(dense(h of <s>)) (Devlin et al. 2019);
    without it neither layer exists, so that every parameter has a gradient.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        section, size = encoder.section, encoder.section.hidden_size
        self.encoder = encoder
        self.dense = nn.Linear(size, size, bias=section.biases)
        self.norm = norm_of(section)
        self.bias = nn.Parameter(torch.zeros(encoder.rows))
        initialise(self.dense, section.initializer_std)
        self.pooler = self.next_sentence = None
        if section.next_sentence:
            self.pooler, self.next_sentence = nn.Linear(size, size), nn.Linear(size, 2)
            for module in (self.pooler, self.next_sentence):
                initialise(module, section.initializer_std)

    def forward(
        self,
        tokens: torch.Tensor,
        masked: torch.Tensor,
        labels: torch.Tensor,
        document_starts: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
        is_next: torch.Tensor | None = None,
        padded: bool | None = None,
    ) -> torch.Tensor:
        """The losses of a batch, as sums.

        Args:
            tokens: masked ids, shape (batch, tokens).
            masked: positions in the flattened batch, shape (masked,).
            labels: the original ids there, shape (masked,).
            document_starts: as in `Encoder.forward`, as are `segments` and `padded`.
            is_next: whether the second segment follows the first, bool, shape (pairs,), of the
                first rows; any after them are padding. Needed by a model with a next-sentence head,
                left aside by one without.

        Returns:
            Cross-entropies in nats, float32, shape (2,): over masked positions, and over pairs (0
            where there is no next-sentence head).

        Raises:
            ValueError: there is a next-sentence head, and no `is_next`.
        """
        words, decoder = tied(self.encoder.words.weight)
        hidden = self.encoder(tokens, document_starts, segments, padded, words)
        chosen = self.transform(hidden.flatten(0, 1).index_select(0, masked))
        masked_loss = chunked_cross_entropy(chosen, decoder, self.bias, labels)
        pair_loss = torch.zeros_like(masked_loss)
        if self.next_sentence is not None:
            if is_next is None:
                raise ValueError(
                    "the model has a next-sentence head, but the batch does not say which pairs "
                    'follow each other (packing.mode = "pairs")'
                )
            pair_loss = nn.functional.cross_entropy(
                self.pair_logits(hidden[: len(is_next)]).float(), (~is_next).long(), reduction="sum"
            )
        return torch.stack([masked_loss, pair_loss])

    def transform(self, hidden: torch.Tensor) -> torch.Tensor:
        """Dense, GELU, norm: what lies between the encoder and the decoder; shape is kept."""
        normed: torch.Tensor = self.norm(nn.functional.gelu(self.dense(hidden)))
        return normed

    def pair_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits of "follows" and "does not", shape (batch, 2), from hidden states of pairs.

        Raises:
            ValueError: the model has no next-sentence head.
        """
        if self.pooler is None or self.next_sentence is None:
            raise ValueError("the model has no next-sentence head (encoder.next_sentence)")
        logits: torch.Tensor = self.next_sentence(torch.tanh(self.pooler(hidden[:, 0])))
        return logits

    def logits(self, tokens: torch.Tensor, segments: torch.Tensor | None = None) -> torch.Tensor:
        """Logits at every position, shape (batch, tokens, vocabulary); for parity checks."""
        hidden = self.transform(self.encoder(tokens, segments=segments))
        return nn.functional.linear(hidden, self.encoder.words.weight, self.bias)


class SequenceClassifier(nn.Module):
    """The encoder with a two-layer head on <s>, as each layout has it in transformers.

    tanh(dense) and the output layer in XLM-R and BERT; norm(GELU(dense)) and the output layer in
    ModernBERT.

    Args:
        encoder: usually pretrained.
        labels: number of labels.
    """

    def __init__(self, encoder: Encoder, labels: int) -> None:
        super().__init__()
        section, size = encoder.section, encoder.section.hidden_size
        self.encoder = encoder
        self.dense = nn.Linear(size, size, bias=section.biases)
        self.norm = norm_of(section) if section.layout == "modernbert" else None
        self.output = nn.Linear(size, labels)
        self.dropout = nn.Dropout(section.dropout)
        for module in (self.dense, self.output):
            initialise(module, section.initializer_std)

    def forward(self, tokens: torch.Tensor, segments: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of a batch of padded ids, shape (batch, labels)."""
        inner = self.dense(self.dropout(self.encoder(tokens, segments=segments)[:, 0]))
        inner = self.norm(nn.functional.gelu(inner)) if self.norm is not None else inner.tanh()
        logits: torch.Tensor = self.output(self.dropout(inner))
        return logits
