"""One side of the benchmark of a training step, in this process, measured.

Forward, backward, clip and AdamW on the same masked ids. `ours` predicts at masked positions; the
peer is transformers' XLMRobertaForMaskedLM with labels of -100 elsewhere, as run_mlm trains it,
which computes logits at all positions. Both use torch's fused AdamW.

python -m tests.benchmarks.step_sides SIDE PRECISION STEPS -> one JSON line
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.peak_memory import peak_megabytes

if TYPE_CHECKING:
    import torch

os.environ["HF_HUB_OFFLINE"] = "1"

ROWS, LENGTH, SEQUENCES = 250_002, 256, 4
LAYERS, SIZE, HEADS, INNER = 6, 384, 6, 1536
MASKED = round(0.15 * LENGTH * SEQUENCES)
WARM_UP = 2

Masked = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]


def masked_batch(rng: np.random.Generator) -> Masked:
    """Ids by Zipf's law with <mask> at 15 % of them, positions of the masks, and ids there."""
    import torch

    ids = np.minimum(rng.zipf(1.2, size=(SEQUENCES, LENGTH)) + 4, ROWS - 2)
    ids[:, 0], ids[:, -1] = 0, 2
    places = np.sort(rng.choice(ids.size, size=MASKED, replace=False))
    labels = ids.reshape(-1)[places]
    ids.reshape(-1)[places] = ROWS - 1
    return torch.from_numpy(ids), torch.from_numpy(places), torch.from_numpy(labels)


def ours() -> tuple[torch.nn.Module, Callable[[Masked], torch.Tensor]]:
    """Our model and its mean loss."""
    from model.config import EncoderSection
    from model.encoder import Encoder
    from model.heads import MaskedLanguageModel

    section = EncoderSection(layers=LAYERS, hidden_size=SIZE, heads=HEADS, feed_forward_size=INNER)
    model = MaskedLanguageModel(Encoder(section, ROWS, LENGTH))

    def loss(batch: Masked) -> torch.Tensor:
        found: torch.Tensor = model(*batch)[0] / MASKED
        return found

    return model, loss


def theirs() -> tuple[torch.nn.Module, Callable[[Masked], torch.Tensor]]:
    """transformers' model and its mean loss."""
    import torch

    model = hugging_face_model()

    def loss(batch: Masked) -> torch.Tensor:
        tokens, places, ids = batch
        labels = torch.full((tokens.numel(),), -100)
        labels[places] = ids
        found: torch.Tensor = model(
            input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=labels.view_as(tokens)
        ).loss
        return found

    return model, loss


def hugging_face_model() -> Any:
    """XLMRobertaForMaskedLM of the same sizes, with torch's attention."""
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

    config = XLMRobertaConfig(
        vocab_size=ROWS,
        hidden_size=SIZE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=LENGTH + 2,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        attn_implementation="sdpa",
    )
    return XLMRobertaForMaskedLM(config)


def main() -> None:
    import torch

    from model.optimizer import build_adamw, set_learning_rate

    side, precision, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.manual_seed(0)
    rng = np.random.default_rng(5)
    model, loss_of = {"ours": ours, "theirs": theirs}[side]()
    optimizer = build_adamw(model, weight_decay=0.01, betas=(0.9, 0.98), epsilon=1e-6)
    set_learning_rate(optimizer, 1e-4)
    seconds, losses = [], []
    for _ in range(WARM_UP + steps):
        batch = masked_batch(rng)
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = loss_of(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - began)
        losses.append(loss.item())
    print(
        json.dumps(
            {
                "tokens_per_second": SEQUENCES * LENGTH / statistics.median(seconds[WARM_UP:]),
                "seconds_per_step": [round(s, 4) for s in seconds],
                "peak_megabytes": peak_megabytes(),
                "threads": torch.get_num_threads(),
                "last_loss": losses[-1],
            }
        )
    )


if __name__ == "__main__":
    main()
