"""The stream of samples and masks: one and the same at any number of workers, after any restart."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.data.batches import Batch
from model.data.prefetch import Prefetched
from model.data.training_data import PretrainingJob, TrainingData
from model.distributed import Worker
from pipelines.core.store import Store
from tests.model.packed import ROWS, make_row, packing, write

from .test_training_data import CORPUS, SIZES, build, job_of


def workers(world_size: int) -> list[Worker]:
    return [Worker(rank, world_size) for rank in range(world_size)]


def steps_of(
    job: PretrainingJob, store: Store, cache: Path, steps: range, world_size: int, depth: int
) -> list[list[Batch]]:
    """The micro-batches of each step, of all workers, from loaders that begin at these steps."""
    found: list[list[Batch]] = [[] for _ in steps]
    for worker in workers(world_size):
        data = TrainingData(job, store, cache)

        def make(step: int, data: TrainingData = data, worker: Worker = worker) -> list[Batch]:
            return data.micro_batches(step, worker)

        with Prefetched(make, steps, depth) as ready:
            for place, step in enumerate(steps):
                found[place] += ready.take(step)
    return found


def ids_of(steps: list[list[Batch]]) -> list[str]:
    return [name for batches in steps for batch in batches for name in batch.sequence_ids]


# C42: 64 numbered samples, batches of 4, two passes.


@pytest.fixture
def numbered(store: Store, tmp_path: Path) -> PretrainingJob:
    rows = [make_row(f"{i:02}", 20 + i % 9, 2) for i in range(64)]
    buffer = io.BytesIO()
    np.save(buffer, np.arange(ROWS, dtype=np.int64))
    store.publish_bytes("unigram", buffer.getvalue())
    write(store, "numbered.parquet", rows, packing(), tmp_path)
    keys = {"en": ["numbered.parquet"]}
    return job_of(keys, phases=[{"until": 1.0, "shares": {"en": 1.0}}])


def resized(job: PretrainingJob, **changes: Any) -> PretrainingJob:
    section = job.pretraining.model_copy(update=changes)
    return job.model_copy(update={"pretraining": section})


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize(
    ("steps", "batch", "micro", "stop"),
    [(32, 4, 1, 5), (32, 4, 1, 16 + 5), (8, 16, 4, 3)],
    ids=["in the first pass", "in the second pass", "after 12 accumulated micro-batches"],
)
def test_c42_the_log_of_ids_goes_on(
    store: Store,
    tmp_path: Path,
    numbered: PretrainingJob,
    steps: int,
    batch: int,
    micro: int,
    stop: int,
    world_size: int,
    depth: int,
) -> None:
    job = resized(numbered, steps=steps, sequences_per_step=batch, sequences_per_micro_batch=micro)
    cache = tmp_path / "cache"
    straight = steps_of(job, store, cache, range(steps), 1, 0)
    assert (
        sorted(ids_of(straight)[:64])
        == sorted(ids_of(straight)[64:])
        == sorted(f"{i:02}" for i in range(64))
    )
    assert ids_of(straight)[:64] != ids_of(straight)[64:], "the second pass has its own order"
    before = steps_of(job, store, cache, range(stop), world_size, depth)
    after = steps_of(job, store, cache, range(stop, steps), world_size, depth)
    assert ids_of(before) + ids_of(after) == ids_of(straight)
    first = after[0][0]
    assert first.number == 0 and sum(map(len, before)) == stop * (batch // micro)
    assert torch.equal(first.tokens, straight[stop][0].tokens)
    assert torch.equal(first.labels, straight[stop][0].labels)


# Everything that changes with time at once: batches, lengths, masking rates, shares of languages.

MANY: dict[str, Any] = {
    "pretraining": {
        "steps": 30,
        "sequences_per_step": 14,
        "sequences_per_micro_batch": 3,
        "batches": [{"until": 0.1, "sequences": 10}, {"until": 0.4, "sequences": 11}],
        "lengths": [{"until": 0.3, "length": 16}, {"until": 0.7, "length": 32}],
    },
    "masking": {"phases": [{"until": 0.5, "rate": 0.3}, {"until": 1.0, "rate": 0.15}]},
    "phases": [
        {"until": 0.6, "shares": {"en": 0.7, "fi": 0.2, "sw": 0.1}},
        {"until": 1.0, "shares": {"en": 0.2, "fi": 0.4, "sw": 0.4}},
    ],
}


def digest(steps: list[list[Batch]]) -> str:
    """Of ids, masked inputs, positions, labels and document starts of every micro-batch."""
    found = hashlib.sha256()
    for batches in steps:
        for place, batch in enumerate(batches):
            assert batch.number == place, "consecutive, worker after worker"
            found.update(repr(batch.sequence_ids).encode())
            for name in ("tokens", "masked", "labels", "document_starts"):
                tensor = getattr(batch, name)
                found.update(repr(tuple(tensor.shape)).encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def test_the_stream_is_one_at_any_number_of_workers_and_after_any_restart(
    store: Store, tmp_path: Path
) -> None:
    job = job_of(build(store, tmp_path), **MANY)
    plan = job.step_plan
    assert {plan.batch_at(s) for s in range(30)} == {10, 11, 14}
    assert {job.length_at(s) for s in range(30)} == {16, 32, 64}
    cache = tmp_path / "cache"
    straight = steps_of(job, store, cache, range(30), 1, 0)
    order = TrainingData(job, store, cache).plan
    samples = [order.sample(number) for number in range(plan.samples)]
    assert ids_of(straight) == [CORPUS[one.language][one.row].id for one in samples]
    wanted = digest(straight)
    for world_size, depth in ((1, 3), (2, 0), (3, 2), (4, 0)):
        assert digest(steps_of(job, store, cache, range(30), world_size, depth)) == wanted
    for stop, first, second in ((1, 1, 2), (4, 4, 3), (11, 2, 1), (17, 3, 4), (29, 2, 4)):
        before = steps_of(job, store, cache, range(stop), first, 2)
        after = steps_of(job, store, cache, range(stop, 30), second, 2)
        assert digest(before + after) == wanted


def test_micro_batches_are_dealt_out_in_order_and_as_evenly_as_they_can_be(
    store: Store, tmp_path: Path
) -> None:
    data = TrainingData(job_of(build(store, tmp_path), **MANY), store, tmp_path / "cache")
    # 14 sequences in threes are five micro-batches, the last of two.
    last = [[b.number for b in data.micro_batches(29, worker)] for worker in workers(3)]
    assert last == [[0], [1, 2], [3, 4]]
    sizes = [len(b.sequence_ids) for w in workers(3) for b in data.micro_batches(29, w)]
    assert sizes == [3, 3, 3, 3, 2]
    assert [len(data.micro_batches(29, worker)) for worker in workers(7)] == [0, 1, 1, 0, 1, 1, 1]


def test_a_phase_changes_at_the_sample_that_its_share_names(store: Store, tmp_path: Path) -> None:
    job = job_of(build(store, tmp_path), **MANY)
    data, plan = TrainingData(job, store, tmp_path / "cache"), job.step_plan
    for share, value in ((0.3, 16), (0.7, 32)):
        [end] = [s for s in range(1, 30) if job.length_at(s - 1) == value != job.length_at(s)]
        reached = round(share * plan.budget)
        assert plan.first_sample(end - 1) < reached <= plan.first_sample(end)
    counts = dict.fromkeys(SIZES, 0)
    end = plan.end_of(job.phases[0])
    for step in range(end, 30):
        for batch in data.micro_batches(step, Worker()):
            for name in batch.sequence_ids:
                counts[name[:2]] += 1
    drawn = plan.samples - plan.first_sample(end)
    for language, share in job.phases[1].shares.items():
        assert abs(counts[language] - share * drawn) <= 1


def test_a_batch_counts_its_tokens(store: Store, tmp_path: Path) -> None:
    data = TrainingData(job_of(build(store, tmp_path), **MANY), store, tmp_path / "cache")
    for step in (0, 15, 29):
        for batch in data.micro_batches(step, Worker()):
            padding = int((batch.tokens == 1).sum())
            assert batch.padding_tokens == padding
            assert batch.real_tokens == batch.tokens.numel() - padding
            assert batch.masked_tokens == len(batch.labels) > 0


def test_usage_is_that_of_the_whole_training(store: Store, tmp_path: Path) -> None:
    data = TrainingData(job_of(build(store, tmp_path), **MANY), store, tmp_path / "cache")
    drawn = sum(row["draws"] for row in data.usage())
    assert drawn == data.steps.samples == sum(data.steps.batch_at(s) for s in range(30))
