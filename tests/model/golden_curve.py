"""Golden loss curves: what 50 steps of tiny models give on the CPU, in float32, with one thread.

They are stored in tests/model/golden and compared to 1e-6; a change of the numbers is a change of
what training does, and has to be meant. To write them anew:

    python -m tests.model.golden_curve

The text is invented here, row by row, so that they do not depend on the data path before packing.
"""

from __future__ import annotations

import io
import json
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model.checkpoint import latest_complete
from model.distributed import Worker
from model.pretrain import pretrain
from model.pretraining_job import PretrainingJob
from pipelines.core.config import merge
from pipelines.core.store import Store

from .packed import ROWS, SEED, VOCABULARY, make_row, packing, write

GOLDEN = Path(__file__).parent / "golden"
SIZES = {"en": 60, "fi": 20, "sw": 7}
LENGTH = 32
SMALL = {"layers": 2, "hidden_size": 16, "heads": 2, "feed_forward_size": 32, "dropout": 0.1}

CURVES: dict[str, dict[str, Any]] = {
    "xlmr": {
        "encoder": SMALL,
        "pretraining": {"batches": [{"until": 0.3, "sequences": 3}]},
        "masking": {"phases": [{"until": 0.5, "rate": 0.3}]},
    },
    "bert": {
        "mode": "pairs",
        "encoder": {
            **SMALL,
            "first_position": 0,
            "segments": 2,
            "next_sentence": True,
            "norm_epsilon": 1e-12,
        },
    },
    "modern": {
        "mode": "document",
        "encoder": {"preset": "modern", **SMALL},
        "pretraining": {
            "schedule": "trapezoid",
            "decay_share": 0.4,
            "lengths": [{"until": 0.5, "length": 16}],
        },
    },
}


def job_of(name: str, store: Store, scratch: Path) -> PretrainingJob:
    """Write the text of a curve, and give its job."""
    mode = CURVES[name].get("mode", "stream")
    keys = {}
    for language, count in SIZES.items():
        rows = [make_row(f"{language}:{i}", 12 + (i * 7) % 21) for i in range(count)]
        made = packing(LENGTH, mode)
        keys[language] = [write(store, f"{language}.parquet", rows, made, scratch, language)]
    buffer = io.BytesIO()
    np.save(buffer, np.arange(ROWS, dtype=np.int64))
    store.publish_bytes("unigram", buffer.getvalue())
    tree = {
        "seed": SEED,
        "length": LENGTH,
        "rows": ROWS,
        "pretraining": {
            "steps": 50,
            "sequences_per_step": 6,
            "sequences_per_micro_batch": 4,
            "learning_rate": 2e-3,
            "warmup_steps": 5,
            "log_every_steps": 1,
            "evaluate_every_steps": 25,
            "checkpoint_every_minutes": 0.0,
        },
        "evaluation": {"max_sequences_per_language": 4},
        "masking": {"rate": 0.15, "mask_probability": 0.8, "random_probability": 0.1},
        "phases": [{"until": 1.0, "shares": {"en": 0.5, "fi": 0.3, "sw": 0.2}}],
        "train": keys,
        "held_out": {"fi": keys["fi"], "sw": keys["sw"]},
        "unigram": {"path": "unigram"},
        "vocabulary_sha256": VOCABULARY,
    }
    return PretrainingJob.model_validate(merge(tree, CURVES[name]))


def curve_of(name: str, scratch: Path) -> dict[str, Any]:
    """Train, with one thread; losses, gradient norms, learning rates and evaluations."""
    store = Store(str(scratch / "store"))
    job = job_of(name, store, scratch)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        pretrain(job, store, "runs/golden/checkpoints/unit", Worker(), scratch / "cache")
    finally:
        torch.set_num_threads(threads)
    found, _ = latest_complete(store, "runs/golden/checkpoints/unit")
    assert found is not None
    return {key: found.training[key] for key in ("log", "evaluations", "tokens_seen")}


def main() -> None:
    """Write all curves anew."""
    GOLDEN.mkdir(exist_ok=True)
    made = {"torch": torch.__version__, "machine": platform.machine()}
    for name in CURVES:
        with tempfile.TemporaryDirectory() as folder:
            curve = {"made_with": made, **curve_of(name, Path(folder))}
        path = GOLDEN / f"{name}.json"
        path.write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")
        print(f"{path}: loss {curve['log'][0]['loss']:.4f} to {curve['log'][-1]['loss']:.4f}")


if __name__ == "__main__":
    main()
