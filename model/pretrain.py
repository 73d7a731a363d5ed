"""Masked language modelling: the loop, readable from top to bottom.

Everything that happens at a step is a function of (seed, step): which sequences, which masks, the
learning rate, dropout. So a run that was killed goes on from its last checkpoint bit for bit, and
at another number of workers only the order of sums differs.
Sources: Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa), Conneau et al. 2020 (XLM-R).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from model.checkpoint.writer import CheckpointWriter
from model.data.prefetch import Prefetched
from model.data.training_data import TrainingData
from model.distributed import Worker
from model.held_out import evaluate, mean_loss
from model.learner import Learner, build_learner, compile_ahead
from model.notices import StopNotice, TrainingStopped
from model.optimizer import optimizer_tensors, set_learning_rate
from model.pretraining_job import PretrainingJob
from model.schedules import last_update, learning_rate
from model.spikes import SpikeWatch
from model.start.beginning import begin
from model.throughput import Throughput
from model.training_log import Sink, TrainingLog
from model.update import update
from model.wishes import Wisher, Wishes
from pipelines.core.store import Store


def pretrain(
    job: PretrainingJob,
    store: Store,
    folder: str,
    worker: Worker,
    cache: Path,
    *,
    sinks: Sequence[Sink] = (),
    notice: StopNotice | None = None,
) -> None:
    """Train from the last whole checkpoint in `folder`, or from the start, to the last step.

    The last step's checkpoint is the result: the model, and in its training record the log, the
    evaluations and the unigram baseline.

    Args:
        folder: of the checkpoints, on the store.
        cache: folder on the node's disk for packed sequences.
        sinks: where metrics go besides the record; used and closed on the first worker only.
        notice: how this worker is told to save or to stop.

    Raises:
        ConfigError: the checkpoint or the weights to go on from are not there or do not fit.
        UpdateRefusedError: a loss or gradient is not finite, or a spike; on all workers alike,
            before the update.
        TrainingStopped: it was told to stop, and has saved.
    """
    settings, plan = job.pretraining, job.step_plan
    with worker.own_pace("bringing packed sequences"):  # by node, some already there
        data = TrainingData(job, store, cache)
    learner = build_learner(job, worker)
    start = begin(job, store, folder, learner)
    compile_ahead(learner, job, start.step)
    record, todo = start.record, range(start.step, plan.steps)
    final = last_update(settings, plan)
    with worker.own_pace("computing the unigram baseline"):
        unigram = data.unigram_baseline() if worker.leads else {}
    log = TrainingLog(record, todo, leads=worker.leads, sinks=sinks, unigram=unigram)
    log.say(*start.said, *data.notes)
    spikes = SpikeWatch(settings, plan, record["last_losses"], log.note)
    # Other workers print as well when they lose a shard: the first one cannot know why.
    say = log.say if worker.leads else None
    speed, wisher = Throughput(job.encoder, job.rows, worker), Wisher(settings, worker, notice)
    with (
        log,
        CheckpointWriter(store, folder, worker, settings.keep_checkpoints, say=say) as writer,
        Prefetched(
            partial(data.micro_batches, worker=worker),
            (step for step in todo if step + 1 not in settings.skip_steps),
            settings.prefetch_steps,
        ) as ready,
    ):
        if start.step == 0:
            log.evaluation(evaluate(learner.model, data, worker, 0))
        for step in todo:
            done, last = step + 1, step + 1 == plan.steps
            wishes, held_out = Wishes(), None
            if done in settings.skip_steps:
                log.note(f"step {done}: passed over without an update (pretraining.skip_steps)")
            else:
                began, waited = time.perf_counter(), ready.waited_seconds
                rate = learning_rate(step, settings, plan)
                set_learning_rate(learner.optimizer, rate)
                result = update(learner, ready.take(step), step, wisher.now(), spikes)
                speed.add(
                    result,
                    time.perf_counter() - began,
                    ready.waited_seconds - waited,
                    job.length_at(step),
                )
                wishes = result.wishes
                record["tokens_seen"] += result.real
                if done == final or done % settings.log_every_steps == 0:
                    log.step(done, result, rate, plan.first_sample(done) * job.length, speed)
            if last or done % settings.evaluate_every_steps == 0:
                held_out = evaluate(learner.model, data, worker, done)
                log.evaluation(held_out)
            if last:
                record |= {"unigram": unigram, "usage": data.usage()}
            if last or wishes or done % settings.checkpoint_every_steps == 0:
                log.say(*wisher.said(done))
                save(writer, learner, done, record, held_out)
                wisher.saved()
            if last or wishes.stop:
                writer.wait()  # for all workers: one that ends early would take the others down
            log.checkpoints(writer.finished(), writer.new_notes())
            if wishes.stop and not last:
                raise TrainingStopped(done, wisher.reason())


def save(
    writer: CheckpointWriter,
    learner: Learner,
    done: int,
    record: Mapping[str, Any],
    held_out: Mapping[str, Any] | None,
) -> None:
    """Hand a checkpoint to the writer, on all workers; training goes on while it is written.

    Args:
        held_out: the evaluation of this step, where there was one.
    """
    loss = math.nan if held_out is None else mean_loss(held_out["languages"])
    writer.save(
        done,
        learner.model.state_dict(),
        optimizer_tensors(learner.model, learner.optimizer),
        record,
        held_out_loss=loss if math.isfinite(loss) else None,
    )
