"""What pretraining reads: its job as plain JSON, and training and held-out batches from it.

Global sample g is a pure function of (seed, g) and of what the job holds: the languages' shares by
phase, and the number of packed sequences of each language. Row r of a language is the r-th of its
files in the record's order. Neither workers, nor micro-batches, nor where a file ends, nor the
cache, nor an earlier run of the loop has a part in it; so resume is a number, never a replay.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from model.batches import Batch, Masker, batches_of
from model.config import EncoderSection, EvaluationSection, PretrainingSection
from model.distributed import Worker, share_of_batch
from model.metrics import LossSums, unigram_log_probabilities, unigram_losses
from model.packed_dataset import PackedSequences
from model.packed_files import FileCache, Packing
from model.sample_plan import Phase, SamplePlan
from model.sample_usage import usage_of
from pipelines.core.config import Config
from pipelines.core.manifest import FileRef, read_verified
from pipelines.core.masking import rule_and_sampler
from pipelines.core.store import Store
from pipelines.core.vocabulary import open_vocabulary, special_ids

GROUP_TOKENS = 2**17
"""Tokens that are masked and laid out at once: few calls, and arrays that fit a core's cache."""


class RatePhase(Config):
    """A phase of [masking]."""

    until: float
    rate: float


class MaskingSettings(Config):
    """The part of [masking] that computes masks beyond the stored views."""

    rate: float
    phases: list[RatePhase] = []
    unit: Literal["token", "word", "span"] = "token"
    mean_span_words: float = 3.8
    mask_probability: float
    random_probability: float
    random_from: Literal["unigram", "uniform"] = "unigram"


class SharesPhase(Config):
    """A phase of the mix of languages."""

    until: float
    """Share of the training steps at which it ends."""
    shares: dict[str, float]
    """q by language, of the languages in `train`."""


class PretrainingJob(Config):
    """All that pretraining reads, as plain JSON."""

    seed: int
    length: int
    """Longest sequence in tokens."""
    mode: Literal["stream", "document", "pairs"] = "stream"
    """How sequences were packed."""
    rows: int
    """Rows of the vocabulary; <mask> is the last."""
    encoder: EncoderSection
    pretraining: PretrainingSection
    evaluation: EvaluationSection
    masking: MaskingSettings
    phases: list[SharesPhase]
    """The mix of languages over the steps; the last phase ends at 1."""
    without_text: list[str] = []
    """Languages of the mix of which nothing was packed; the others take their shares."""
    train: dict[str, list[str]]
    """Keys of packed sequences by language, in the record's order."""
    held_out: dict[str, list[str]]
    unigram: FileRef
    """The counts by id, shape (rows,)."""
    vocabulary: dict[str, str] = {}
    """Keys of the vocabulary's files by part; read where whole words are masked."""
    vocabulary_sha256: str | None = None
    """Of the vocabulary's file; packed files must have been made with it."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are never predicted."""
        return special_ids(self.rows)

    @property
    def documents_apart(self) -> bool:
        """Whether documents of a row must not see each other."""
        return self.mode == "document"

    def rate_at(self, step: int) -> float:
        """The masking rate of a step, from 0."""
        found = phase_at(self.masking.phases, step, self.pretraining.steps)
        return self.masking.rate if found is None else found.rate

    def length_at(self, step: int) -> int:
        """The most tokens in a row at a step, from 0."""
        found = phase_at(self.pretraining.lengths, step, self.pretraining.steps)
        return self.length if found is None else found.length


class HasEnd(Protocol):
    """A phase that ends at a share of the training steps."""

    @property
    def until(self) -> float:
        """The share."""
        ...


P = TypeVar("P", bound=HasEnd)


def end_of(phase: HasEnd, steps: int) -> int:
    """The first step after a phase: round(until x steps)."""
    return round(phase.until * steps)


def phase_at(phases: Sequence[P], step: int, steps: int) -> P | None:
    """The phase that a step belongs to, of `steps`; None after the last one."""
    return next((phase for phase in phases if step < end_of(phase, steps)), None)


def plan_of(job: PretrainingJob, counts: dict[str, int]) -> SamplePlan:
    """The order of samples; a phase ends with a step, and the last one never does.

    Args:
        counts: sequences by language.
    """
    steps, batch = job.pretraining.steps, job.pretraining.sequences_per_step
    ends = [0, *(end_of(phase, steps) * batch for phase in job.phases)]
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
        if job.mode == "pairs":
            self.notes.append(
                "packing.mode = pairs: only masked tokens are learnt; the encoder has one token "
                "type and no next-sentence head"
            )
        self.masker = masker_of(job, store, counts)
        self.unigram = unigram_log_probabilities(counts, job.special_ids)
        self.plan = plan_of(job, self.train.counts)
        self._first = np.array([self.train.rows_of(tag).start for tag in self.plan.languages])
        self.job = job

    def usage(self) -> list[dict[str, Any]]:
        """Packed sequences that the whole training uses once, more often and never, by language:
        the fields of `Usage`."""
        settings = self.job.pretraining
        draws = settings.steps * settings.sequences_per_step
        return [asdict(use) for use in usage_of(self.plan, draws)]

    def micro_batches(self, step: int, worker: Worker) -> list[Batch]:
        """One worker's part of a step.

        Stored masks are used at the rate they were made at; at another one they are computed.
        """
        settings = self.job.pretraining
        share = share_of_batch(settings.sequences_per_step, worker.rank, worker.world_size)
        if not len(share):
            return []
        first = step * settings.sequences_per_step + share.start
        samples = self.plan.samples(first, len(share))
        rows = self._first[samples.languages] + samples.rows
        rate = self.job.rate_at(step)
        is_stored_rate = rate == self.job.masking.rate
        views = samples.passes if is_stored_rate else np.full_like(samples.passes, -1)
        masker, length = self.masker.at_rate(rate), self.job.length_at(step)
        size = settings.sequences_per_micro_batch
        group = size * max(1, GROUP_TOKENS // (size * self.job.length))
        batches = []
        for part in (slice(i, i + group) for i in range(0, len(rows), group)):
            taken = self.train.take(rows[part], views[part])
            batches += batches_of(
                taken, samples.passes[part], masker, length, size, self.job.documents_apart
            )
        return batches

    def held_out_batches(self, language: str, worker: Worker) -> list[Batch]:
        """One worker's part of a language's held-out sequences, whole and with their stored masks.

        Over the workers, every sequence occurs once.
        """
        rows = self.held_out.rows_of(language)
        rows = rows[: self.job.evaluation.max_sequences_per_language]
        own = np.array(rows[worker.rank :: worker.world_size], dtype=np.int64)
        if not len(own):
            return []
        views, size = np.zeros_like(own), self.job.pretraining.sequences_per_micro_batch
        taken, apart = self.held_out.take(own, views), self.job.documents_apart
        return batches_of(taken, views, None, self.job.length, size, apart)

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
