"""What pretraining reads, as plain JSON: the settings, and the files by their keys."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from model.config import EncoderSection, EvaluationSection, PretrainingSection
from model.start.start_point import StartPoint
from model.step_plan import StepPlan, step_plan_of
from pipelines.core.config import Config
from pipelines.core.manifest import FileRef
from pipelines.core.vocabulary import special_ids


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
    """Share of the training tokens at which it ends."""
    shares: dict[str, float]
    """q by language, of the languages in `train`."""


class ResumePoint(Config):
    """The checkpoint that `pretraining.resume_from` names."""

    name: str
    """RUN/UNIT@STEP, which no other checkpoint of the store is meant by."""
    step: int
    files: dict[str, str]
    """SHA-256 of its files by name."""


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
    """The mix of languages over the training; the last phase ends at 1."""
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
    resume: ResumePoint | None = None
    """What `pretraining.resume_from` names."""
    start: StartPoint | None = None
    """What `pretraining.start_from` names."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are never predicted."""
        return special_ids(self.rows)

    @property
    def documents_apart(self) -> bool:
        """Whether documents of a row must not see each other."""
        return self.mode == "document"

    @cached_property
    def step_plan(self) -> StepPlan:
        """How training is cut into steps."""
        return step_plan_of(self.pretraining, self.length)

    def rate_at(self, step: int) -> float:
        """The masking rate of a step, from 0."""
        found = self.step_plan.phase_at(self.masking.phases, step)
        return self.masking.rate if found is None else found.rate

    def rows_at(self, length: int) -> int:
        """Rows of a whole micro-batch with rows of `length` tokens."""
        return self.pretraining.sequences_per_micro_batch * (self.length // length)

    def length_at(self, step: int) -> int:
        """The most tokens in a row at a step, from 0."""
        found = self.step_plan.phase_at(self.pretraining.lengths, step)
        return self.length if found is None else found.length
