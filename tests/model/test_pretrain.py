from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model import checkpoint, pretrain
from model.checkpoint import latest_complete
from model.distributed import Worker
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.optimizer import build_adamw, set_learning_rate, split_parameters
from model.plan import RunInputs, pretraining_job
from model.training_data import PretrainingJob, TrainingData
from pipelines.core.config import merge
from pipelines.core.store import DamagedObject, Store

from .packed import damage
from .tiny import build, tiny_config
from .workers import run_in_workers

FOLDER = "runs/tiny/checkpoints/unit"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(str(tmp_path_factory.mktemp("tiny") / "store"))
    build(store, tiny_config())
    return store


def job_of(store: Store, **changes: Any) -> PretrainingJob:
    job = pretraining_job(RunInputs(store, "tiny"))
    return PretrainingJob.model_validate(merge(job.model_dump(mode="json"), changes))


def run(store: Store, job: PretrainingJob, folder: str, cache: Path) -> checkpoint.Checkpoint:
    pretrain.pretrain(job, store, folder, Worker(), cache)
    found, _ = latest_complete(store, folder)
    assert found is not None
    return found


def without_times(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    timed = ("tokens_per_second", "loader_wait_share")
    return [{k: v for k, v in row.items() if k not in timed} for row in log]


@pytest.mark.parametrize("stop_after", [1, 4, 7])
def test_a_killed_run_goes_on_bit_for_bit(
    tiny: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    # 12 steps of 8 sequences over 11 of the rarest language: several passes, in micro-batches.
    job = job_of(tiny, pretraining={"checkpoint_every_steps": stop_after})
    straight = run(tiny, job, f"{FOLDER}-straight-{stop_after}", tmp_path)
    folder = f"{FOLDER}-killed-{stop_after}"
    update, done = pretrain.update, []

    def dies(*arguments: Any) -> Any:
        if len(done) == stop_after + 1:
            raise KeyboardInterrupt
        done.append(arguments[-1])
        return update(*arguments)

    monkeypatch.setattr(pretrain, "update", dies)
    with pytest.raises(KeyboardInterrupt):
        run(tiny, job, folder, tmp_path)
    monkeypatch.setattr(pretrain, "update", update)
    resumed = run(tiny, job, folder, tmp_path)
    assert [row["step"] for row in resumed.training["log"]] == list(range(1, 13))
    assert [row["step"] for row in resumed.training["evaluations"]] == [0, 5, 10, 12]
    assert without_times(resumed.training["log"]) == without_times(straight.training["log"])
    assert resumed.training["evaluations"] == straight.training["evaluations"]
    assert resumed.training["tokens_seen"] == straight.training["tokens_seen"]
    for part in ("model", "optimizer"):
        own, wanted = getattr(resumed, part), getattr(straight, part)
        assert own.keys() == wanted.keys()
        assert all(torch.equal(own[name], wanted[name]) for name in own)


def test_it_resumes_at_the_step_after_the_checkpoint(
    tiny: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(tiny)
    run(tiny, job, f"{FOLDER}-again", tmp_path)
    tiny.delete(f"{checkpoint.step_key(f'{FOLDER}-again', 12)}/manifest.json")
    capsys.readouterr()
    run(tiny, job, f"{FOLDER}-again", tmp_path)
    printed = capsys.readouterr().out
    assert "[pretrain] 8 of 12 steps already finished, 4 to do" in printed
    assert "step-00000012" in printed and "passed over" in printed
    assert "step 9/12" in printed and "step 8/12" not in printed


def one_update(worker: Worker, job: PretrainingJob, url: str, cache: str, target: str) -> None:
    data = TrainingData(job, Store(url), Path(cache))
    torch.manual_seed(0)
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    optimizer = build_adamw(model, weight_decay=0.0, betas=(0.9, 0.98), epsilon=1e-6)
    set_learning_rate(optimizer, 1e-3)
    parts, settings = data.micro_batches(3, worker), job.pretraining
    wrapped = worker.wrap(model)
    loss, norm, seen = pretrain.update(model, wrapped, optimizer, parts, settings, worker, 3)
    evaluation = pretrain.evaluate(model, data, worker, 4)
    if worker.leads:
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        counts = [len(batch.labels) for batch in parts]
        facts = {"loss": loss, "norm": norm, "seen": seen, "counts": counts, **evaluation}
        facts["gradient"] = gradient.tolist()
        Path(target).write_text(json.dumps(facts))


def test_a_token_weighs_the_same_on_one_worker_on_two_and_when_accumulated(
    tiny: Store, tmp_path: Path
) -> None:
    found = {}
    for name, world_size, micro in (("one", 1, 8), ("two", 2, 8), ("three", 3, 1), ("steps", 1, 3)):
        change = {"sequences_per_micro_batch": micro, "max_gradient_norm": 0.0}
        job = job_of(tiny, encoder={"dropout": 0.0}, pretraining=change)
        arguments = (job, tiny.url, str(tmp_path / "cache"), str(tmp_path / name))
        if world_size == 1:
            one_update(Worker(), *arguments)
        else:
            run_in_workers(world_size, one_update, *arguments)
        found[name] = json.loads((tmp_path / name).read_text())
    assert len(set(found["steps"]["counts"])) > 1, "the parts need unequal numbers of masks"
    for name in ("two", "three", "steps"):
        assert found[name]["loss"] == pytest.approx(found["one"]["loss"], abs=1e-6)
        assert found[name]["seen"] == found["one"]["seen"]
        np.testing.assert_allclose(found[name]["gradient"], found["one"]["gradient"], atol=1e-6)
        for language, wanted in found["one"]["languages"].items():
            row = found[name]["languages"][language]
            assert row["tokens"] == wanted["tokens"], "every masked token counts once"
            assert row["loss_sum"] == pytest.approx(wanted["loss_sum"], rel=1e-5)


def test_loss_is_the_sum_over_tokens_by_their_number(tiny: Store, tmp_path: Path) -> None:
    job = job_of(tiny, encoder={"dropout": 0.0}, pretraining={"sequences_per_micro_batch": 3})
    one_update(Worker(), job, tiny.url, str(tmp_path / "cache"), str(tmp_path / "facts"))
    data = TrainingData(job, tiny, tmp_path / "cache")
    torch.manual_seed(0)
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    losses = []
    for batch in data.micro_batches(3, Worker()):
        logits = model.logits(batch.tokens).flatten(0, 1)[batch.masked]
        losses += torch.nn.functional.cross_entropy(logits, batch.labels, reduction="none").tolist()
    facts = json.loads((tmp_path / "facts").read_text())
    assert facts["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_evaluation_and_baseline_cover_every_held_out_token_once(
    tiny: Store, tmp_path: Path
) -> None:
    data = TrainingData(job_of(tiny, evaluation={"max_sequences_per_language": 3}), tiny, tmp_path)
    model = MaskedLanguageModel(Encoder(data.job.encoder, data.job.rows, data.job.length))
    found = pretrain.evaluate(model, data, Worker(), 0)["languages"]
    baseline = data.unigram_baseline()
    assert set(found) == {"en", "fi", "sw"}
    for language in data.held_out.counts:
        batches = data.held_out_batches(language, Worker())
        assert sum(len(batch.sequence_ids) for batch in batches) == 3
        labels = np.concatenate([batch.labels for batch in batches])
        assert found[language]["tokens"] == baseline[language]["tokens"] == len(labels)
        wanted = -sum(data.unigram[int(label)] for label in labels)
        assert baseline[language]["loss_sum"] == pytest.approx(wanted)
    assert np.exp(data.unigram).sum() == pytest.approx(1.0)


def test_a_loss_that_is_no_number_stops_before_the_update_and_names_sequences(
    tiny: Store, tmp_path: Path
) -> None:
    job = job_of(tiny)
    data = TrainingData(job, tiny, tmp_path)
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    parts = data.micro_batches(0, Worker())
    model.encoder.positions.weight.data[2] = torch.inf
    before = {name: t.clone() for name, t in model.state_dict().items()}
    optimizer = build_adamw(model, weight_decay=0.0, betas=(0.9, 0.98), epsilon=1e-6)
    set_learning_rate(optimizer, 1.0)
    with pytest.raises(pretrain.NonFiniteError, match="step 1: .*not updated") as caught:
        pretrain.update(model, model, optimizer, parts, job.pretraining, Worker(), 0)
    assert all(name in str(caught.value) for name in parts[1].sequence_ids)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


def test_a_damaged_file_ends_training_with_its_name(tiny: Store, tmp_path: Path) -> None:
    copy = Store(str(tmp_path / "store"))
    shutil.copytree(tiny.url, copy.url)
    job = job_of(copy, pretraining={"cache_gb": 0.01})
    [key, *_] = job.train["en"]
    damage(Path(copy.path(key)))
    with pytest.raises(DamagedObject, match=f"{key} is damaged"):
        run(copy, job, FOLDER, tmp_path / "cache")
    assert "prefetch" not in {thread.name for thread in threading.enumerate()}


def test_a_length_curriculum_trains_to_the_same_number_of_tokens(
    tiny: Store, tmp_path: Path
) -> None:
    seen = {}
    for length in (24, 12):
        change = {"lengths": [{"until": 0.5, "length": length}], "log_every_steps": 6}
        found = run(tiny, job_of(tiny, pretraining=change), f"{FOLDER}-{length}", tmp_path)
        seen[length] = found.training
    assert seen[12]["tokens_seen"] == seen[24]["tokens_seen"]
    assert seen[12]["log"][0]["loss"] != seen[24]["log"][0]["loss"], "slices see less around them"


def test_biases_and_norms_do_not_decay(tiny: Store) -> None:
    job = job_of(tiny)
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    decayed, plain = split_parameters(model)
    assert decayed.keys() | plain.keys() == dict(model.named_parameters()).keys()
    assert all(name.endswith("bias") or "norm" in name for name in plain)
    assert all(name.endswith("weight") and "norm" not in name for name in decayed)


def test_training_learns_something(tiny: Store, tmp_path: Path) -> None:
    change = {"steps": 400, "evaluate_every_steps": 400, "log_every_steps": 100}
    found = run(tiny, job_of(tiny, pretraining=change), f"{FOLDER}-long", tmp_path)
    first, last = (
        pretrain.mean_loss(found.training["evaluations"][i]["languages"]) for i in (0, -1)
    )
    assert last < pretrain.mean_loss(found.training["unigram"]) < first


def test_the_record_tells_which_texts_were_used_once_more_often_and_never(
    tiny: Store, tmp_path: Path
) -> None:
    """C21, counted here sample by sample."""
    job = job_of(tiny)
    found = run(tiny, job, f"{FOLDER}-usage", tmp_path)
    data = TrainingData(job, tiny, tmp_path)
    draws = job.pretraining.steps * job.pretraining.sequences_per_step
    samples = map(data.plan.sample, range(draws))
    used = Counter((sample.language, sample.row) for sample in samples)
    assert sum(used.values()) == draws
    for use in found.training["usage"]:
        own = [n for (language, _), n in used.items() if language == use["language"]]
        texts = data.train.counts[use["language"]]
        assert use == {
            "language": use["language"],
            "texts": texts,
            "draws": sum(own),
            "once": own.count(1),
            "repeated": sum(n > 1 for n in own),
            "never": texts - len(own),
        }
    assert {use["language"] for use in found.training["usage"]} == set(data.train.counts)
