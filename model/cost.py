"""What training costs: parameters, matmul FLOPs per token, tokens per second, whole runs.

Closed forms, so that a plan needs no model and no GPU. Counting rules: a product of (m, k) and
(k, n) is 2 m k n FLOPs; only matrix products count, as in the MFU of Chowdhery et al. 2022 (PaLM,
appendix B); backward is twice forward; nothing is counted for recomputation. The head runs on
masked positions only. Attention is counted over the whole row, so for packing.mode = "document" the
figure is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.config import EncoderSection

if TYPE_CHECKING:
    import torch

BACKWARD = 2
"""FLOPs of the backward pass over those of the forward pass: one product for the input's gradient,
one for the weight's."""


@dataclass(frozen=True)
class Gpu:
    """What a plan needs to know of a GPU."""

    name: str
    bf16_flops: float
    """Peak of dense bfloat16 matrix products, FLOP/s (the maker's data sheet)."""
    memory_bytes: float


GPUS = (
    Gpu("B200", 2250e12, 180e9),
    Gpu("H200-NVL", 835.5e12, 141e9),
    Gpu("H200", 989.4e12, 141e9),
    Gpu("H100-PCIe", 756e12, 80e9),
    Gpu("H100-NVL", 835.5e12, 94e9),
    Gpu("H100", 989.4e12, 80e9),
    Gpu("GH200", 989.4e12, 96e9),
    Gpu("A100-40GB", 312e12, 40e9),
    Gpu("A100", 312e12, 80e9),
    Gpu("L40S", 362e12, 48e9),
    Gpu("L4", 121e12, 24e9),
)
"""A device is the first of these all of whose words are in its name; without one it is unknown."""


def gpu_of(name: str) -> Gpu | None:
    """The GPU that a device's name speaks of, such as "NVIDIA H100 80GB HBM3"; None: unknown."""
    words = set(name.lower().replace("-", " ").split())
    return next((g for g in GPUS if set(g.name.lower().split("-")) <= words), None)


def peak_flops(device: torch.device) -> float | None:
    """Peak of dense bfloat16 matrix products of a device, FLOP/s; None where it is not known."""
    if device.type != "cuda":
        return None
    import torch  # heavy, and a plan on a machine without GPUs does not need it

    gpu = gpu_of(torch.cuda.get_device_name(device))
    return None if gpu is None else gpu.bf16_flops


@dataclass(frozen=True)
class Parameters:
    """Trained values by where they are."""

    words: int
    """The word matrix, which is the decoder too."""
    embeddings: int
    """Positions, segments, and the embeddings' norm."""
    layers: int
    head: int
    """Dense layer, norm and output bias of the masked-token head, and of next sentences."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.words + self.embeddings + self.layers + self.head


def parameters_by_part(encoder: EncoderSection, rows: int, length: int) -> Parameters:
    """Trained values of the encoder with its heads.

    Args:
        rows: of the vocabulary, <mask> included.
        length: longest sequence in tokens.
    """
    size, inner, bias = encoder.hidden_size, encoder.feed_forward_size, int(encoder.biases)
    norm = size * (1 + bias)
    embeddings = encoder.segments * size + norm
    if encoder.positions == "learned":
        embeddings += (length + encoder.first_position) * size
    halves = 2 if encoder.feed_forward == "geglu" else 1
    attention = 4 * (size * size + bias * size)
    feed_forward = halves * (size * inner + bias * inner) + inner * size + bias * size
    # Pre-norm has one norm more behind the last layer, and none before the first attention, where
    # that of the embeddings stands: as many as post-norm.
    layers = encoder.layers * (attention + feed_forward + 2 * norm)
    head = size * size + bias * size + norm + rows
    if encoder.next_sentence:
        head += size * size + size + 2 * size + 2  # pooler and classifier always have biases
    return Parameters(rows * size, embeddings, layers, head)


def parameters_of(encoder: EncoderSection, rows: int, length: int) -> int:
    """Trained values in all; XLM-R large at 250,002 rows and 512 tokens: 560,142,482."""
    return parameters_by_part(encoder, rows, length).total


@dataclass(frozen=True)
class Flops:
    """Forward FLOPs of one token."""

    layers: float
    """Dense layers of the encoder."""
    attention: float
    """Scores and weighted sums over the row."""
    head: float
    """The masked-token head, spread over all tokens, and next sentences over those of a row."""

    @property
    def forward(self) -> float:
        """All of them."""
        return self.layers + self.attention + self.head


def forward_flops_per_token(
    encoder: EncoderSection, rows: int, length: int, masked_share: float
) -> Flops:
    """Forward FLOPs of one token of a full row.

    Args:
        rows: of the vocabulary.
        length: tokens in a row.
        masked_share: of the tokens that are predicted, from 0 to 1.
    """
    size, inner = encoder.hidden_size, encoder.feed_forward_size
    products = 3 if encoder.feed_forward == "geglu" else 2
    layers = encoder.layers * 2 * (4 * size * size + products * size * inner)
    attention = encoder.layers * 2 * 2 * length * size
    head = masked_share * 2 * (size * size + rows * size)
    if encoder.next_sentence:
        head += 2 * (size * size + 2 * size) / length
    return Flops(float(layers), float(attention), head)


def training_flops_per_token(
    encoder: EncoderSection, rows: int, length: int, masked_share: float
) -> float:
    """FLOPs of one token, forward and backward; XLM-R large at 512 and 0.15: 2.194e9.

    Args:
        rows: of the vocabulary.
        length: tokens in a row.
        masked_share: of the tokens that are predicted, from 0 to 1.
    """
    forward = forward_flops_per_token(encoder, rows, length, masked_share).forward
    return forward * (1 + BACKWARD)


def tokens_per_second(flops_per_token: float, bf16_flops: float, mfu: float) -> float:
    """Tokens that one GPU trains in a second at a model FLOP utilisation, from 0 to 1."""
    return bf16_flops * mfu / flops_per_token
