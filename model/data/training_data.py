"""Training batches by step, and held-out batches, from a job of pretraining.

Global sample g is a pure function of (seed, g) and of what the job holds: the languages' shares by
phase, and the number of packed sequences of each language. Row r of a language is the r-th of its
files in the record's order. Neither workers, nor micro-batches, nor where a file ends, nor the
cache, nor an earlier run of the loop has a part in it; so resume is a number, never a replay.

The sequences of a step, in that order, are cut into micro-batches of sequences_per_micro_batch,
numbered from 0, and every worker takes consecutive ones. So the same micro-batches are computed at
any number of workers; held-out sequences are cut in the same way.
"""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from model.data.batches import Batch, Layout, Masker, batches_of
from model.data.packed_dataset import PackedSequences
from model.data.packed_files import FileCache, Packing
from model.data.sample_plan import Phase, SamplePlan
from model.data.sample_usage import usage_of
from model.distributed import Worker, share_of_batch
from model.metrics import LossSums, unigram_log_probabilities, unigram_losses
from model.pretraining_job import MaskingSettings, PretrainingJob, RatePhase, SharesPhase
from pipelines.core.manifest import read_verified
from pipelines.core.masking import rule_and_sampler
from pipelines.core.store import Store
from pipelines.core.vocabulary import open_vocabulary

__all__ = ["MaskingSettings", "PretrainingJob", "RatePhase", "SharesPhase", "TrainingData"]

GROUP_TOKENS = 2**17
"""Tokens that are masked and laid out at once: few calls, and arrays that fit a core's cache."""


def plan_of(job: PretrainingJob, counts: dict[str, int]) -> SamplePlan:
    """The order of samples; a phase ends with a step, and the last one never does.

    Args:
        counts: sequences by language.
    """
    steps = job.step_plan
    ends = [0, *(steps.first_sample(steps.end_of(phase)) for phase in job.phases)]
    phases = [
        Phase(None if phase is job.phases[-1] else end - begin, phase.shares)
        for phase, begin, end in zip(job.phases, ends[:-1], ends[1:], strict=True)
    ]
    return SamplePlan(counts, phases, job.seed)


def masker_of(job: PretrainingJob, store: Store, unigram: np.ndarray) -> Masker:
    """How masks are computed that are not stored."""
    masking = job.masking.model_dump()
    rule, sampler = rule_and_sampler(masking, job.rows, job.special_ids, unigram)
    if rule.unit == "token":
        return Masker(rule, sampler, job.seed)
    vocabulary = open_vocabulary(store, job.vocabulary, job.vocabulary_sha256)
    return Masker(rule, sampler, job.seed, vocabulary.word_starts)


class TrainingData:
    """Training batches by step, and held-out batches by language.

    Args:
        cache: folder on the node's disk.

    Raises:
        DamagedObject: a packed file, the counts or the vocabulary are damaged.
        ValueError: a packed file was made with another vocabulary, or does not fit the cache.
    """

    def __init__(self, job: PretrainingJob, store: Store, cache: Path) -> None:
        counts = np.load(io.BytesIO(read_verified(store, job.unigram)))
        bound = job.pretraining.cache_gb
        files = FileCache(
            store,
            cache,
            Packing(job.rows, job.length, job.mode, job.vocabulary_sha256),
            None if bound is None else int(bound * 1e9),
        )
        self.train = PackedSequences(files, job.train)
        self.held_out = PackedSequences(files, job.held_out)
        self.notes = cache_notes(files, self.train.cached_bytes + self.held_out.cached_bytes)
        """What a person should know before training."""
        if job.without_text:
            self.notes.append(
                f"no sequence was packed of {', '.join(job.without_text)}: the other languages "
                f"take their shares"
            )
        if job.mode == "pairs" and not job.encoder.next_sentence:
            self.notes.append(
                "packing.mode = pairs and encoder.next_sentence = false: only masked tokens are "
                "learnt, not which pairs follow each other"
            )
        self.masker = masker_of(job, store, counts)
        self._held_out_masker = self.masker.by_token(job.evaluation.masking_rate)
        self.unigram = unigram_log_probabilities(counts, job.special_ids)
        self.plan = plan_of(job, self.train.counts)
        self._first = np.array([self.train.rows_of(tag).start for tag in self.plan.languages])
        self.job, self.steps = job, job.step_plan
        size = job.pretraining.sequences_per_micro_batch
        parts = [-(-len(self._held_out_rows(tag)) // size) for tag in self.held_out.counts]
        before = np.cumsum([0, *parts]).tolist()
        self._held_out_before = dict(zip(self.held_out.counts, before, strict=False))
        """Held-out micro-batches before those of each language."""

    def usage(self) -> list[dict[str, Any]]:
        """Packed sequences that the whole training uses once, more often and never, by language:
        the fields of `Usage`."""
        return [asdict(use) for use in usage_of(self.plan, self.steps.samples)]

    def micro_batches(self, step: int, worker: Worker) -> list[Batch]:
        """One worker's micro-batches of a step; where there are fewer than workers, maybe none.

        Stored masks are used at the rate they were made at; at another one they are computed.

        Raises:
            ValueError: `step` is not one of the training's.
        """
        size = self.job.pretraining.sequences_per_micro_batch
        batch = self.steps.batch_at(step)
        numbers = share_of_batch(-(-batch // size), worker.rank, worker.world_size)
        if not len(numbers):
            return []
        begin, end = numbers.start * size, min(numbers.stop * size, batch)
        samples = self.plan.samples(self.steps.first_sample(step) + begin, end - begin)
        rows = self._first[samples.languages] + samples.rows
        rate, length = self.job.rate_at(step), self.job.length_at(step)
        stored = rate == self.job.masking.rate
        views = samples.passes if stored else np.full_like(samples.passes, -1)
        masker, group = self.masker.at_rate(rate), max(1, GROUP_TOKENS // (size * self.job.length))
        batches: list[Batch] = []
        for first in range(0, len(rows), group * size):
            part = slice(first, first + group * size)
            batches += batches_of(
                self.train.take(rows[part], views[part]),
                samples.passes[part],
                masker,
                self._layout(length),
                numbers.start + len(batches),
            )
        return batches

    def held_out_batches(self, language: str, worker: Worker) -> list[Batch]:
        """One worker's micro-batches of a language's held-out sequences: whole, and masked token by
        token at evaluation.masking_rate, as in a first pass.

        At the rate 0.15 these are the masks that packing stores with held-out text. Over the
        workers, every micro-batch occurs once. They are dealt out through all languages, so that no
        worker gets those of many small languages alone.
        """
        size = self.job.pretraining.sequences_per_micro_batch
        layout, masker = self._layout(self.job.length), self._held_out_masker
        rows, before = self._held_out_rows(language), self._held_out_before[language]
        batches: list[Batch] = []
        for number, begin in enumerate(range(0, len(rows), size)):
            if (before + number) % worker.world_size != worker.rank:
                continue
            own = np.array(rows[begin : begin + size], dtype=np.int64)
            taken = self.held_out.take(own, np.full_like(own, -1))
            batches += batches_of(taken, np.zeros_like(own), masker, layout, number)
        return batches

    def _held_out_rows(self, language: str) -> range:
        """The numbers of the rows that evaluation uses."""
        rows = self.held_out.rows_of(language)
        return rows[: self.job.evaluation.max_sequences_per_language]

    def _layout(self, length: int) -> Layout:
        """How micro-batches with rows of `length` are laid out."""
        settings, size = self.job.pretraining, self.job.pretraining.sequences_per_micro_batch
        rows = self.job.rows_at(length) if settings.compile else None
        return Layout(length, size, rows, self.job.documents_apart)

    def unigram_baseline(self) -> LossSums:
        """Cross-entropy of the unigram model on the masked tokens that evaluation predicts."""
        labels = {
            language: [b.labels.numpy() for b in self.held_out_batches(language, Worker())]
            for language in self.held_out.counts
        }
        return unigram_losses(labels, self.unigram)


def cache_notes(files: FileCache, cached_bytes: int) -> list[str]:
    """How the order of samples and the bound of the cache fit; nothing where all files do."""
    if files.bound is None or cached_bytes <= files.bound:
        return []
    misses = 1 - files.bound / cached_bytes
    return [
        f"pretraining.cache_gb = {files.bound / 1e9:g}, and the packed sequences take up to "
        f"{cached_bytes / 1e9:.3g} GB on a node's disk. Rows are drawn from all files, so about "
        f"{misses:.0%} of them bring a whole file again: training may wait for the store. "
        f"The order of samples stays the same; more disk is the cure"
    ]
