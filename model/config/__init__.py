"""The configuration sections of the model path."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from model.config.cluster import ClusterSection
from model.config.encoder import EncoderSection, preset_names, preset_values
from model.config.pretraining import BatchPhase, LengthPhase, PretrainingSection
from model.config.tasks import ClassificationTask, FinetuningTask
from model.config.types import PositiveInt, Rate
from pipelines.core.config import Config

__all__ = [
    "BatchPhase",
    "ClassificationTask",
    "ClusterSection",
    "EncoderSection",
    "EvaluationSection",
    "FinetuningTask",
    "LengthPhase",
    "ModelConfig",
    "PositiveInt",
    "PretrainingSection",
    "Rate",
    "preset_names",
    "preset_values",
]


class EvaluationSection(Config):
    """Held-out loss ([evaluation])."""

    max_sequences_per_language: PositiveInt = 64
    """Most held-out sequences of one language in one evaluation."""
    masking_rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of tokens predicted in evaluation, whatever training masks: losses stay comparable."""


class ModelConfig(Config):
    """All sections of the model path."""

    encoder: EncoderSection = EncoderSection()
    pretraining: PretrainingSection = PretrainingSection()
    finetuning: list[FinetuningTask] = []
    evaluation: EvaluationSection = EvaluationSection()
    cluster: ClusterSection = ClusterSection()
