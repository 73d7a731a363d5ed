"""Thresholds of language scores that come from the scores themselves: FineWeb-2's rule.

Source: Penedo et al. 2025 (FineWeb-2, arXiv 2506.20920), section on language identification:
max(floor, min(cap, median - standard deviation)) of a language's scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pipelines.config import LanguageScoreFilter
from pipelines.core.languages import normalise
from pipelines.core.records import UNKNOWN_LANGUAGE, Document

BINS = 100
"""Bins of a score histogram over [0, 1]; a score of 1 is in the last one."""
TOLERANCE = 1e-6
"""Scores are stored with 24 bits; 0.29 comes back a little smaller."""
BIMODAL = 5 / 9
"""Sarle's bimodality coefficient of a uniform distribution; two groups have a larger one."""


def score_histogram(documents: Iterable[Document]) -> dict[str, dict[str, int]]:
    """Count documents by language and bin of their score: {"sw": {"97": 12}}, ready for JSON."""
    counts: dict[str, dict[int, int]] = {}
    for document in documents:
        bins = counts.setdefault(document.language, {})
        place = bin_of(document.language_score)
        bins[place] = bins.get(place, 0) + 1
    return {
        language: {str(place): bins[place] for place in sorted(bins)}
        for language, bins in sorted(counts.items())
    }


def bin_of(score: float) -> int:
    """The bin of a score in [0, 1]: bin i holds i/100 up to, not including, (i+1)/100."""
    return min(BINS - 1, math.floor(score * BINS + TOLERANCE * BINS))


def merged_histograms(
    parts: Iterable[Mapping[str, Mapping[str, int]]],
) -> dict[str, list[int]]:
    """Add histograms of `score_histogram` up to one list of BINS counts for each language.

    Raises:
        ValueError: a bin that is none.
    """
    total: dict[str, list[int]] = {}
    for part in parts:
        for language, bins in part.items():
            counts = total.setdefault(language, [0] * BINS)
            for place, count in bins.items():
                if not (place.isascii() and place.isdigit() and int(place) < BINS):
                    raise ValueError(f"{language}: {place!r} is no bin; they are 0 to {BINS - 1}")
                counts[int(place)] += count
    return dict(sorted(total.items()))


def derived_thresholds(
    histograms: Mapping[str, Sequence[int]], rule: LanguageScoreFilter, notes: list[str]
) -> dict[str, float]:
    """The least score for each language, from histograms with BINS bins.

    From histograms the median and the standard deviation (of the population) are each known to
    half a bin, so an unclamped threshold is within 0.01 of the exact one.

    Guards, each with a note: fewer documents than `rule.min_documents` get `rule.min_score`; all
    scores in one bin get that bin's lower edge, clamped, for the rule would drop half of them by
    chance; a threshold that drops more than `rule.max_dropped_share` is kept and named; so is one
    that drops nothing although the scores form two groups. `und` gets no threshold.

    Raises:
        ValueError: a histogram has not BINS counts, or a negative one.
    """
    thresholds: dict[str, float] = {}
    small: list[str] = []
    for language, counts in sorted(histograms.items()):
        if len(counts) != BINS or any(count < 0 for count in counts):
            raise ValueError(f"{language}: a histogram is {BINS} counts of 0 or more")
        if language == UNKNOWN_LANGUAGE:
            continue
        if sum(counts) < rule.min_documents:
            thresholds[language] = rule.min_score
            small.append(language)
            continue
        # Rounded to what a person can read in the report, and far below a bin.
        thresholds[language] = round(_threshold(language, np.asarray(counts), rule, notes), 4)
    if small:
        notes.append(
            f"language_score: {len(small)} language(s) with fewer than min_documents = "
            f"{rule.min_documents} documents have the threshold min_score = {rule.min_score}: "
            f"{', '.join(small)}"
        )
    return thresholds


def with_thresholds(
    section: LanguageScoreFilter, thresholds: Mapping[str, float]
) -> LanguageScoreFilter:
    """The filter's section with these thresholds; one that a person set for a language stays."""
    by_language = {normalise(tag): settings for tag, settings in section.by_language.items()}
    for tag, threshold in thresholds.items():
        given = by_language.get(tag, by_language.get(tag.partition("-")[0], {}))
        by_language[tag] = {"min_score": threshold, **given}
    return section.model_copy(update={"by_language": by_language})


def _threshold(
    language: str, counts: npt.NDArray[np.int64], rule: LanguageScoreFilter, notes: list[str]
) -> float:
    total = int(counts.sum())
    occupied = np.flatnonzero(counts)
    if len(occupied) == 1:
        threshold = max(rule.floor, min(rule.cap, float(occupied[0]) / BINS))
        notes.append(
            f"language_score: all {total} documents of {language} have scores in one bin, from "
            f"{occupied[0] / BINS}: their spread says nothing, the threshold is {threshold}"
        )
    else:
        threshold = max(rule.floor, min(rule.cap, _median(counts) - math.sqrt(_moment(counts, 2))))
    dropped = _share_below(counts, threshold)
    if dropped > rule.max_dropped_share:
        notes.append(
            f"language_score: the threshold {threshold:.2f} drops about {dropped:.0%} of the "
            f"{total} documents of {language}, more than max_dropped_share = "
            f"{rule.max_dropped_share}: look at some of them"
        )
    elif (
        dropped == 0
        and threshold < rule.cap
        and len(occupied) > 1
        and _bimodality(counts) > BIMODAL
    ):
        notes.append(
            f"language_score: the scores of {language} form two groups, and the threshold "
            f"{threshold:.2f} drops nothing: set by_language.{language}.min_score by hand"
        )
    return threshold


def _median(counts: npt.NDArray[np.int64]) -> float:
    """The median with each document at the middle of its bin."""
    cumulated = counts.cumsum()
    total = int(cumulated[-1])
    places = [int(np.searchsorted(cumulated, rank, side="right")) for rank in _middle(total)]
    return (sum(places) / len(places) + 0.5) / BINS


def _middle(total: int) -> tuple[int, int]:
    return (total - 1) // 2, total // 2


def _moment(counts: npt.NDArray[np.int64], order: int) -> float:
    """A central moment, with each document at the middle of its bin."""
    middles = (np.arange(BINS) + 0.5) / BINS
    mean = float(np.average(middles, weights=counts))
    return float(np.average((middles - mean) ** order, weights=counts))


def _share_below(counts: npt.NDArray[np.int64], threshold: float) -> float:
    """The share of documents below a threshold; those in its bin count by where it cuts the bin."""
    place = bin_of(threshold)
    part = max(0.0, threshold * BINS - place)
    return float((counts[:place].sum() + part * counts[place]) / counts.sum())


def _bimodality(counts: npt.NDArray[np.int64]) -> float:
    """Sarle's coefficient, (skewness² + 1) / kurtosis: 1 for two points, 1/3 for a normal."""
    variance = _moment(counts, 2)
    skewness = _moment(counts, 3) / variance**1.5
    return float((skewness**2 + 1) / (_moment(counts, 4) / variance**2))
