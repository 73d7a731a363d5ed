"""Figures: loss by language, the unigram baseline, and scores of a classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.core.masking import Ids

LossSums = dict[str, dict[str, float]]
"""By language: `loss_sum` in nats and `tokens`, the masked tokens it is summed over."""


def unigram_log_probabilities(
    counts: npt.NDArray[np.int64], special_ids: Iterable[int]
) -> npt.NDArray[np.float64]:
    """Log-probability of every id under the unigram model with add-one smoothing, in nats.

    Args:
        counts: occurrences in the training text by id, shape (rows,).
        special_ids: ids that are never predicted; they get probability 0 (-inf).
    """
    smoothed = counts.astype(np.float64) + 1.0
    smoothed[sorted(special_ids)] = 0.0
    with np.errstate(divide="ignore"):
        logs: npt.NDArray[np.float64] = np.log(smoothed / smoothed.sum())
    return logs


def unigram_losses(
    labels: Mapping[str, Iterable[Ids]], log_probabilities: npt.NDArray[np.float64]
) -> LossSums:
    """Cross-entropy of the unigram model on the masked tokens of each language.

    A masked language model that has learnt nothing but frequencies scores this.
    """
    sums: LossSums = {}
    for language, parts in labels.items():
        ids = np.concatenate([np.zeros(0, np.int64), *(part.astype(np.int64) for part in parts)])
        sums[language] = {
            "loss_sum": float(-log_probabilities[ids].sum()),
            "tokens": len(ids),
        }
    return sums


@dataclass(frozen=True, slots=True)
class Prediction:
    """One test example, judged."""

    language: str
    label: int
    predicted: int


def classification_scores(
    predictions: Sequence[Prediction], labels: Sequence[str], majority: int
) -> dict[str, Any]:
    """Accuracy, macro-F1, the majority baseline, and both by label and by language.

    Macro-F1 is the plain mean of F1 over all labels; a label that is neither there nor predicted
    counts 0, as does one with no true positive.

    Args:
        predictions: one for each example.
        labels: names by id.
        majority: id of the most frequent label of the training part.

    Raises:
        ValueError: there is no prediction.
    """
    if not predictions:
        raise ValueError("no example to score")
    hits = Counter(p.label for p in predictions if p.label == p.predicted)
    there = Counter(p.label for p in predictions)
    given = Counter(p.predicted for p in predictions)
    per_label: dict[str, dict[str, float]] = {}
    for number, name in enumerate(labels):
        precision = hits[number] / given[number] if given[number] else 0.0
        recall = hits[number] / there[number] if there[number] else 0.0
        both = precision + recall
        per_label[name] = {
            "precision": precision,
            "recall": recall,
            "f1": 2 * precision * recall / both if both else 0.0,
            "count": there[number],
        }
    by_language: dict[str, dict[str, float]] = {}
    for language in sorted({p.language for p in predictions}):
        own = [p for p in predictions if p.language == language]
        right = sum(p.label == p.predicted for p in own)
        by_language[language] = {"accuracy": right / len(own), "count": len(own)}
    return {
        "accuracy": sum(hits.values()) / len(predictions),
        "macro_f1": sum(row["f1"] for row in per_label.values()) / len(labels),
        "majority_accuracy": there[majority] / len(predictions),
        "per_label": per_label,
        "per_language": by_language,
    }
