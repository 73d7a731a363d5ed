"""How much memory training takes on one GPU, in closed form.

Counted: what lies in memory while the loss of a micro-batch is computed, or, where that is more,
while the word matrix's gradient is; tensor by tensor, with an attention of PyTorch that keeps no
matrix of weights. torch.compile keeps less than this. Not counted: the CUDA context, buffers of
NCCL, workspaces of cuBLAS and unused pieces between tensors; USABLE_SHARE leaves room for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from model.config import EncoderSection, PretrainingSection
from model.cost import parameters_by_part

USABLE_SHARE = 0.9
"""Of a GPU's memory; the rest is for what is not counted."""
CHUNK_ROWS = 8192
"""Most rows of logits at once (model/losses.py)."""
BLOCK_LOGITS = 2**27
"""Logits that the loss works on at once, in float32."""
FLOAT32_COPIES = {"bfloat16": 2, "float32": 1}
"""Float32 copies of those, beside the kept logits."""


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU, by what they are for."""

    parameters: float
    """float32."""
    gradients: float
    """float32; DDP's buckets are views of them."""
    optimizer: float
    """AdamW's two moments, float32; with ZeRO stage 1 one worker's share."""
    casts: float
    """bfloat16 copies of the weights of matrix products, which autocast keeps for the backward."""
    word_gradient: float
    """float32: a micro-batch's own gradient of the word matrix, before it is added to the others.
    The loss makes it, and behind the layers the embedding makes another."""
    activations: float
    """What the layers keep for the backward pass of a micro-batch."""
    recomputed: float
    """With activation checkpointing: what one layer makes anew, when the logits are gone."""
    logits: float
    """Of one chunk of masked positions."""

    @property
    def state(self) -> float:
        """What does not depend on the micro-batch."""
        return self.parameters + self.gradients + self.optimizer + self.casts

    @property
    def total(self) -> float:
        """All of it, at the peak."""
        peak = max(self.activations + max(self.logits, self.recomputed), self.word_gradient)
        return self.state + self.word_gradient + peak


def layer_bytes_per_token(encoder: EncoderSection, precision: str) -> float:
    """What one layer keeps of one token for its backward pass.

    The residual stream and what norms read is float32 in either precision; what products read
    is of the precision.
    """
    size, inner = encoder.hidden_size, encoder.feed_forward_size
    width = 2 if precision == "bfloat16" else 4
    kept = 2 * 4 * size  # what the two norms read
    kept += width * QUERY_KEY_VALUE_INPUTS * size if precision == "bfloat16" else width * size
    kept += 4 * width * size  # queries, keys, values, and the attention's output
    kept += 4 * encoder.heads  # log of the sums of exponentials, for the backward of attention
    kept += width * size  # what the feed-forward part reads
    kept += width * inner * (4 if encoder.feed_forward == "geglu" else 2)
    if encoder.dropout:
        kept += 2 * size  # masks of one byte behind attention and behind the feed-forward part
    return float(kept)


QUERY_KEY_VALUE_INPUTS = 3
"""Autocast converts the input of each of the three projections for itself."""


def training_memory(
    encoder: EncoderSection,
    rows: int,
    length: int,
    settings: PretrainingSection,
    *,
    masked_share: float,
    workers: int = 1,
) -> Memory:
    """Peak memory of training on one of the workers.

    Args:
        rows: of the vocabulary.
        length: tokens in a row.
        settings: sequences_per_micro_batch, precision, activation_checkpointing and
            shard_optimizer count.
        masked_share: of the tokens that are predicted; the largest of the training.
        workers: that share the optimizer's state.
    """
    parts = parameters_by_part(encoder, rows, length)
    mixed = settings.precision == "bfloat16"
    tokens = settings.sequences_per_micro_batch * length
    layer = layer_bytes_per_token(encoder, settings.precision)
    width = 2 if mixed else 4
    again = settings.activation_checkpointing
    kept = encoder.layers * (4 * encoder.hidden_size if again else layer)  # inputs alone
    embedded = (4 + int(encoder.dropout > 0)) * encoder.hidden_size  # what their norm reads, mask
    masked = masked_share * tokens
    head = masked * (8 + 3 * width) * encoder.hidden_size
    at_once = min(masked, CHUNK_ROWS) * rows
    return Memory(
        parameters=4.0 * parts.total,
        gradients=4.0 * parts.total,
        optimizer=8.0 * parts.total / (workers if settings.shard_optimizer else 1),
        casts=2.0 * (parts.layers + encoder.hidden_size**2) if mixed else 0.0,
        word_gradient=4.0 * parts.words,
        activations=tokens * (kept + embedded) + head,
        recomputed=tokens * layer if again else 0.0,
        logits=width * at_once
        + 4 * FLOAT32_COPIES[settings.precision] * min(at_once, BLOCK_LOGITS),
    )


def largest_micro_batch(
    encoder: EncoderSection,
    rows: int,
    length: int,
    settings: PretrainingSection,
    *,
    masked_share: float,
    workers: int,
    memory_bytes: float,
) -> int:
    """Most sequences_per_micro_batch that fit into a GPU and leave every worker a micro-batch of
    the smallest step; 0 when not even one fits.

    Args:
        memory_bytes: of the GPU, of which USABLE_SHARE is used.
    """

    def fits(sequences: int) -> bool:
        tried = settings.model_copy(update={"sequences_per_micro_batch": sequences})
        needed = training_memory(
            encoder, rows, length, tried, masked_share=masked_share, workers=workers
        )
        return needed.total <= USABLE_SHARE * memory_bytes

    batch = min([settings.sequences_per_step, *(phase.sequences for phase in settings.batches)])
    low, high = 0, max(batch // workers, 1)
    while low < high:  # memory grows with the micro-batch, so halving finds the last that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
