"""Fine-tuning tasks ([[finetuning]])."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from model.config.types import PositiveInt
from pipelines.core.config import Config


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
