"""Masked language modelling ([pretraining])."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from model.config.types import PositiveInt, Rate
from pipelines.core.config import Config, ConfigError


class LengthPhase(Config):
    """A part of training on shorter sequences ([[pretraining.lengths]])."""

    until: Annotated[float, Field(gt=0, le=1)]
    """Share of the training tokens at which the phase ends."""
    length: Annotated[int, Field(ge=8)]
    """Tokens in a row; it divides packing.length."""


class BatchPhase(Config):
    """A part of training with smaller batches ([[pretraining.batches]])."""

    until: Annotated[float, Field(gt=0, lt=1)]
    """Share of the training tokens at which the phase ends."""
    sequences: PositiveInt
    """Global batch in this part."""


class PretrainingSection(Config):
    """Masked language modelling ([pretraining]).

    Schedules are counted in tokens: a packed sequence counts as packing.length tokens, so the
    place of a step is known without reading any.
    """

    steps: PositiveInt = 1_500_000
    """Optimizer updates."""
    tokens: PositiveInt | None = None
    """Tokens of training, in place of `steps`: as many whole batches as hold them."""
    sequences_per_step: PositiveInt = 8192
    """Global batch, whatever the number of workers."""
    batches: list[BatchPhase] = []
    """Smaller batches first, such as until = 0.02, sequences = 1024 (ModernBERT). A phase ends with
    the step in which its share of the tokens is reached."""
    sequences_per_micro_batch: PositiveInt = 32
    """Sequences that one worker computes at once; more are accumulated. A step is cut into micro-
    batches in the same way at any number of workers."""
    lengths: list[LengthPhase] = []
    """Shorter sequences first, such as until = 0.9, length = 128 (BERT); after the last phase, and
    where there is none, rows have packing.length. A packed sequence is folded into rows of that
    length: the same text, masks and tokens per step. Rows after its first have no <s> in front, and
    a document is cut where a row ends, also with packing.mode = document."""
    start_from: str | None = None
    """Weights to start from: a Hugging Face folder (a path or URL that holds config.json), a run of
    this store (NAME), or one of its checkpoints (NAME@STEP). Steps and schedules begin anew."""
    resume_from: str | None = None
    """A checkpoint of a run of this store (NAME@STEP) to go on from with everything it holds:
    weights, optimizer, step. For forks, such as several decays of one run."""
    learning_rate: Annotated[float, Field(gt=0)] = 2e-4
    """Peak, reached at the end of warm-up."""
    warmup_steps: Annotated[int, Field(ge=0)] = 30_000
    """Linear rise, in steps of sequences_per_step."""
    warmup_tokens: Annotated[int, Field(ge=0)] | None = None
    """Linear rise in tokens, in place of `warmup_steps`."""
    schedule: Literal["linear", "polynomial", "trapezoid"] = "linear"
    """After warm-up: down to the end in a line; by (1 - progress)^power; or constant, and at the
    end by 1 - sqrt(progress) (ModernBERT)."""
    power: Annotated[float, Field(gt=0)] = 1.0
    """Only polynomial."""
    decay_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Only trapezoid: share of the training tokens in which the rate falls."""
    final_rate_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the peak at which the decay ends. mmBERT: 0.02."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """AdamW; not applied to biases and norms."""
    beta1: Rate = 0.9
    beta2: Rate = 0.98
    epsilon: Annotated[float, Field(gt=0)] = 1e-6
    max_gradient_norm: Annotated[float, Field(ge=0)] = 1.0
    """Clip the global gradient norm to this; 0 does not clip."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 runs matrix products under autocast."""
    compile: bool = False
    """torch.compile of the layers; rows are then padded to full batches, so that shapes repeat."""
    activation_checkpointing: bool = False
    """Compute a layer's activations again in the backward pass: less memory, up to a third more
    work."""
    shard_optimizer: bool = False
    """Each worker keeps the optimizer's state of its share of the parameters (ZeRO stage 1,
    Rajbhandari et al. 2020)."""
    spike_factor: Annotated[float, Field(ge=0)] = 2.0
    """A loss above so many times the median of the last hundred is a spike: above 1, or 0 for no
    judgement."""
    on_spike: Literal["warn", "stop"] = "warn"
    """What a spike does: a line in the log, or the end of training before the update."""
    skip_steps: list[Annotated[int, Field(ge=1)]] = []
    """Steps that are passed over without an update, such as one whose batch gave no number."""
    log_every_steps: PositiveInt = 100
    evaluate_every_steps: PositiveInt = 5000
    checkpoint_every_steps: PositiveInt = 1000
    checkpoint_every_minutes: Annotated[float, Field(ge=0)] = 30.0
    """Also after so long without a checkpoint; 0: by steps alone."""
    keep_checkpoints: PositiveInt = 3
    """The last so many stay, and the one with the lowest held-out loss."""
    prefetch_steps: Annotated[int, Field(ge=0)] = 4
    """Steps whose batches are prepared ahead; 0 prepares each when it is needed."""
    cache_gb: Annotated[float, Field(gt=0)] | None = None
    """Most disk a node gives to packed sequences, in 10^9 bytes; not given: all of them are kept
    there. Rows are drawn from the whole corpus, so a smaller cache brings files again and again."""

    @model_validator(mode="after")
    def _phases_come_in_order(self) -> PretrainingSection:
        parts: dict[str, Sequence[LengthPhase | BatchPhase]] = {
            "lengths": self.lengths,
            "batches": self.batches,
        }
        for name, phases in parts.items():
            ends = [phase.until for phase in phases]
            if ends != sorted(set(ends)):
                raise ValueError(f"{name} end at {ends}; need rising shares of the tokens")
        sizes = [*(phase.sequences for phase in self.batches), self.sequences_per_step]
        if sizes != sorted(sizes):
            raise ValueError(f"batches shrink: {sizes}, the last being sequences_per_step")
        return self

    @model_validator(mode="after")
    def _warmup_ends_in_time(self) -> PretrainingSection:
        counted = self.tokens is None and self.warmup_tokens is None
        if counted and not self.batches and self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} must be below steps {self.steps}")
        if None not in (self.tokens, self.warmup_tokens) and self.warmup_tokens >= self.tokens:  # type: ignore[operator]
            raise ValueError(
                f"warmup_tokens {self.warmup_tokens} must be below tokens {self.tokens}"
            )
        return self

    @model_validator(mode="after")
    def _spikes_are_above_the_median(self) -> PretrainingSection:
        if 0 < self.spike_factor <= 1:
            raise ValueError(
                f"spike_factor = {self.spike_factor:g}: half of all losses are above the median; "
                "set it above 1, or to 0 for no judgement"
            )
        return self

    @model_validator(mode="after")
    def _one_start(self) -> PretrainingSection:
        if self.start_from is not None and self.resume_from is not None:
            raise ValueError(
                "start_from takes weights, resume_from goes on with everything: give one of them"
            )
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

    def check_workers(self, workers: int) -> None:
        """Refuse more workers than a step has micro-batches.

        Raises:
            ConfigError: with the settings that would do.
        """
        batch = min([self.sequences_per_step, *(phase.sequences for phase in self.batches)])
        parts = -(-batch // self.sequences_per_micro_batch)
        if parts < workers:
            most = batch // workers
            raise ConfigError(
                f"cluster.num_workers = {workers}: a step of {batch} sequences has only {parts} "
                f"micro-batches of pretraining.sequences_per_micro_batch = "
                f"{self.sequences_per_micro_batch}; "
                + (f"set that to {most} or less" if most else f"use at most {batch} workers")
            )
