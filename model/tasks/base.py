"""What a fine-tuning task is: labelled examples out of the run's own documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from model.config import FinetuningTask
from pipelines.core.manifest import Counters, Output
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary

SPLITS = ("train", "dev", "test")

EXAMPLE_SCHEMA = pa.schema(
    [
        pa.field("text_id", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("language", pa.string(), nullable=False),
        pa.field("label", pa.int32(), nullable=False),
        pa.field("tokens", pa.list_(pa.uint32()), nullable=False),
    ]
)
"""`text_id` stands for the normalised text, `label` is an index; `tokens` holds <s> and </s>."""


@dataclass(frozen=True)
class Examples:
    """The data of one task."""

    labels: list[str]
    """Names by id, sorted, so that ids are the same in every run."""
    table: pa.Table
    """EXAMPLE_SCHEMA."""
    dropped: Counters
    """What was left out, by reason."""
    cut: int
    """Examples that were longer than `max_tokens`."""

    def counts(self) -> dict[str, int]:
        """Examples of each split."""
        splits = self.table["split"].to_pylist()
        return {split: splits.count(split) for split in SPLITS}


class Task(Protocol):
    """A kind of fine-tuning task."""

    def check(self, settings: FinetuningTask, length: int) -> None:
        """Refuse settings that cannot work, before anything is read.

        Args:
            length: longest sequence of the encoder.

        Raises:
            ConfigError: names the setting and what would be right.
        """
        ...

    def examples(
        self,
        settings: FinetuningTask,
        store: Store,
        unique: Sequence[Output],
        vocabulary: Vocabulary | WordPieceVocabulary,
        seed: int,
    ) -> Examples:
        """Read the examples of a task; the same in every process.

        Args:
            unique: files of deduplicated documents.

        Raises:
            ConfigError: the documents give too few examples.
        """
        ...

    def scores(
        self, labels: Sequence[str], train_labels: Sequence[int], judged: Sequence[Any]
    ) -> dict[str, Any]:
        """Scores of predictions (`model.metrics.Prediction`), one for each example."""
        ...
