"""The loop as a whole, on a tiny corpus; one update is in test_pretrain_update.py, kill -9 in
test_pretrain_resume.py."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model import checkpoint, pretrain
from model.checkpoint import latest_complete
from model.data.training_data import TrainingData
from model.distributed import Worker
from model.held_out import evaluate, mean_loss
from model.learner import build_learner
from model.notices import StopNotice, TrainingStopped
from model.plan import RunInputs, pretraining_job
from model.pretraining_job import PretrainingJob
from model.update import LossSpikeError, update
from pipelines.core.config import ConfigError, merge
from pipelines.core.store import DamagedObject, Store

from .gloo_workers import run_in_workers
from .packed import damage
from .tiny import build, tiny_config

FOLDER = "runs/tiny/checkpoints/unit"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(str(tmp_path_factory.mktemp("tiny") / "store"))
    build(store, tiny_config())
    return store


def job_of(store: Store, **changes: Any) -> PretrainingJob:
    job = pretraining_job(RunInputs(store, "tiny"))
    return PretrainingJob.model_validate(merge(job.model_dump(mode="json"), changes))


def run(
    store: Store, job: PretrainingJob, folder: str, cache: Path, **others: Any
) -> checkpoint.Checkpoint:
    pretrain.pretrain(job, store, folder, Worker(), cache, **others)
    found, _ = latest_complete(store, folder)
    assert found is not None
    return found


def same(own: checkpoint.Checkpoint, wanted: checkpoint.Checkpoint) -> None:
    """Equal bit for bit in all that is not measured."""
    assert own.step == wanted.step
    assert own.training.keys() == wanted.training.keys()
    for name in wanted.training.keys() - {"speed", "checkpoint_notes"}:
        assert own.training[name] == wanted.training[name], name
    for part in ("model", "optimizer"):
        mine, theirs = getattr(own, part), getattr(wanted, part)
        assert mine.keys() == theirs.keys() and mine
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


class Recorder:
    """A sink that keeps everything, and may do something at a step."""

    def __init__(self, at: Mapping[int, Any] | None = None) -> None:
        self.rows: list[tuple[str, int, dict[str, float]]] = []
        self.closed, self._at = 0, at or {}

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        self.rows.append((kind, step, dict(values)))
        if kind == "train" and step in self._at:
            self._at[step]()

    def close(self) -> None:
        self.closed += 1

    def of(self, kind: str) -> dict[int, dict[str, float]]:
        return {step: values for own, step, values in self.rows if own == kind}


def fail() -> None:
    raise OSError("on purpose")


@pytest.fixture(scope="module")
def straight(tiny: Store, tmp_path_factory: pytest.TempPathFactory) -> checkpoint.Checkpoint:
    """The undisturbed run of the tiny settings."""
    # 12 steps of 8 sequences over 11 of the rarest language: several passes, in micro-batches.
    return run(tiny, job_of(tiny), f"{FOLDER}-straight", tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("every", [1, 4, 7])
def test_a_run_that_failed_goes_on_bit_for_bit(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint, every: int
) -> None:
    job = job_of(tiny, pretraining={"checkpoint_every_steps": every})
    folder, sink = f"{FOLDER}-failed-{every}", Recorder({every + 2: fail})
    with pytest.raises(OSError, match="on purpose"):
        run(tiny, job, folder, tmp_path, sinks=[sink])
    assert sink.closed == 1, "also when training fails"
    resumed = run(tiny, job, folder, tmp_path)
    assert [row["step"] for row in resumed.training["log"]] == list(range(1, 13))
    assert [row["step"] for row in resumed.training["evaluations"]] == [0, 5, 10, 12]
    same(resumed, straight)


def test_it_resumes_at_the_step_after_the_checkpoint(
    tiny: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C44 c, d at the loop's level."""
    job = job_of(tiny)
    run(tiny, job, f"{FOLDER}-again", tmp_path)
    tiny.delete(f"{checkpoint.step_key(f'{FOLDER}-again', 12)}/manifest.json")
    capsys.readouterr()
    sink = Recorder()
    run(tiny, job, f"{FOLDER}-again", tmp_path, sinks=[sink])
    printed = capsys.readouterr().out
    assert "[pretrain] 8 of 12 steps already finished, 4 to do" in printed
    assert "step-00000012" in printed and "passed over" in printed
    assert "step 9/12" in printed and "step 8/12" not in printed
    assert list(sink.of("train")) == [9, 10, 11, 12]
    assert sink.of("train")[9]["loss"] < np.log(job.rows) - 0.1, "not back at ln(rows)"


def test_checkpoints_by_the_clock_change_nothing(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    change = {"checkpoint_every_minutes": 1e-9, "checkpoint_every_steps": 1000}
    sink = Recorder()
    job = job_of(tiny, pretraining=change | {"prefetch_steps": 0})
    same(run(tiny, job, f"{FOLDER}-clock", tmp_path, sinks=[sink]), straight)
    saved = sink.of("checkpoint")
    assert list(saved) == list(range(1, 13)), "each step is later than the one before"
    assert saved[12]["bytes"] > 3 * 4 * sum(t.numel() for t in straight.model.values())
    assert 0 <= saved[12]["blocked_seconds"] <= saved[12]["seconds"]


def test_activation_checkpointing_changes_nothing(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    """Dropout is the same when a layer is computed again."""
    job = job_of(tiny, pretraining={"activation_checkpointing": True})
    learner = build_learner(job, Worker())
    assert learner.model.encoder.checkpoint_activations
    same(run(tiny, job, f"{FOLDER}-recomputed", tmp_path), straight)


def test_told_to_save_it_saves_and_goes_on(
    tiny: Store,
    tmp_path: Path,
    straight: checkpoint.Checkpoint,
    capsys: pytest.CaptureFixture[str],
) -> None:
    notice = StopNotice()
    sink = Recorder({2: lambda: notice.ask("save", "a node drains")})
    job = job_of(tiny, pretraining={"checkpoint_every_steps": 1000})
    same(run(tiny, job, f"{FOLDER}-save", tmp_path, sinks=[sink], notice=notice), straight)
    assert list(sink.of("checkpoint")) == [3, 12], "after the step in which it is heard, once"
    assert capsys.readouterr().out.count("step 3: saving now (a node drains)") == 1


def test_told_to_stop_it_saves_and_stops_and_the_next_one_goes_on(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    notice, folder = StopNotice(), f"{FOLDER}-stop"
    sink = Recorder({5: lambda: notice.ask("stop", "signal SIGTERM")})
    job = job_of(tiny)
    with pytest.raises(TrainingStopped, match="stopped at step 6, saved .signal SIGTERM") as caught:
        run(tiny, job, folder, tmp_path, sinks=[sink], notice=notice)
    assert (caught.value.step, caught.value.why) == (6, "signal SIGTERM")
    assert list(sink.of("checkpoint")) == [4, 6] and sink.closed == 1
    found, _ = latest_complete(tiny, folder)
    assert found is not None and found.step == 6, "it is there when the exception is"
    same(run(tiny, job, folder, tmp_path), straight)


def stops_at_once(worker: Worker, job: PretrainingJob, url: str, folder: str, told: int) -> None:
    """Only one worker is told."""
    notice = StopNotice()
    if worker.rank == told:
        notice.ask("stop", f"worker {told} was told")
    try:
        cache = Path(url).parent / f"cache-{worker.rank}"
        pretrain.pretrain(job, Store(url), folder, worker, cache, notice=notice)
    except TrainingStopped as stopped:
        Path(url, f"stopped-{worker.rank}").write_text(f"{stopped.step} {stopped.why}")


def test_all_workers_stop_at_the_same_step_and_know_why(tiny: Store) -> None:
    folder = f"{FOLDER}-stop-two"
    run_in_workers(2, stops_at_once, job_of(tiny), tiny.url, folder, 1)
    texts = [Path(tiny.url, f"stopped-{rank}").read_text() for rank in range(2)]
    assert texts == ["1 worker 1 was told"] * 2
    found, _ = latest_complete(tiny, folder)
    assert found is not None and found.step == 1


def test_a_sharded_optimizer_goes_on_at_another_number_of_workers(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    job = job_of(tiny, pretraining={"shard_optimizer": True})
    folder = f"{FOLDER}-sharded"
    run_in_workers(2, stops_at_once, job, tiny.url, folder, 0)
    files = [key.rpartition("/")[2] for key in tiny.keys(checkpoint.step_key(folder, 1))]
    assert sum(name.startswith("optimizer") for name in files) == 2, files
    found = run(tiny, job, folder, tmp_path)
    assert found.step == 12 and found.optimizer.keys() == straight.optimizer.keys()
    for own, wanted in zip(found.training["log"], straight.training["log"], strict=True):
        assert own["loss"] == pytest.approx(wanted["loss"], abs=1e-5)


def test_a_step_can_be_passed_over(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    job = job_of(tiny, pretraining={"skip_steps": [4, 12]})
    found = run(tiny, job, f"{FOLDER}-skip", tmp_path)
    assert found.step == 12
    assert [row["step"] for row in found.training["log"]] == [1, 2, 3, *range(5, 12)]
    notes = found.training["notes"]
    assert notes == [
        f"step {step}: passed over without an update (pretraining.skip_steps)" for step in (4, 12)
    ]
    rates = {row["step"]: row["learning_rate"] for row in straight.training["log"]}
    for own, wanted in zip(found.training["log"][:3], straight.training["log"], strict=False):
        assert own == wanted
    assert all(row["learning_rate"] == rates[row["step"]] for row in found.training["log"])
    sizes = {round(float(v)) for k, v in found.optimizer.items() if k.endswith("/step")}
    assert sizes == {10}, "two updates less"
    assert [row["step"] for row in found.training["evaluations"]] == [0, 5, 10, 12]


@pytest.mark.parametrize("skipped", [[12], [9, 10, 11, 12]])
def test_the_last_update_is_in_the_log_though_the_last_step_is_none(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint, skipped: list[int]
) -> None:
    """The result names its loss; a run that is killed after it finds the line in its record."""
    change = {"skip_steps": skipped, "log_every_steps": 100, "evaluate_every_steps": 12}
    job, folder = job_of(tiny, pretraining=change), f"{FOLDER}-skip-last-{len(skipped)}"
    found = run(tiny, job, folder, tmp_path)
    [line] = found.training["log"]
    assert line == straight.training["log"][skipped[0] - 2]
    if len(skipped) > 1:
        tiny.delete(checkpoint.step_key(folder, 12))
        same(run(tiny, job, folder, tmp_path), found)


class Losing(Store):
    """Takes no manifest of step 4."""

    def publish_bytes(self, key: str, content: bytes) -> None:
        if "step-00000004" in key:
            raise ConnectionError("gone")
        super().publish_bytes(key, content)


def test_a_lost_checkpoint_is_told_beside_the_result_and_changes_nothing_in_it(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    found = run(Losing(tiny.url), job_of(tiny), f"{FOLDER}-losing", tmp_path)
    same(found, straight)
    lost, *others = found.training["checkpoint_notes"]
    assert lost.startswith("checkpoint of step 4 lost: ConnectionError: gone")
    # What step 8 swept away comes too, unless it was still at it when step 12 was saved.
    assert all("unfinished checkpoints left (step 4)" in other for other in others)
    assert straight.training["checkpoint_notes"] == []


def test_a_spike_is_noted_and_one_that_stops_names_the_step_to_skip(
    tiny: Store, tmp_path: Path
) -> None:
    # The rate rises until the loss does; ten losses come before the first judgement.
    change = {"learning_rate": 1.0, "warmup_steps": 12, "steps": 14, "spike_factor": 1.5}
    found = run(tiny, job_of(tiny, pretraining=change), f"{FOLDER}-spike", tmp_path)
    notes = found.training["notes"]
    losses = [row["loss"] for row in found.training["log"]]
    spikes = [
        step + 1 for step in range(10, 14) if losses[step] > 1.5 * float(np.median(losses[:step]))
    ]
    assert spikes and [int(note.split()[1].rstrip(":")) for note in notes] == spikes
    assert found.training["last_losses"] == losses
    change |= {"on_spike": "stop"}
    with pytest.raises(LossSpikeError, match=rf"skip_steps = \[{spikes[0]}\]"):
        run(tiny, job_of(tiny, pretraining=change), f"{FOLDER}-stopping", tmp_path)


def test_a_named_checkpoint_is_gone_on_from_or_refused(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    """C44 a, b at the loop's level, and a fork that ends where the straight run does."""
    source = f"{FOLDER}-fork-source"
    run(tiny, job_of(tiny, pretraining={"keep_checkpoints": 5}), source, tmp_path)
    name = f"tiny/{source.rpartition('/')[2]}@8"
    job = job_of(tiny, pretraining={"resume_from": name})
    same(run(tiny, job, f"{FOLDER}-fork", tmp_path), straight)
    refused = {
        "nobody@8": "no run 'nobody'",
        name.replace("@8", "@9"): "no whole checkpoint of step 9",
    }
    for number, (other, why) in enumerate(refused.items()):
        job = job_of(tiny, pretraining={"resume_from": other})
        with pytest.raises(ConfigError, match=f"pretraining.resume_from = .*{why}"):
            run(tiny, job, f"{FOLDER}-refused-{number}", tmp_path)
        assert not tiny.keys(f"{FOLDER}-refused-{number}"), "nothing is written"
    job = job_of(tiny, pretraining={"resume_from": name}, encoder={"feed_forward_size": 80})
    with pytest.raises(ConfigError, match="holds another model.*start_from"):
        run(tiny, job, f"{FOLDER}-other-model", tmp_path)


def test_sinks_get_what_the_record_has_and_what_was_measured(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    sink, change = Recorder(), {"log_every_steps": 3}
    found = run(tiny, job_of(tiny, pretraining=change), f"{FOLDER}-sinks", tmp_path, sinks=[sink])
    lines = found.training["log"]
    assert lines == straight.training["log"][2::3], "lines between change nothing"
    job = job_of(tiny)
    assert [row["consumed_tokens"] for row in lines] == [8 * 24 * row["step"] for row in lines]
    for row, speed in zip(lines, found.training["speed"], strict=True):
        assert sink.of("train")[row["step"]] == {
            name: value for name, value in (row | speed).items() if name != "step"
        }
        assert set(row) == {"step", "loss", "learning_rate", "gradient_norm", "consumed_tokens"}
        assert set(speed) == {
            "step",
            "tokens_per_second/real",
            "tokens_per_second/padded",
            "tokens_per_second/masked",
            "loader_idle_share",
            "memory_peak_bytes",
        }
        shares = speed["tokens_per_second/masked"] / speed["tokens_per_second/real"]
        assert shares == pytest.approx(job.masking.rate, abs=0.05)
    evaluations = sink.of("evaluation")
    assert list(evaluations) == [0, 5, 10, 12] and sink.closed == 1
    last = found.training["evaluations"][-1]["languages"]
    assert evaluations[12]["held_out_loss/all"] == mean_loss(last)
    for language, row in last.items():
        mean = row["loss_sum"] / row["tokens"]
        assert evaluations[12][f"held_out_loss/{language}"] == mean
        baseline = found.training["unigram"][language]
        mean = baseline["loss_sum"] / baseline["tokens"]
        assert evaluations[12][f"unigram_loss/{language}"] == mean


def facts_of_a_step(worker: Worker, job: PretrainingJob, url: str, cache: str, target: str) -> None:
    data, learner = TrainingData(job, Store(url), Path(cache)), build_learner(job, worker)
    result = update(learner, data.micro_batches(3, worker), 3)
    evaluation = evaluate(learner.model, data, worker, 4)
    if worker.leads:
        facts = {"loss": result.loss, "real": result.real, "masked": result.masked, **evaluation}
        Path(target).write_text(json.dumps(facts))


def test_three_workers_and_one_find_the_same_loss_and_evaluation(
    tiny: Store, tmp_path: Path
) -> None:
    """C68's idea: a language of one held-out sequence has none for two of three workers."""
    job = job_of(tiny, evaluation={"max_sequences_per_language": 4})
    arguments = (job, tiny.url, str(tmp_path / "cache"))
    facts_of_a_step(Worker(), *arguments, str(tmp_path / "one"))
    run_in_workers(3, facts_of_a_step, *arguments, str(tmp_path / "three"))
    one, three = (json.loads((tmp_path / name).read_text()) for name in ("one", "three"))
    assert three["loss"] == pytest.approx(one["loss"], abs=1e-6)
    assert (three["real"], three["masked"]) == (one["real"], one["masked"])
    for language, wanted in one["languages"].items():
        row = three["languages"][language]
        assert row["tokens"] == wanted["tokens"], "every masked token counts once"
        assert row["loss_sum"] == pytest.approx(wanted["loss_sum"], rel=1e-5)


def test_loss_is_the_sum_over_tokens_by_their_number(tiny: Store, tmp_path: Path) -> None:
    job = job_of(tiny, encoder={"dropout": 0.0}, pretraining={"sequences_per_micro_batch": 3})
    data, learner = TrainingData(job, tiny, tmp_path), build_learner(job, Worker())
    parts, losses = data.micro_batches(3, Worker()), []
    for batch in parts:
        logits = learner.model.logits(batch.tokens).flatten(0, 1)[batch.masked]
        losses += torch.nn.functional.cross_entropy(logits, batch.labels, reduction="none").tolist()
    result = update(learner, parts, 3)
    assert result.loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert result.masked == len(losses)


@pytest.mark.parametrize("rate", [0.15, 0.3])
def test_evaluation_and_baseline_cover_every_held_out_token_once_at_its_own_rate(
    tiny: Store, tmp_path: Path, rate: float
) -> None:
    evaluation = {"max_sequences_per_language": 3, "masking_rate": rate}
    data = TrainingData(job_of(tiny, evaluation=evaluation), tiny, tmp_path)
    learner = build_learner(data.job, Worker())
    found = evaluate(learner.model, data, Worker(), 0)["languages"]
    baseline, real = data.unigram_baseline(), 0
    assert set(found) == {"en", "fi", "sw"} and learner.model.training
    for language in data.held_out.counts:
        batches = data.held_out_batches(language, Worker())
        assert sum(len(batch.sequence_ids) for batch in batches) == 3
        labels = np.concatenate([batch.labels for batch in batches])
        assert found[language]["tokens"] == baseline[language]["tokens"] == len(labels)
        wanted = -sum(data.unigram[int(label)] for label in labels)
        assert baseline[language]["loss_sum"] == pytest.approx(wanted)
        real += sum(batch.real_tokens for batch in batches)
    masked = sum(row["tokens"] for row in found.values())
    assert masked / real == pytest.approx(rate, abs=0.05)
    assert np.exp(data.unigram).sum() == pytest.approx(1.0)


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


def test_training_learns_something(tiny: Store, tmp_path: Path) -> None:
    change = {"steps": 400, "evaluate_every_steps": 400, "log_every_steps": 100}
    found = run(tiny, job_of(tiny, pretraining=change), f"{FOLDER}-long", tmp_path)
    first, last = (mean_loss(found.training["evaluations"][i]["languages"]) for i in (0, -1))
    assert last < mean_loss(found.training["unigram"]) < first


def test_the_record_tells_which_texts_were_used_once_more_often_and_never(
    tiny: Store, tmp_path: Path, straight: checkpoint.Checkpoint
) -> None:
    """C21, counted here sample by sample."""
    job = job_of(tiny)
    data = TrainingData(job, tiny, tmp_path)
    draws = job.step_plan.samples
    samples = map(data.plan.sample, range(draws))
    used = Counter((sample.language, sample.row) for sample in samples)
    assert sum(used.values()) == draws == 12 * 8
    for use in straight.training["usage"]:
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
    assert {use["language"] for use in straight.training["usage"]} == set(data.train.counts)
