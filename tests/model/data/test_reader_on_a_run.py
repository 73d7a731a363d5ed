"""The reader on what the stages write: modes and units of masking, locally and on an S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.data.batches import Layout, batches_of
from model.data.training_data import PretrainingJob, TrainingData
from model.distributed import Worker
from model.plan import RunInputs, pretraining_job
from pipelines.core.config import merge
from pipelines.core.store import Store
from tests.model.tiny import build, tiny_config
from tests.object_store import found_by_environment, s3_server

SETTINGS: dict[str, dict[str, Any]] = {
    "stream, tokens": {"masking": {"random_from": "uniform", "views": 3}},
    "document, words": {
        "packing": {"mode": "document"},
        "masking": {"unit": "word", "views": 3, "rate": 0.3},
    },
    "pairs, spans": {
        "packing": {"mode": "pairs"},
        "masking": {"unit": "span", "views": 3, "mean_span_words": 2.0},
    },
    "wordpiece, words": {
        "vocabulary": {"kind": "wordpiece", "size": 220},
        "masking": {"unit": "word", "views": 3},
    },
}


def rows_of(store: Store, keys: list[str]) -> list[dict[str, Any]]:
    return pa.concat_tables([pq.read_table(store.path(key)) for key in keys]).to_pylist()


@pytest.mark.parametrize("name", SETTINGS)
def test_computed_masks_are_those_that_the_stage_stores(tmp_path: Path, name: str) -> None:
    store = Store(str(tmp_path / "store"))
    build(store, tiny_config(**SETTINGS[name]))
    job = pretraining_job(RunInputs(store, "tiny"))
    data = TrainingData(job, store, tmp_path / "cache")
    for language, keys in job.train.items():
        rows, numbers = rows_of(store, keys), np.array(data.train.rows_of(language))
        assert len(rows) == len(numbers)
        for view in range(3):
            views = np.full(len(rows), view)
            none = data.train.take(numbers, views - 3)
            assert not none.stored.any()
            computed = batches_of(none, views, data.masker, Layout(job.length, 1))
            for batch, row in zip(computed, rows, strict=True):
                assert batch.sequence_ids == [row["sequence_id"]]
                inputs = list(row["tokens"])
                positions = row["mask_positions"][view]
                for position, token in zip(positions, row["mask_tokens"][view], strict=True):
                    inputs[position] = token
                assert batch.tokens.tolist() == [inputs]
                assert batch.masked.tolist() == positions
                assert batch.labels.tolist() == [row["tokens"][p] for p in positions]
                assert batch.document_starts.tolist() == row["document_starts"]
                if "pairs" in name:
                    assert batch.segments is not None and batch.is_next is not None
                    assert batch.segments.tolist() == [row["segments"]]
                    assert batch.is_next.tolist() == [row["is_next"]]


def test_a_run_whose_masking_rate_changes(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    phases = [{"until": 0.5, "rate": 0.3}, {"until": 1.0, "rate": 0.15}]
    alphas = [{"until": 0.5, "alpha": 0.7}, {"until": 1.0, "alpha": 0.3}]
    config = tiny_config(masking={"phases": phases}, balance={"min_sentences": 1, "phases": alphas})
    build(store, config)
    job = pretraining_job(RunInputs(store, "tiny"))
    assert [phase.until for phase in job.phases] == [0.5, 1.0]
    assert job.phases[0].shares["en"] > job.phases[1].shares["en"]
    data = TrainingData(job, store, tmp_path / "cache")
    for step, rate in ((0, 0.3), (5, 0.3), (6, 0.15), (11, 0.15)):
        for batch in data.micro_batches(step, Worker()):
            for row in range(len(batch.sequence_ids)):
                tokens = batch.tokens.flatten().clone()
                tokens[batch.masked] = batch.labels
                line = tokens.view_as(batch.tokens)[row].numpy()
                ordinary = int((~np.isin(line, sorted(job.special_ids))).sum())
                width = batch.tokens.shape[1]
                masked = int((batch.masked // width == row).sum())
                assert masked == max(1, round(rate * ordinary))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with (
        s3_server(tmp_path_factory.mktemp("s3") / "server") as environment,
        found_by_environment(environment),
    ):
        yield Store("s3://corpora/reader")


def test_from_object_storage_come_the_same_batches(bucket: Store, tmp_path: Path) -> None:
    local = Store(str(tmp_path / "store"))
    build(local, tiny_config())
    for key in local.keys(""):
        bucket.publish_file(Path(local.path(key)), key)
    jobs = [pretraining_job(RunInputs(store, "tiny")) for store in (local, bucket)]
    assert jobs[0] == jobs[1]
    facts = TrainingData(jobs[0], local, tmp_path / "local")
    small = PretrainingJob.model_validate(
        merge(jobs[1].model_dump(mode="json"), {"pretraining": {"cache_gb": 0.0004}})
    )
    for number, job in enumerate((jobs[1], small)):
        data = TrainingData(job, bucket, tmp_path / f"remote-{number}")
        for step in range(0, 12, 3):
            pairs = zip(
                data.micro_batches(step, Worker(1, 2)),
                facts.micro_batches(step, Worker(1, 2)),
                strict=True,
            )
            for ours, theirs in pairs:
                assert ours.sequence_ids == theirs.sequence_ids
                assert ours.tokens.tolist() == theirs.tokens.tolist()
                assert ours.labels.tolist() == theirs.labels.tolist()
