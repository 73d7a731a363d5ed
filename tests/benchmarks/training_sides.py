"""One side of the benchmark of training end to end, loader included, in this process, measured.

`ours`: packed files, prefetch and the update of the loop, one worker, no Ray. The peer is what
run_mlm.py sets up: transformers' Trainer with DataCollatorForLanguageModeling over `datasets`, on
the same rows, already tokenized and grouped. Its collator is given the mask of special tokens, as
run_mlm.py stores it.

python -m tests.benchmarks.training_sides SIDE PRECISION STEPS FOLDER -> one JSON line
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.hf_rows import tokenizer_and_rows
from tests.benchmarks.step_sides import (
    HEADS,
    INNER,
    LAYERS,
    LENGTH,
    ROWS,
    SEQUENCES,
    SIZE,
    WARM_UP,
    hugging_face_model,
)
from tests.peak_memory import peak_megabytes

os.environ["HF_HUB_OFFLINE"] = "1"


def write(folder: Path) -> None:
    """The packed rows that both sides read, and what our side's job is made of."""
    from tests.benchmarks.reader import write_corpus

    _, tree = write_corpus(folder, LENGTH, ROWS, 2000 * LENGTH)
    (folder / "job.json").write_text(json.dumps(tree), encoding="utf-8")


def ours(folder: Path, precision: str, steps: int) -> list[float]:
    """Seconds of each step."""
    from model.data.prefetch import Prefetched
    from model.data.training_data import TrainingData
    from model.distributed import Worker
    from model.learner import build_learner
    from model.optimizer import set_learning_rate
    from model.pretraining_job import PretrainingJob
    from model.update import update
    from pipelines.core.config import merge
    from pipelines.core.store import Store

    changes: dict[str, Any] = {
        "encoder": {
            "layers": LAYERS,
            "hidden_size": SIZE,
            "heads": HEADS,
            "feed_forward_size": INNER,
        },
        "pretraining": {
            "sequences_per_step": SEQUENCES,
            "sequences_per_micro_batch": SEQUENCES,
            "precision": precision,
        },
    }
    tree = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    job = PretrainingJob.model_validate(merge(tree, changes))
    data = TrainingData(job, Store(str(folder / "store")), folder / "cache")
    learner = build_learner(job, Worker())
    set_learning_rate(learner.optimizer, 1e-4)
    ends = []
    make = partial(data.micro_batches, worker=Worker())
    with Prefetched(make, range(steps), job.pretraining.prefetch_steps) as ready:
        for step in range(steps):
            update(learner, ready.take(step), step)
            ends.append(time.perf_counter())
    return [after - before for before, after in zip(ends[:-1], ends[1:], strict=True)]


def theirs(folder: Path, precision: str, steps: int) -> list[float]:
    """Seconds of each step."""
    from transformers import (
        DataCollatorForLanguageModeling,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    tokenizer, rows = tokenizer_and_rows(folder, ROWS, LENGTH)
    ends = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            ends.append(time.perf_counter())

    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=SEQUENCES,
        max_steps=steps,
        learning_rate=1e-4,
        weight_decay=0.01,
        use_cpu=True,
        bf16=precision == "bfloat16",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    Trainer(
        model=hugging_face_model(),
        args=arguments,
        train_dataset=rows,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
        callbacks=[Clock()],
    ).train()
    return [after - before for before, after in zip(ends[:-1], ends[1:], strict=True)]


def main() -> None:
    import torch

    side, precision, steps, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    seconds = {"ours": ours, "theirs": theirs}[side](folder, precision, WARM_UP + steps)
    print(
        json.dumps(
            {
                "tokens_per_second": SEQUENCES * LENGTH / statistics.median(seconds[WARM_UP - 1 :]),
                "seconds_per_step": [round(s, 4) for s in seconds],
                "peak_megabytes": peak_megabytes(),
                "threads": torch.get_num_threads(),
            }
        )
    )


if __name__ == "__main__":
    main()
