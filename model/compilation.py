"""torch.compile of the encoder's layers, one graph for all layers of a kind.

Embeddings and heads stay as they are: how many positions are masked differs from batch to batch,
and the loss is already fused. Layers see tensors of a few fixed shapes. All of them, with padding
and without, are run through once before the first step; nothing is compiled after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn

from model.encoder import Encoder
from pipelines.core.vocabulary import BOS_ID, PAD_ID

MOST_GRAPHS = 256
"""Graphs of one layer. Each length has up to four (with padding or not, with a gradient or not),
twice where the first layer is another one; torch gives up at 8."""


@dataclass(frozen=True)
class Shape:
    """Batches that layers will see."""

    rows: int
    length: int
    training: bool
    """With dropout and a gradient, or neither."""
    documents_apart: bool = False
    segments: bool = False


def compile_layers(encoder: Encoder) -> None:
    """Compile every layer in place; names of parameters stay.

    Needs a C++ compiler on a CPU, and Triton on CUDA; without, the first batch fails.
    """
    settings = torch._dynamo.config
    settings.recompile_limit = max(settings.recompile_limit, MOST_GRAPHS)
    settings.accumulated_recompile_limit = max(settings.accumulated_recompile_limit, MOST_GRAPHS)
    for layer in encoder.layers:
        assert isinstance(layer, nn.Module)
        layer.compile(dynamic=False, fullgraph=True)


def warm_up(
    encoder: Encoder,
    shapes: Iterable[Shape],
    precision: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Run batches of every shape through the layers, full ones and padded ones.

    Without a mask, which a full batch does not need, a GPU's fastest kernels can be used; so there
    are two kinds of batches, and the second may come late: the last rows of a language, the last
    micro-batch of a step. Neither random numbers nor gradients are touched, and workers exchange
    nothing.

    Args:
        encoder: compiled, as it will be trained (`Encoder.checkpoint_activations`).
        precision: what batches are computed under.
    """
    device = encoder.words.weight.device
    own = [device] if device.type == "cuda" else []
    parameters = list(encoder.layers.parameters())
    was_training = encoder.training
    for shape in shapes:
        encoder.train(shape.training)
        for padded in (False, True):
            if not padded and shape.segments:
                continue  # see `model.update.inputs_of`
            tokens = torch.full((shape.rows, shape.length), BOS_ID, device=device)
            if padded:
                tokens[:, -1] = PAD_ID
            starts = torch.arange(shape.rows, device=device) * shape.length
            with (
                torch.random.fork_rng(own),
                torch.set_grad_enabled(shape.training),
                precision(),
            ):
                hidden = encoder(
                    tokens,
                    starts if shape.documents_apart else None,
                    torch.zeros_like(tokens) if shape.segments else None,
                    padded,
                )
            if shape.training:
                # No gradient of a parameter is written, so that hooks of DDP are not called either.
                torch.autograd.grad(hidden.float().sum(), parameters, allow_unused=True)
    encoder.train(was_training)
