"""A cache that cannot hold one packed file is found in the driver."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from model import run_train
from model.config import EncoderSection, EvaluationSection, PretrainingSection
from model.data.cache_check import check_cache
from model.data.packed_files import FileCache
from model.pretraining_job import MaskingSettings, PretrainingJob, SharesPhase
from pipelines.core.config import ConfigError
from pipelines.core.manifest import FileRef
from pipelines.core.shards import Unit
from pipelines.core.store import Store
from tests.model.packed import ROWS, make_row, packing, write

MADE = packing()


def job_with(keys: list[str], cache_gb: float | None) -> PretrainingJob:
    return PretrainingJob(
        seed=1,
        length=MADE.length,
        rows=ROWS,
        encoder=EncoderSection(layers=1, hidden_size=8, heads=1, feed_forward_size=8),
        pretraining=PretrainingSection(steps=2, warmup_steps=0, cache_gb=cache_gb),
        evaluation=EvaluationSection(),
        masking=MaskingSettings(rate=0.15, mask_probability=0.8, random_probability=0.1),
        phases=[SharesPhase(until=1.0, shares={"en": 1.0})],
        train={"en": keys[:1]},
        held_out={"en": keys[1:]},
        unigram=FileRef(path="unigram"),
        vocabulary_sha256=MADE.vocabulary,
    )


@pytest.fixture
def packed(store: Store, tmp_path: Path) -> list[FileRef]:
    """A file to train on and a larger one that is held out."""
    keys = [
        write(store, f"packed/{n}.parquet", [make_row(f"{n}-{i}", 40) for i in range(n)], MADE, at)
        for n, at in ((50, tmp_path / "a"), (400, tmp_path / "b"))
    ]
    return [FileRef(path=key, size=store.size(key)) for key in keys]


def test_the_largest_file_has_to_fit(store: Store, tmp_path: Path, packed: list[FileRef]) -> None:
    keys = [ref.path for ref in packed]
    sizes = [FileCache(store, tmp_path / "c", MADE).facts(key).cached_bytes for key in keys]
    assert sizes[0] < sizes[1]
    others = [FileRef(path="balance", size=10**12), FileRef(path="unigram")]
    for bound in (None, sizes[1] / 1e9):
        check_cache(job_with(keys, bound), store, [*others, *packed])
    for bound in (sizes[0], sizes[1] - 1):
        said = r"cache_gb = .* is smaller than one file: packed/400\.parquet takes up to"
        with pytest.raises(ConfigError, match=said):
            check_cache(job_with(keys, bound / 1e9), store, [*others, *packed])
    check_cache(job_with(keys, 1e-9), store, others)  # sizes that nobody knows


def test_no_worker_is_started(
    store: Store, packed: list[FileRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: Any) -> None:
        raise AssertionError("a group of workers")

    monkeypatch.setattr(run_train, "train_on_ray", started)
    job = job_with([ref.path for ref in packed], 1e-6).model_dump(mode="json") | {"cluster": {}}
    arguments = {"cluster": {}, "pretraining": {}, "run": "tiny"}
    attempt: Any = SimpleNamespace(store=store, unit_id="unit")
    with pytest.raises(ConfigError, match="smaller than one file"):
        run_train.pretrain_unit(Unit("pretrain", tuple(packed), arguments), job, attempt)
