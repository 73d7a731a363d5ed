"""What rebalancing buys the small languages and costs the large ones: held-out loss by language.

The same small encoder is trained with alpha = 1 (languages in their natural shares) and with
alpha = 0.3 (XLM-R's), on the same text, packed sequences, vocabulary and budget, each with three
seeds. A seed decides the initial weights, the order of samples and all masks; runs of one seed are
evaluated on the same masked tokens, 15 % of held-out text. Two processes of one thread each run at
a time. The picture is written to model/learning-curves.png.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from flows.config import RunConfig
from pipelines.core.hashing import stable_uint64
from pipelines.core.store import Store
from pipelines.rebalance.shares import sampling_plan
from tests.benchmarks.learning_corpus import Texts, build, read_texts
from tests.benchmarks.learning_picture import save_picture

PICTURE = Path(__file__).resolve().parents[2] / "model" / "learning-curves.png"
ALPHAS = (1.0, 0.3)
SEEDS = (1, 2, 3)
AT_A_TIME = 2
MOST_REPEATS = 1000.0
"""No cap on repeats: alpha alone is to decide."""


@dataclass(frozen=True)
class Size:
    """How much is trained."""

    steps: int = 800
    evaluations: int = 10
    """Beside the one before training."""
    vocabulary: int = 12_000
    seeds: tuple[int, ...] = SEEDS


def run(data: Path) -> dict[str, Any]:
    """Figures of the benchmark, and its picture."""
    origin, texts = read_texts(data)
    with tempfile.TemporaryDirectory(prefix="babelmill-learning-") as folder:
        figures = {"text": origin, **learn(texts, Path(folder), Size())}
    save_picture(figures, PICTURE)
    return figures


def learn(texts: Texts, folder: Path, size: Size) -> dict[str, Any]:
    """Train with each alpha and each seed; the figures."""
    store, config = Store(str(folder / "store")), config_of(size)
    sizes = build(store, config, texts)
    jobs = {
        (alpha, seed): job_of(store, config.run.name, alpha, seed, sizes)
        for seed in size.seeds
        for alpha in ALPHAS
    }
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes to come
    with ProcessPoolExecutor(AT_A_TIME, mp_context=get_context("spawn")) as pool:
        running = {
            key: pool.submit(train, job, store.url, f"learning/{key[0]}-{key[1]}", str(folder))
            for key, job in jobs.items()
        }
        records = {key: future.result() for key, future in running.items()}
    return figures_of(records, sizes)


def config_of(size: Size) -> RunConfig:
    """The run: the demo's encoder and its settings of training."""
    tree = {
        "run": {"name": "learning", "seed": 1},
        "sources": [{"kind": "local_files", "paths": ["texts"]}],
        "balance": {"unit": "characters", "max_repeats": MOST_REPEATS},
        "vocabulary": {
            "size": size.vocabulary,
            "normalization": "nmt_nfkc_joiners",
            "num_threads": AT_A_TIME,
        },
        "packing": {"length": 128, "held_out_share": 0.1, "max_held_out_documents": 300},
        "encoder": {"preset": "demo"},
        "pretraining": {
            "steps": size.steps,
            "sequences_per_step": 24,
            "sequences_per_micro_batch": 24,
            "learning_rate": 4e-3,
            "warmup_steps": max(1, size.steps // 16),
            "log_every_steps": max(1, size.steps // 20),
            "evaluate_every_steps": max(1, size.steps // size.evaluations),
            "checkpoint_every_steps": size.steps,
            "keep_checkpoints": 1,
        },
        "evaluation": {"max_sequences_per_language": 64},
        "cluster": {"num_workers": 1},
    }
    return RunConfig.model_validate(tree)


def job_of(
    store: Store, run: str, alpha: float, seed: int, sizes: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """What one training reads: the run's job with shares and a seed of its own."""
    from model.plan import RunInputs, pretraining_job

    job = pretraining_job(RunInputs(store, run)).model_dump(mode="json")
    counts = {tag: sizes[tag]["characters"] for tag in job["train"]}
    shares = {row.language: row.q for row in sampling_plan(counts, alpha, MOST_REPEATS)}
    return job | {
        "seed": stable_uint64("learning", seed) >> 33,
        "phases": [{"until": 1.0, "shares": shares}],
    }


def train(job: Mapping[str, Any], url: str, folder: str, scratch: str) -> dict[str, Any]:
    """Train in this process on one thread; the record of the training."""
    import torch

    from model.checkpoint import latest_complete
    from model.distributed import Worker
    from model.pretrain import pretrain
    from model.pretraining_job import PretrainingJob

    torch.set_num_threads(1)
    store, cache = Store(url), Path(scratch) / "cache"
    pretrain(PretrainingJob.model_validate(job), store, folder, Worker(), cache)
    found, _ = latest_complete(store, folder)
    if found is None:
        raise RuntimeError(f"training left no checkpoint in {folder}")
    length = job["length"]
    drawn = {row["language"]: row["draws"] * length for row in found.training["usage"]}
    parts = ("evaluations", "unigram", "tokens_seen")
    return {"drawn": drawn, **{part: found.training[part] for part in parts}}


def figures_of(
    records: Mapping[tuple[float, int], Mapping[str, Any]], sizes: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Means and ranges over seeds, by language, the largest first.

    `cost` is the loss with the second alpha minus that with the first, seed by seed: below 0 the
    language gains.
    """
    alphas = list(dict.fromkeys(alpha for alpha, _ in records))
    seeds = list(dict.fromkeys(seed for _, seed in records))
    first = records[alphas[0], seeds[0]]
    languages = sorted(
        first["evaluations"][0]["languages"], key=lambda tag: (-sizes[tag]["characters"], tag)
    )
    found: dict[str, Any] = {}
    for tag in languages:
        ends = {
            alpha: [curve_of(records[alpha, seed], tag)[-1] for seed in seeds] for alpha in alphas
        }
        baseline = [loss(records[alphas[0], seed]["unigram"][tag]) for seed in seeds]
        found[tag] = {
            "characters": sizes[tag]["characters"],
            "held_out_masked_tokens": first["unigram"][tag]["tokens"],
            "unigram": spread(baseline),
            **{
                f"alpha_{alpha:g}": {
                    "trained_tokens": records[alpha, seeds[0]]["drawn"][tag],
                    "loss": spread(ends[alpha]),
                }
                for alpha in alphas
            },
            "cost": spread([b - a for a, b in zip(ends[alphas[0]], ends[alphas[1]], strict=True)]),
        }
    curves = {
        f"alpha_{alpha:g}": {
            tag: [spread(list(point)) for point in zip(*lines, strict=True)]
            for tag in languages
            for lines in [[curve_of(records[alpha, seed], tag) for seed in seeds]]
        }
        for alpha in alphas
    }
    last = first["evaluations"][-1]["step"]
    return {
        "seeds": len(seeds),
        "tokens_of_a_run": first["tokens_seen"],
        "languages": found,
        "mean_over_languages": {
            f"alpha_{alpha:g}": sum(
                found[tag][f"alpha_{alpha:g}"]["loss"]["mean"] for tag in languages
            )
            / len(languages)
            for alpha in alphas
        },
        "curves": {
            "progress": [row["step"] / last for row in first["evaluations"]],
            **curves,
        },
    }


def curve_of(record: Mapping[str, Any], language: str) -> list[float]:
    """Held-out loss of a language at each evaluation."""
    return [loss(row["languages"][language]) for row in record["evaluations"]]


def loss(sums: Mapping[str, float]) -> float:
    """Nats per masked token."""
    return sums["loss_sum"] / sums["tokens"]


def spread(values: list[float]) -> dict[str, float]:
    """Mean and range over seeds."""
    return {
        "mean": round(sum(values) / len(values), 4),
        "least": round(min(values), 4),
        "most": round(max(values), 4),
    }
