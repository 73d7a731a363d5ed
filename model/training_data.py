"""What pretraining reads: its job as plain JSON, and training and held-out batches from it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from model.config import EncoderSection, EvaluationSection, PretrainingSection
from model.distributed import Worker, share_of_batch
from model.metrics import LossSums, unigram_log_probabilities, unigram_losses
from model.packed_dataset import Batch, Masker, PackedSequences, collate, open_packed
from model.sample_plan import SamplePlan
from pipelines.core.config import Config
from pipelines.core.masking import MaskingRule, UnigramSampler
from pipelines.core.store import Store
from pipelines.core.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID


class MaskingSettings(Config):
    """The part of [masking] that computes masks beyond the stored views."""

    rate: float
    mask_probability: float
    random_probability: float


class PretrainingJob(Config):
    """All that pretraining reads, as plain JSON."""

    seed: int
    length: int
    """Longest sequence in tokens."""
    rows: int
    """Rows of the vocabulary; <mask> is the last."""
    encoder: EncoderSection
    pretraining: PretrainingSection
    evaluation: EvaluationSection
    masking: MaskingSettings
    shares: dict[str, float]
    """q by language, of the languages in `train`."""
    train: dict[str, list[str]]
    """Keys of packed sequences by language."""
    held_out: dict[str, list[str]]
    unigram: str
    """Key of the counts by id, shape (rows,)."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are never predicted."""
        return frozenset({BOS_ID, PAD_ID, EOS_ID, UNK_ID, self.rows - 1})


class TrainingData:
    """Training batches by step, and held-out sequences by language.

    Args:
        cache: folder on the node's disk.
    """

    def __init__(self, job: PretrainingJob, store: Store, cache: Path) -> None:
        counts = np.load(io.BytesIO(store.read_bytes(job.unigram)))
        masking = job.masking
        rule = MaskingRule(
            masking.rate,
            masking.mask_probability,
            masking.random_probability,
            job.rows - 1,
            job.special_ids,
        )
        masker = Masker(rule, UnigramSampler(counts, job.special_ids), job.seed)
        self.train = open_packed(store, job.train, cache, job.rows, masker)
        self.held_out = open_packed(store, job.held_out, cache, job.rows)
        self.unigram = unigram_log_probabilities(counts, job.special_ids)
        sizes = {language: len(sequences) for language, sequences in self.train.items()}
        self.plan = SamplePlan(sizes, job.shares, job.seed)
        self.job = job

    def micro_batches(self, step: int, worker: Worker) -> list[tuple[Batch, list[str]]]:
        """One worker's part of a step, with the ids of the sequences in it."""
        settings = self.job.pretraining
        share = share_of_batch(settings.sequences_per_step, worker.rank, worker.world_size)
        first = step * settings.sequences_per_step
        sequences = []
        for sample in (self.plan.sample(first + i) for i in share):
            sequences.append(self.train[sample.language].masked(sample.row, sample.pass_index))
        size = settings.sequences_per_micro_batch
        parts = [sequences[i : i + size] for i in range(0, len(sequences), size)]
        return [(collate(part), [sequence.id for sequence in part]) for part in parts]

    def held_out_rows(self, sequences: PackedSequences) -> range:
        """The rows of a language that are evaluated."""
        return range(min(len(sequences), self.job.evaluation.max_sequences_per_language))

    def unigram_baseline(self) -> LossSums:
        """Cross-entropy of the unigram model on the masked tokens that evaluation predicts."""
        labels = {
            language: [sequences.masked(row).labels for row in self.held_out_rows(sequences)]
            for language, sequences in self.held_out.items()
        }
        return unigram_losses(labels, self.unigram)
