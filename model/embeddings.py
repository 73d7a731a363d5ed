"""One vector a text, from an exported folder: the mean over its tokens, or its first token.

Padding is in no mean, so a text's vector does not depend on what it is batched with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import ne
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import AutoModel

from model.hugging_face.folder import read_model, read_tokenizer
from pipelines.core.config import ConfigError
from pipelines.core.vocabulary import encodable

Pooling = Literal["mean", "first"]
TOKENS_PER_BATCH = 8192
"""Most tokens computed at once, padding included; one long text may be more."""
LEARNED_FROM_2 = ("xlm-roberta", "roberta", "camembert")
"""Model types whose position table begins with two rows that no token has."""


def pooled(hidden: torch.Tensor, real: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """One vector a row.

    Args:
        hidden: last states, shape (batch, tokens, hidden).
        real: True where a token is no padding, shape (batch, tokens).

    Returns:
        Shape (batch, hidden).

    Raises:
        ValueError: a row has no token at all, so it has no mean.
    """
    if not bool(real.any(dim=1).all()):
        raise ValueError("a text without any token has no vector")
    if pooling == "first":
        return hidden[:, 0]
    weights = real.to(hidden.dtype)
    return (hidden * weights[:, :, None]).sum(dim=1) / weights.sum(dim=1, keepdim=True)


class Embedder:
    """A model and its tokenizer that give vectors of texts.

    Args:
        folder: a Hugging Face folder, such as an export writes.
        pooling: mean over all tokens of a text with its special ones, as sentence-transformers
            does; or the first token, <s> or [CLS].
        layer: hidden states of this layer, 0 are the embeddings; None: of the last one.

    Raises:
        ConfigError: the folder is damaged, or not whole.
        ValueError: the model does not have that layer.
    """

    def __init__(self, folder: Path, pooling: Pooling = "mean", layer: int | None = None) -> None:
        self.folder = folder
        self.model: Any = read_model(folder, AutoModel)
        self.tokenizer: Any = read_tokenizer(folder, int(self.model.config.vocab_size))
        layers = self.model.config.num_hidden_layers
        if layer is not None and not 0 <= layer <= layers:
            raise ValueError(f"layer {layer}: the model has layers 0 (embeddings) to {layers}")
        self.pooling, self.layer = pooling, layer
        self.counters: Counter[str] = Counter()
        """`texts`; `cut`: those of which the end was left out; `replaced`: those that had lone
        surrogates, each read as U+FFFD."""

    @property
    def size(self) -> int:
        """Length of a vector."""
        return int(self.model.config.hidden_size)

    @property
    def length(self) -> int:
        """Most tokens of a text, special ones included."""
        config, by_tokenizer = self.model.config, int(self.tokenizer.model_max_length)
        rows: int | None = getattr(config, "max_position_embeddings", None)
        if rows is None or rows < 1:  # positions relative to each other have no last one
            return by_tokenizer
        return min(rows - 2 * (config.model_type in LEARNED_FROM_2), by_tokenizer)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts; of a long one its first tokens and the closing special token, counted."""
        if not texts:
            return []
        clean = encodable(texts)
        rows: list[list[int]] = self.tokenizer(clean, verbose=False)["input_ids"]
        self.counters["texts"] += len(rows)
        if replaced := sum(map(ne, clean, texts)):
            self.counters["replaced"] += replaced
        self.counters["cut"] += sum(len(row) > self.length for row in rows)
        return [
            row if len(row) <= self.length else [*row[: self.length - 1], row[-1]] for row in rows
        ]

    def embed(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """Vectors of texts, in their order: float32, shape (texts, size).

        Batches hold texts of like length. The empty text has the vector of its special tokens.

        Raises:
            ConfigError: a vector is not finite: the weights are damaged.
        """
        rows = self.ids(texts)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        vectors = np.empty((len(rows), self.size), dtype=np.float32)
        for batch in _batches(order, rows):
            vectors[batch] = self._encode([rows[i] for i in batch]).numpy()
        if not np.isfinite(vectors).all():
            raise ConfigError(f"{self.folder}: a vector is not finite; the weights are damaged")
        return vectors

    def _encode(self, rows: Sequence[list[int]]) -> torch.Tensor:
        longest = max(map(len, rows))
        tokens = torch.full((len(rows), longest), self.tokenizer.pad_token_id or 0)
        real = torch.zeros((len(rows), longest), dtype=torch.bool)
        for i, row in enumerate(rows):
            tokens[i, : len(row)] = torch.tensor(row)
            real[i, : len(row)] = True
        with torch.inference_mode():
            output = self.model(
                input_ids=tokens,
                attention_mask=real.long(),
                output_hidden_states=self.layer is not None,
            )
            hidden = (
                output.last_hidden_state if self.layer is None else output.hidden_states[self.layer]
            )
            return pooled(hidden, real, self.pooling).float()


def _batches(order: Sequence[int], rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Cut rows, shortest first, into batches of at most TOKENS_PER_BATCH tokens."""
    batches: list[list[int]] = []
    for i in order:
        full = not batches or (len(batches[-1]) + 1) * len(rows[i]) > TOKENS_PER_BATCH
        if full:
            batches.append([])
        batches[-1].append(i)
    return batches
