"""The bidirectional transformer, in the layouts of XLM-R, BERT and ModernBERT.

The layouts are those of transformers, so that export is a renaming. Sources: Vaswani et al. 2017;
Devlin et al. 2019 (BERT), section 3; Liu et al. 2019 (RoBERTa); Conneau et al. 2020 (XLM-R); Warner
et al. 2024 (ModernBERT).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from model import boundaries
from model.boundaries import Boundaries, Rotary
from model.config import EncoderSection
from model.layers import Layer, norm_of
from model.tied_weight import look_up
from pipelines.core.vocabulary import PAD_ID

AttentionPath = Literal["rows", "mask", "documents", "varlen"]
"""Ways to compute attention, see model/attention.py."""


class Encoder(nn.Module):
    """Embeddings and layers.

    Args:
        section: sizes and layout.
        rows: rows of the vocabulary, <mask> included.
        length: longest sequence in tokens, <s> and </s> included.
    """

    cosines: torch.Tensor
    sines: torch.Tensor

    path: AttentionPath | None = None
    """The way to compute attention; None: the fastest there is for the batch and the device."""
    checkpoint_activations: bool = False
    """Compute the activations of layers again in the backward pass, with the same dropout."""

    def __init__(self, section: EncoderSection, rows: int, length: int) -> None:
        super().__init__()
        self.section, self.rows, self.length = section, rows, length
        size, first = section.hidden_size, section.first_position
        self.words = nn.Embedding(rows, size, padding_idx=PAD_ID)
        self.positions = self.token_type = None
        if section.positions == "learned":
            # RoBERTa's positions begin behind the row of padding; BERT's table has none.
            row_of_padding = PAD_ID if first > PAD_ID else None
            self.positions = nn.Embedding(length + first, size, padding_idx=row_of_padding)
        else:
            cosines, sines = rotary_tables(length, size // section.heads, section.rotary_base)
            self.register_buffer("cosines", cosines, persistent=False)
            self.register_buffer("sines", sines, persistent=False)
        if section.segments:
            self.token_type = nn.Embedding(section.segments, size)
        self.embedding_norm = norm_of(section)
        self.dropout = nn.Dropout(section.dropout)
        self.layers = nn.ModuleList(Layer(section, n == 0) for n in range(section.layers))
        self.final_norm = norm_of(section) if section.norm == "pre" else None
        self.apply(lambda module: initialise(module, section.initializer_std))

    def forward(
        self,
        tokens: torch.Tensor,
        document_starts: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
        padded: bool | None = None,
        words: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Encode a batch; padding is found by its id and may stand at the end of rows only.

        Args:
            tokens: ids, shape (batch, tokens).
            document_starts: positions in the flattened batch at which documents begin, shape
                (documents,). Given, each document is encoded as if it stood alone: attention stays
                inside it and its positions begin anew. None: a row is one text.
            segments: segment of each token (BERT), shape (batch, tokens); None: all are 0. Left
                aside by an encoder with fewer than two.
            padded: whether there is padding. None: a CPU looks, and CUDA takes it that there is,
                for a look would wait for the device.
            words: the word matrix as `tied` gives it, for a model that also projects by it; None:
                the encoder's own.

        Returns:
            Hidden states, shape (batch, tokens, hidden_size); those of padding mean nothing.

        Raises:
            ValueError: the batch is longer than the encoder's length.
        """
        hidden, bounds = self.prepared(tokens, document_starts, segments, padded, self.path, words)
        return self.through_layers(hidden, bounds)

    def attentions(
        self,
        tokens: torch.Tensor,
        document_starts: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Encode a batch step by step, to see who looks at whom. Memory grows as tokens squared.

        Args and errors: as `forward`.

        Returns:
            Hidden states, as `forward`; and of each layer the attention weights, shape (batch,
            heads, tokens, tokens): weights[b, h, i, j] is how much token i takes from token j. Rows
            sum to 1; between texts, and from text to padding, they are 0.
        """
        hidden, bounds = self.prepared(tokens, document_starts, segments, True, "mask")
        weights: list[torch.Tensor] = []
        for layer in self.layers:
            hidden = layer(hidden, replace(bounds, weights=weights))
        return self.final_norm(hidden) if self.final_norm is not None else hidden, weights

    def prepared(
        self,
        tokens: torch.Tensor,
        document_starts: torch.Tensor | None,
        segments: torch.Tensor | None,
        padded: bool | None,
        path: AttentionPath | None,
        words: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, Boundaries]:
        """Embeddings of a batch, and what its layers have to know of it."""
        if tokens.shape[1] > self.length:
            raise ValueError(
                f"a sequence of {tokens.shape[1]} tokens is longer than the encoder's "
                f"{self.length} (packing.length)"
            )
        real = tokens != PAD_ID
        if padded is None:
            padded = tokens.is_cuda or not bool(real.all())
        if path is None:
            path = self.fastest(tokens.device, document_starts is not None or padded)
        steps, bounds = torch.arange(tokens.shape[1], device=tokens.device)[None], Boundaries()
        if path != "rows":
            cumulative = boundaries.cumulative_lengths(real, document_starts)
            numbers = boundaries.document_numbers(real, cumulative)
            if document_starts is not None:
                steps = boundaries.steps_in_documents(numbers, cumulative)
            if path == "mask":
                bounds = Boundaries(mask=boundaries.block_mask(numbers))
            elif path == "documents":
                bounds = Boundaries(lengths=boundaries.document_lengths(real, cumulative))
            else:
                cumulative = cumulative.int()
                if self.compiled:  # one graph for any number of documents
                    torch._dynamo.mark_dynamic(cumulative, 0)
                bounds = Boundaries(cumulative=cumulative)
        if self.positions is None:
            bounds = replace(bounds, rotary=self.rotary_at(steps))
        return self.embedded(tokens, real, steps, segments, words), bounds

    def fastest(self, device: torch.device, several: bool) -> AttentionPath:
        """The fastest way to compute attention.

        A compiled layer gets tensors of fixed shape. The kernel has no dropout: set
        encoder.attention_dropout = 0 to train with it.

        Args:
            several: whether rows hold more than one text each, or padding.
        """
        if device.type == "cuda" and self.kernel_fits(device):
            return "varlen"
        if not several:
            return "rows"
        return "documents" if device.type == "cpu" and not self.compiled else "mask"

    @property
    def compiled(self) -> bool:
        """Whether layers are compiled (torch.compile), or are just being."""
        calls = (getattr(layer, "_compiled_call_impl", None) for layer in self.layers)
        return torch.compiler.is_compiling() or any(call is not None for call in calls)

    def kernel_fits(self, device: torch.device) -> bool:
        """Whether the variable-length kernel can compute this encoder's attention on CUDA."""
        within = torch.is_autocast_enabled("cuda")
        dtype = torch.get_autocast_dtype("cuda") if within else self.words.weight.dtype
        width = self.section.hidden_size // self.section.heads
        return (
            dtype in (torch.bfloat16, torch.float16)
            and not (self.training and self.section.dropout_of_attention)
            and width % 8 == 0
            and width <= 256
            and torch.cuda.get_device_capability(device) >= (8, 0)
        )

    def embedded(
        self,
        tokens: torch.Tensor,
        real: torch.Tensor,
        steps: torch.Tensor,
        segments: torch.Tensor | None,
        words: torch.Tensor | None,
    ) -> torch.Tensor:
        """Sum of words, positions and segments, normed; shape (batch, tokens, hidden_size)."""
        looked_up = self.words(tokens) if words is None else look_up(tokens, words, PAD_ID)
        embedded: torch.Tensor = looked_up
        if self.positions is not None:
            positions = steps + self.section.first_position
            if self.positions.padding_idx is not None:
                positions = torch.where(real, positions, self.positions.padding_idx)
            embedded = embedded + self.positions(positions)
        if self.token_type is not None:
            of_segments = segments is not None and self.token_type.num_embeddings > 1
            embedded = embedded + (
                self.token_type(segments) if of_segments else self.token_type.weight[0]
            )
        dropped: torch.Tensor = self.dropout(self.embedding_norm(embedded))
        return dropped

    def rotary_at(self, steps: torch.Tensor) -> Rotary:
        """`Boundaries.rotary` at positions, counted from 0."""
        return self.cosines[steps][:, :, None], self.sines[steps][:, :, None]

    def through_layers(self, hidden: torch.Tensor, bounds: Boundaries) -> torch.Tensor:
        """All layers, and the norm behind the last where there is one; shape is kept."""
        again = self.checkpoint_activations and torch.is_grad_enabled()
        for layer in self.layers:
            if again:
                hidden = checkpoint(layer, hidden, bounds, use_reentrant=False)
            else:
                hidden = layer(hidden, bounds)
        return self.final_norm(hidden) if self.final_norm is not None else hidden


def rotary_tables(length: int, width: int, base: float) -> Rotary:
    """Cosines and sines of all positions (Su et al. 2021, section 3.2.2).

    Args:
        length: positions.
        width: of a head, even.
        base: of the wavelengths; that of dimension i is 2 pi base^(2i / width).

    Returns:
        float32, each of shape (length, width): angles of the first half of the dimensions, twice.
    """
    frequencies = 1.0 / base ** (torch.arange(0, width, 2).float() / width)
    angles = torch.arange(length).float()[:, None] * frequencies
    angles = torch.cat((angles, angles), dim=1)
    return angles.cos(), angles.sin()


def initialise(module: nn.Module, std: float) -> None:
    """Start the weights of one module as BERT does: normal, biases and padding rows 0."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, mean=0.0, std=std)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        with torch.no_grad():
            module.weight[module.padding_idx].zero_()
