"""The configuration sections of the model path."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipelines.core.config import Config, ConfigError

PositiveInt = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]


class EncoderSection(Config):
    """The bidirectional transformer ([encoder])."""

    layers: PositiveInt = 12
    hidden_size: PositiveInt = 768
    heads: PositiveInt = 12
    feed_forward_size: PositiveInt = 3072
    dropout: Rate = 0.1
    """After embeddings, attention weights and sub-layers, as in BERT."""
    initializer_std: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the normal distribution weights start from."""

    @model_validator(mode="after")
    def _heads_divide_hidden(self) -> EncoderSection:
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of heads {self.heads}"
            )
        return self


class LengthPhase(Config):
    """A part of training on shorter sequences ([[pretraining.lengths]])."""

    until: Annotated[float, Field(gt=0, le=1)]
    """Share of the training steps at which the phase ends."""
    length: Annotated[int, Field(ge=8)]
    """Tokens in a row; it divides packing.length."""


class PretrainingSection(Config):
    """Masked language modelling ([pretraining])."""

    steps: PositiveInt = 1_500_000
    """Optimizer updates."""
    sequences_per_step: PositiveInt = 8192
    """Global batch, whatever the number of workers."""
    sequences_per_micro_batch: PositiveInt = 32
    """Sequences that one worker computes at once; more are accumulated."""
    lengths: list[LengthPhase] = []
    """Shorter sequences first, such as until = 0.9, length = 128 (BERT); after the last phase, and
    where there is none, rows have packing.length. A packed sequence is folded into rows of that
    length: the same text, masks and tokens per step. Rows after its first have no <s> in front, and
    a document is cut where a row ends, also with packing.mode = document."""
    learning_rate: Annotated[float, Field(gt=0)] = 2e-4
    """Peak, reached at the end of warm-up; then linear decay to 0."""
    warmup_steps: Annotated[int, Field(ge=0)] = 30_000
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """AdamW; not applied to biases and norms."""
    beta1: Rate = 0.9
    beta2: Rate = 0.98
    epsilon: Annotated[float, Field(gt=0)] = 1e-6
    max_gradient_norm: Annotated[float, Field(ge=0)] = 1.0
    """Clip the global gradient norm to this; 0 does not clip."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 runs matrix products under autocast."""
    log_every_steps: PositiveInt = 100
    evaluate_every_steps: PositiveInt = 5000
    checkpoint_every_steps: PositiveInt = 1000
    keep_checkpoints: PositiveInt = 3
    prefetch_steps: Annotated[int, Field(ge=0)] = 4
    """Steps whose batches are prepared ahead; 0 prepares each when it is needed."""
    cache_gb: Annotated[float, Field(gt=0)] | None = None
    """Most disk a node gives to packed sequences, in 10^9 bytes; not given: all of them are kept
    there. Rows are drawn from the whole corpus, so a smaller cache brings files again and again."""

    @model_validator(mode="after")
    def _lengths_come_in_order(self) -> PretrainingSection:
        ends = [phase.until for phase in self.lengths]
        if ends != sorted(set(ends)):
            raise ValueError(f"lengths end at {ends}; need rising shares of the steps")
        return self

    @model_validator(mode="after")
    def _warmup_ends_in_time(self) -> PretrainingSection:
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} must be below steps {self.steps}")
        return self

    def check_lengths(self, length: int, mode: str) -> None:
        """Refuse lengths that packed sequences cannot be folded to.

        Args:
            length: packing.length.
            mode: packing.mode.

        Raises:
            ConfigError: the setting is named with its value and packing's.
        """
        for number, phase in enumerate(self.lengths):
            name = f"pretraining.lengths[{number}].length = {phase.length}"
            if length % phase.length:
                raise ConfigError(f"{name} does not divide packing.length = {length}")
            if mode == "pairs" and phase.length != length:
                raise ConfigError(
                    f'{name} would cut pairs (packing.mode = "pairs", packing.length = {length}): '
                    f"train on pairs at one length, or pack them shorter in a run of their own"
                )


class ClassificationTask(Config):
    """Tell where a paragraph comes from, by labels read from document addresses."""

    kind: Literal["classification"]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    """Name of the task, and of its folder."""
    label_pattern: Annotated[str, Field(min_length=1)]
    """Regular expression over the document's URL; its first group is the label."""
    min_characters: PositiveInt = 30
    """Shorter paragraphs are left out."""
    min_examples_per_label: PositiveInt = 100
    """Labels with fewer paragraphs are left out, and named."""
    max_examples_per_label: PositiveInt = 5000
    """Larger labels are sampled down."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """Longer paragraphs are cut, and counted."""
    epochs: PositiveInt = 3
    examples_per_step: PositiveInt = 32
    """Global batch."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    warmup_share: Annotated[float, Field(ge=0, lt=1)] = 0.06
    weight_decay: Annotated[float, Field(ge=0)] = 0.01


FinetuningTask = ClassificationTask


class EvaluationSection(Config):
    """Held-out loss ([evaluation])."""

    max_sequences_per_language: PositiveInt = 64
    """Most held-out sequences of one language in one evaluation."""


class ClusterSection(Config):
    """What a run may use ([cluster])."""

    num_workers: PositiveInt = 2
    """Training workers (DDP ranks)."""
    cpus_per_worker: PositiveInt = 1
    use_gpu: bool = False
    """One GPU a worker, NCCL; otherwise CPUs and gloo."""
    max_worker_failures: Annotated[int, Field(ge=0)] = 3
    """Times training restarts from its last checkpoint after a worker was lost."""
    pending_timeout_seconds: PositiveInt = 300
    """Longest a Ray job may wait to start."""


class ModelConfig(Config):
    """All sections of the model path."""

    encoder: EncoderSection = EncoderSection()
    pretraining: PretrainingSection = PretrainingSection()
    finetuning: list[FinetuningTask] = []
    evaluation: EvaluationSection = EvaluationSection()
    cluster: ClusterSection = ClusterSection()
