"""What the model path reads beside packed sequences is what its stage wrote, or is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save as tensors_to_bytes

from model.config import ClassificationTask
from model.data.training_data import TrainingData
from model.encoder import Encoder
from model.export_stage import export_step, export_units
from model.finetune import FinetuningJob, build_classifier
from model.heads import MaskedLanguageModel
from model.plan import RunInputs, finetuning_units, pretraining_job
from pipelines.core.shards import Attempt, StageFailed, Step, Unit, run_step
from pipelines.core.store import DamagedObject, Store
from tests.damage import flip

from .tiny import build, tiny_config


def untrained(unit: Unit, config: dict[str, str], attempt: Attempt) -> None:
    """What pretraining leaves, with weights from a seed instead of training."""
    torch.manual_seed(5)
    job = pretraining_job(RunInputs(attempt.store, "tiny"))
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    losses = {tag: {"loss_sum": 30.0, "tokens": 10, "correct": 1} for tag in job.train}
    metrics = {"steps": 12, "tokens_seen": 99, "evaluations": [{"languages": losses}],
               "unigram": losses}  # fmt: skip
    for part, content in (
        ("model", tensors_to_bytes(model.state_dict())),
        ("metrics", json.dumps(metrics).encode()),
    ):
        path = Path(config["folder"]) / part
        path.write_bytes(content)
        attempt.write_file(f"{attempt.unit_id}/{part}", path, part=part)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("damaged")
    store = Store(str(folder / "store"))
    build(store, tiny_config(masking={"unit": "word"}))
    step = Step("pretrain", 1, "runs/tiny/pretrained", {"folder": str(folder)}, untrained)
    run_step(step, [Unit("pretrain", ())], store, "tiny", inline=True, quiet=True)
    return store


@pytest.fixture
def inputs(made: Store, tmp_path: Path) -> RunInputs:
    """A copy that a test may damage."""
    shutil.copytree(made.url, tmp_path / "store")
    return RunInputs(Store(str(tmp_path / "store")), "tiny")


def test_a_damaged_balance_table_is_found_before_any_worker_starts(inputs: RunInputs) -> None:
    path = inputs.balance.path
    whole = inputs.store.read_bytes(path)
    flip(inputs.store, path, whole.index(b'"q": 0.') + 8)  # a digit becomes another digit
    with pytest.raises(DamagedObject, match=f"{path} is damaged"):
        pretraining_job(inputs)


def test_a_damaged_vocabulary_is_found_before_any_worker_starts(inputs: RunInputs) -> None:
    path = inputs.vocabulary_files["spm.model"].path
    flip(inputs.store, path)
    with pytest.raises(DamagedObject, match=f"{path} is damaged"):
        pretraining_job(inputs)


@pytest.mark.parametrize("part", ["unigram", "spm.model"])
def test_a_worker_finds_damaged_counts_and_a_damaged_vocabulary(
    inputs: RunInputs, tmp_path: Path, part: str
) -> None:
    job, output = pretraining_job(inputs), inputs.vocabulary_files[part]
    whole = flip(inputs.store, output.path, output.bytes - 8)
    with pytest.raises(DamagedObject, match=f"{output.path} is damaged"):
        TrainingData(job, inputs.store, tmp_path / "cache")
    inputs.store.publish_bytes(output.path, whole)
    assert TrainingData(job, inputs.store, tmp_path / "cache").train.counts


@pytest.mark.parametrize("part", ["model", "metrics", "balance", "spm.model"])
def test_nothing_damaged_is_exported(inputs: RunInputs, part: str) -> None:
    step, units = export_step(inputs), export_units(inputs)
    files = {output.labels["part"]: output for output in inputs.stage("pretrain").outputs}
    output = {**files, **inputs.vocabulary_files, "balance": inputs.balance}[part]
    whole = inputs.store.read_bytes(output.path)
    # The last weight; a digit of the metrics.
    places = {"model": output.bytes - 4, "metrics": whole.find(b"99")}
    flip(inputs.store, output.path, places.get(part))
    with pytest.raises(StageFailed, match=f"DamagedObject: {output.path} is damaged"):
        run_step(step, units, inputs.store, "tiny", inline=True, quiet=True)


def test_no_head_is_put_on_a_damaged_model(inputs: RunInputs) -> None:
    read, [unit] = finetuning_units(inputs)
    [task] = inputs.config.finetuning
    assert isinstance(task, ClassificationTask)
    job = FinetuningJob(
        seed=7, length=read["length"], rows=read["rows"], encoder=read["encoder"], task=task,
        labels=["a", "b"], model=unit.input(read["model"]), examples="unused",
    )  # fmt: skip
    build_classifier(job, inputs.store)
    flip(inputs.store, job.model.path, (job.model.size or 0) - 4)
    with pytest.raises(DamagedObject, match=f"{job.model.path} is damaged"):
        build_classifier(job, inputs.store)
