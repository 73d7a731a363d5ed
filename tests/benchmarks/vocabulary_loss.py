"""The loss over 250,002 rows: ours against torch's own `linear_cross_entropy`, plain and chunked.

CPU seconds of forward and backward on one thread, the ways one after the other in each turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS, HIDDEN = 250_002, 384
MASKED = (154, 614)
"""15 % of 4 x 256 and of 16 x 256 tokens."""
TURNS = 3


def run(data: Path) -> dict[str, Any]:
    """Figures by number of masked positions."""
    import torch

    del data
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {f"{masked} masked": figures_of(masked) for masked in MASKED}
    finally:
        torch.set_num_threads(threads)


def figures_of(masked: int) -> dict[str, Any]:
    """Medians, ratios, and how far the losses are apart."""
    import torch
    from torch.nn.functional import linear_cross_entropy

    from model.losses import chunked_cross_entropy

    torch.manual_seed(0)
    hidden, weight = torch.randn(masked, HIDDEN), torch.randn(ROWS, HIDDEN) * 0.02
    bias, labels = torch.zeros(ROWS), torch.randint(0, ROWS, (masked,))

    def of_torch(options: Any) -> Callable[..., torch.Tensor]:
        def loss(h: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return linear_cross_entropy(
                h, w, labels, linear_bias=b, reduction="sum", options=options
            )

        return loss

    ways: dict[str, Callable[..., torch.Tensor]] = {
        "ours": lambda h, w, b: chunked_cross_entropy(h, w, b, labels),
        "torch_plain": of_torch(None),
        "torch_chunked": of_torch(torch.nn.LinearCrossEntropyOptions()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    losses: dict[str, float] = {}
    for _ in range(TURNS):
        for name, way in ways.items():
            tensors = [t.clone().requires_grad_() for t in (hidden, weight, bias)]
            began = time.process_time()
            loss = way(*tensors)
            loss.backward()
            seconds[name].append(time.process_time() - began)
            losses[name] = loss.item()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "cpu_seconds": {name: round(value, 3) for name, value in medians.items()},
        "times_as_fast_as_torch_plain": medians["torch_plain"] / medians["ours"],
        "times_as_fast_as_torch_chunked": medians["torch_chunked"] / medians["ours"],
        "largest_relative_difference": max(
            abs(value / losses["ours"] - 1) for value in losses.values()
        ),
    }
