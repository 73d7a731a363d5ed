"""The reader for training: tokens per second of one core, against torch's DataLoader with
`datasets` and DataCollatorForLanguageModeling on the same packed rows; and its share of a step."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.hf_rows import tokenizer_and_rows
from tests.benchmarks.machine import on_one_core

ROWS = 250_002
DEMO_ROWS = 12_002
LENGTHS = (128, 512)
TOKENS = 16_000_000
SHARES = {"en": 0.5, "fi": 0.3, "sw": 0.2}
BATCH, MICRO = 1024, 32
"""Sequences of a step: the default's 8192, on eight workers."""
OUR_STEPS, PEER_STEPS, MODEL_STEPS = 6, 1, 60


def run(data: Path) -> dict[str, Any]:
    """Measure in a process of its own, bound to one core; invented ids need no data."""
    del data
    with tempfile.TemporaryDirectory() as folder:
        command = on_one_core([sys.executable, "-m", "tests.benchmarks.reader", folder])
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": f"{folder}/hf"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, cwd=Path.cwd()
        )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(folder: Path) -> dict[str, Any]:
    """All figures."""
    import torch

    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    for length in LENGTHS:
        ours = our_speeds(folder / str(length), length)
        peer = peer_speed(folder / str(length), length)
        figures[f"length {length}"] = {
            **ours,
            "datasets_and_collator": {"tokens_per_second_per_core": peer},
            "times_the_peer": {
                name: round(part["tokens_per_second_per_core"] / peer, 1)
                for name, part in ours.items()
                if name.endswith("masks")
            },
        }
    figures["demo step"] = share_of_step(folder / "demo")
    return figures


def write_corpus(folder: Path, length: int, rows: int, tokens: int) -> tuple[Any, dict[str, Any]]:
    """Packed files of three languages with one stored view; the store and what a job needs."""
    from pipelines.core.masking import MaskingRule, UnigramSampler, mask_keys, mask_sequences
    from pipelines.core.records import PackedFormat
    from pipelines.core.store import Store, local_file, write_parquet

    store, special = Store(str(folder / "store")), frozenset({0, 1, 2, 3, rows - 1})
    schema = PackedFormat(rows, "stream", length, "").schema
    weights = 1.0 / np.arange(1, rows - 4)
    counts = np.concatenate([np.zeros(4), weights * 1e9, [0]]).astype(np.int64)
    rule, sampler = MaskingRule(0.15, 0.8, 0.1, rows - 1, special), UnigramSampler(counts, special)
    buffer = io.BytesIO()
    np.save(buffer, counts)
    store.publish_bytes("unigram", buffer.getvalue())
    keys: dict[str, list[str]] = {}
    rng = np.random.default_rng(0)
    for language in SHARES:
        number = tokens // length // len(SHARES)
        ids = rng.choice(rows - 5, (number, length), p=weights / weights.sum()).astype(np.uint32)
        ids += np.uint32(4)
        ids[:, 0], ids[:, -1] = 0, 2
        names = [f"{language}-{i:028d}:{i}" for i in range(number)]
        offsets = np.arange(number + 1) * length
        masks = mask_sequences(ids.ravel(), offsets, mask_keys(0, 0, names), rule, sampler)

        def lists(ends: Any, values: Any) -> pa.ListArray:
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)

        one = np.arange(number + 1)
        id_type = schema.field("tokens").type.value_type
        columns = [
            pa.array(names),
            pa.array([language] * number),
            lists(offsets, pa.array(ids.ravel(), id_type)),
            lists(one, pa.array(np.ones(number), pa.int32())),
            lists(one, lists(masks.offsets, pa.array(masks.positions, pa.uint16()))),
            lists(one, lists(masks.offsets, pa.array(masks.tokens, id_type))),
            lists(one, pa.array(names)),
        ]
        keys[language] = [f"packed/{language}/part.parquet"]
        table = pa.Table.from_arrays(
            [c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
        )
        with local_file() as path:
            write_parquet(table, path)
            store.publish_file(path, keys[language][0])
    job = {
        "seed": 0,
        "length": length,
        "rows": rows,
        "encoder": {},
        "pretraining": {
            "steps": 10**6,
            "sequences_per_step": BATCH,
            "sequences_per_micro_batch": MICRO,
        },
        "evaluation": {},
        "masking": {"rate": 0.15, "mask_probability": 0.8, "random_probability": 0.1},
        "phases": [{"until": 1.0, "shares": SHARES}],
        "train": keys,
        "held_out": {},
        "unigram": {"path": "unigram"},
    }
    return store, job


def speed(make: Callable[[int], int], steps: int) -> float:
    """Tokens per second of processor time, best of three rounds; `make(step)` returns its tokens.

    One thread does the work, so that processor time is what an idle core would take.
    """
    make(0)
    best = 0.0
    for turn in range(3):
        began, tokens = time.process_time(), 0
        for step in range(steps):
            tokens += make(turn * steps + step)
        best = max(best, tokens / (time.process_time() - began))
    return round(best)


def our_speeds(folder: Path, length: int) -> dict[str, Any]:
    """Stored masks, computed masks, and how fast files are brought to the disk."""
    from model.data.training_data import TrainingData
    from model.distributed import Worker
    from model.pretraining_job import PretrainingJob
    from pipelines.core.config import merge

    store, tree = write_corpus(folder, length, ROWS, TOKENS)
    began = time.process_time()
    TrainingData(PretrainingJob.model_validate(tree), store, folder / "cache")
    brought = TOKENS / (time.process_time() - began)
    changes: dict[str, dict[str, Any]] = {
        "stored_masks": {},
        "computed_masks": {"masking": {"phases": [{"until": 1.0, "rate": 0.1500001}]}},
    }
    if length == 512:
        fold = {"lengths": [{"until": 1.0, "length": 128}]}
        changes["stored_masks_folded_to_128"] = {"pretraining": fold}
    found: dict[str, Any] = {"brought_to_disk": {"tokens_per_second_per_core": round(brought)}}
    for name, change in changes.items():
        job = PretrainingJob.model_validate(merge(tree, change))
        data = TrainingData(job, store, folder / "cache")

        def make(step: int, data: TrainingData = data) -> int:
            return sum(batch.real_tokens for batch in data.micro_batches(step, Worker()))

        found[name] = {"tokens_per_second_per_core": speed(make, OUR_STEPS)}
    return found


def peer_speed(folder: Path, length: int) -> float:
    """`datasets` on the same Parquet, random order, masks by the collator, no loader process."""
    import torch
    from transformers import DataCollatorForLanguageModeling

    tokenizer, rows = tokenizer_and_rows(folder, ROWS, length)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    loader = torch.utils.data.DataLoader(rows, MICRO, shuffle=True, collate_fn=collator)
    batches = iter(loader)

    def make(step: int) -> int:
        return sum(next(batches)["input_ids"].numel() for _ in range(BATCH // MICRO))

    return speed(make, PEER_STEPS)


def share_of_step(folder: Path) -> dict[str, Any]:
    """What the loader takes of the demo's training step, on one core for both."""
    from model.data.prefetch import Prefetched
    from model.data.training_data import TrainingData
    from model.distributed import Worker
    from model.learner import build_learner
    from model.optimizer import set_learning_rate
    from model.pretraining_job import PretrainingJob
    from model.update import update
    from pipelines.core.config import merge

    store, tree = write_corpus(folder, 128, DEMO_ROWS, 2_000_000)
    batch = {"sequences_per_step": 24, "sequences_per_micro_batch": 12}
    sizes = {"layers": 2, "hidden_size": 128, "heads": 2, "feed_forward_size": 512, "dropout": 0.0}
    job = PretrainingJob.model_validate(merge(tree, {"pretraining": batch, "encoder": sizes}))
    data, learner = TrainingData(job, store, folder / "cache"), build_learner(job, Worker())
    set_learning_rate(learner.optimizer, 1e-4)
    loading = 0.0
    began = time.process_time()
    for step in range(MODEL_STEPS):
        before = time.process_time()
        parts = data.micro_batches(step, Worker())
        loading += time.process_time() - before
        update(learner, parts, step)
    whole = time.process_time() - began
    make = partial(data.micro_batches, worker=Worker())
    began = time.perf_counter()
    with Prefetched(make, range(MODEL_STEPS), depth=4) as ready:
        for step in range(MODEL_STEPS):
            parts = ready.take(step)
            update(learner, parts, step)
        ahead = time.perf_counter() - began
    return {
        "milliseconds_per_step": round(1000 * whole / MODEL_STEPS, 2),
        "loader_milliseconds_per_step": round(1000 * loading / MODEL_STEPS, 3),
        "loader_share": round(loading / whole, 5),
        "share_waited_with_prefetch": round(ready.waited_seconds / ahead, 5),
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
