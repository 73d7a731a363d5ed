"""xlmr-large as it trains on one GPU: bf16, compiled layers, 512 tokens, 15 % masked.

Twice: stream-packed rows, and documents apart with the variable-length kernel. The target is 40 %
MFU (model/cost.py; published encoder runs are at 11 to 39 %). There is no peer in the run: the
figure is absolute, the peak being the maker's for bfloat16 without sparsity. Skipped without a GPU.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.benchmarks.machine import Skipped

if TYPE_CHECKING:
    import torch

    from model.config import EncoderSection
    from model.data.batches import Batch

ROWS, LENGTH, MASKED_SHARE, DOCUMENT = 250_002, 512, 0.15, 170
"""`DOCUMENT`: tokens of a document on average, where documents are apart."""
WARM_UP, STEPS = 6, 20
MICRO_BATCHES = (128, 96, 64, 48, 32, 16, 8)
"""Sequences at once: the first that fits is measured."""


def run(data: Path) -> dict[str, Any]:
    """Measure the first GPU.

    Raises:
        Skipped: there is none.
    """
    import torch

    from model.config import EncoderSection

    del data
    if not torch.cuda.is_available():
        raise Skipped("needs a CUDA device")
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    section = EncoderSection(preset="xlmr-large", attention_dropout=0.0)
    return {
        "device": torch.cuda.get_device_name(device),
        "target_mfu": 0.4,
        "stream": largest_that_fits(section, device, apart=False),
        "documents_apart": largest_that_fits(section, device, apart=True),
    }


def largest_that_fits(
    section: EncoderSection, device: torch.device, *, apart: bool
) -> dict[str, Any]:
    """Measure with the largest micro-batch that the memory allows."""
    import torch

    for size in MICRO_BATCHES:
        try:
            return measure(section, device, size=size, apart=apart)
        except torch.cuda.OutOfMemoryError:
            pass
        gc.collect()  # the error held on to the model that did not fit
        torch.cuda.empty_cache()
    raise Skipped(f"not even {MICRO_BATCHES[-1]} sequences fit")


def measure(
    section: EncoderSection,
    device: torch.device,
    *,
    size: int,
    apart: bool,
    rows: int = ROWS,
    length: int = LENGTH,
    compiled: bool = True,
    steps: int = STEPS,
) -> dict[str, Any]:
    """Median time of whole updates: batches to the device, forward, backward, clip, AdamW.

    Returns:
        tokens per second, MFU where the device's peak is known, memory peak in bytes, recompiles
        after the first steps.
    """
    import torch
    from torch._dynamo.utils import counters

    from model.compilation import compile_layers
    from model.config import PretrainingSection
    from model.cost import peak_flops, training_flops_per_token
    from model.distributed import Worker
    from model.encoder import Encoder
    from model.heads import MaskedLanguageModel
    from model.learner import Learner
    from model.optimizer import build_optimizer, set_learning_rate
    from model.throughput import memory_peak
    from model.update import update

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)  # of sizes that did not fit
    worker = Worker(device=device)
    settings = PretrainingSection(
        precision="bfloat16",
        compile=compiled,
        sequences_per_step=size,
        sequences_per_micro_batch=size,
    )
    torch.manual_seed(0)
    model = MaskedLanguageModel(Encoder(section, rows, length)).to(device)
    if compiled:
        compile_layers(model.encoder)
    learner = Learner(
        0, settings, worker, model, worker.wrap(model), build_optimizer(model, settings, worker)
    )
    set_learning_rate(learner.optimizer, 1e-4)
    rng = np.random.default_rng(5)
    seconds, graphs = [], 0
    for step in range(WARM_UP + steps):
        batch = invented_batch(rng, size, rows, length, apart=apart)
        began = time.perf_counter()
        result = update(learner, [batch], step)  # it reads the loss, and so waits for the device
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - began)
        if step == WARM_UP - 1:
            graphs = counters["stats"]["unique_graphs"]
    tokens_per_second = size * length / statistics.median(seconds[WARM_UP:])
    share = result.masked / result.real
    found: dict[str, Any] = {
        "sequences": size,
        "tokens_per_second": tokens_per_second,
        "masked_share": share,
        "memory_peak_bytes": memory_peak(device),
        "recompiles_after_warm_up": counters["stats"]["unique_graphs"] - graphs,
        "last_loss": result.loss,
    }
    peak = peak_flops(device)
    if peak is not None:
        flops = training_flops_per_token(section, rows, length, share)
        found["mfu"] = tokens_per_second * flops / peak
    return found


def invented_batch(
    rng: np.random.Generator, size: int, rows: int, length: int, *, apart: bool
) -> Batch:
    """Full rows of ids by Zipf's law; where documents are apart, each begins at a random place."""
    import torch

    from model.data.batches import Batch

    ids = np.minimum(rng.zipf(1.2, size=size * length) + 4, rows - 2)
    starts = np.arange(0, size * length, length)
    ids[starts] = 0
    if apart:
        more = rng.choice(size * length, size=size * length // DOCUMENT, replace=False)
        starts = np.union1d(starts, more)
    count = round(MASKED_SHARE * size * length)
    masked = np.sort(rng.choice(size * length, size=count, replace=False))
    labels = ids[masked]
    ids[masked] = rows - 1
    fields: Mapping[str, Any] = {
        "tokens": torch.from_numpy(ids.reshape(size, length)),
        "masked": torch.from_numpy(masked),
        "labels": torch.from_numpy(labels),
        "real_tokens": size * length,
        "sequence_ids": [f"invented-{i}" for i in range(size)],
        "document_starts": torch.from_numpy(starts),
        "documents_apart": apart,
    }
    return Batch(**fields)
