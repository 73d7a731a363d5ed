"""torch.compile of the encoder's layers, one graph for all layers of a kind.

Embeddings and heads stay as they are: how many positions are masked differs from batch to batch,
and the loss is already fused. Layers see tensors of the same shape as long as batches are full, so
after the first batch of training and the first of evaluation nothing is compiled again, until a
phase of `pretraining.lengths` or `batches` begins.
"""

from __future__ import annotations

from torch import nn

from model.encoder import Encoder


def compile_layers(encoder: Encoder) -> None:
    """Compile every layer in place; names of parameters stay.

    Needs a C++ compiler on a CPU, and Triton on CUDA; without, the first batch fails.
    """
    for layer in encoder.layers:
        assert isinstance(layer, nn.Module)
        layer.compile(dynamic=False, fullgraph=True)
