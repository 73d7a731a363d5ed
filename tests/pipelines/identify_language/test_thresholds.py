"""FineWeb-2's rule from histograms, against NumPy on the scores themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.config import LanguageScoreFilter
from pipelines.core.records import Document, documents_to_table, table_to_documents
from pipelines.filters import reason_to_drop
from pipelines.identify_language import (
    derived_thresholds,
    merged_histograms,
    score_histogram,
    with_thresholds,
)
from pipelines.identify_language.thresholds import BINS, bin_of

RULE = LanguageScoreFilter(kind="language_score", derived=True, min_documents=1)


def document(score: float, language: str = "sw") -> Document:
    return Document(
        id="a",
        text="maneno",
        source="s",
        url="u",
        shard="x",
        offset=0,
        language=language,
        language_score=score,
    )


def histogram(scores: list[float]) -> list[int]:
    merged = merged_histograms([score_histogram([document(score) for score in scores])])
    return merged["sw"]


def derive(scores: list[float], rule: LanguageScoreFilter = RULE) -> tuple[float, list[str]]:
    notes: list[str] = []
    return derived_thresholds({"sw": histogram(scores)}, rule, notes)["sw"], notes


def test_histograms_count_by_language_and_bin() -> None:
    documents = [document(s) for s in (0.0, 0.009, 0.29, 0.999, 1.0)] + [document(0.5, "de")]
    first = score_histogram(documents)
    assert first == {"de": {"50": 1}, "sw": {"0": 2, "29": 1, "99": 2}}
    merged = merged_histograms([first, {"sw": {"29": 4}}, {}])
    assert merged["sw"][29] == 5 and sum(merged["sw"]) == 9 and len(merged["de"]) == BINS


@pytest.mark.parametrize("place", ["100", "-1", "x", "1.5"])
def test_a_bin_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="is no bin"):
        merged_histograms([{"sw": {place: 1}}])


@pytest.mark.parametrize("number", range(101))
def test_a_score_is_in_the_same_bin_after_it_was_stored(number: int) -> None:
    table = documents_to_table([document(number / 100)])
    stored = table_to_documents(table)[0].language_score
    assert bin_of(stored) == bin_of(number / 100) == min(number, 99)
    # ... and a threshold of exactly that score lets it pass.
    section = LanguageScoreFilter(kind="language_score", min_score=number / 100)
    assert reason_to_drop(document(stored), [section]) is None


def test_the_rule_worked_by_hand() -> None:
    # Scores .60 .70 .80 .80 .90 and their middles; median .805, variance (4+1+0+0+1 ...)/5
    scores = [0.605, 0.705, 0.805, 0.805, 0.905]
    deviation = ((0.16**2 + 0.06**2 + 2 * 0.04**2 + 0.14**2) / 5) ** 0.5
    assert derive(scores)[0] == pytest.approx(0.805 - deviation, abs=1e-4)


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=200))
def test_within_a_bin_of_the_exact_rule(scores: list[float]) -> None:
    if len({bin_of(score) for score in scores}) == 1:
        return  # a guard's case
    exact = max(0.3, min(0.9, float(np.median(scores) - np.std(scores))))
    assert derive(scores)[0] == pytest.approx(exact, abs=0.0101)


def test_floor_and_cap() -> None:
    low, high = derive([0.1, 0.2, 0.25, 0.4] * 50), derive([0.97, 0.98, 0.99, 1.0] * 50)
    assert low[0] == 0.3 and high == (0.9, [])
    assert "drops about 75%" in low[1][0]


def test_few_documents_get_the_default_and_a_note() -> None:
    rule = RULE.model_copy(update={"min_documents": 4, "min_score": 0.45})
    threshold, notes = derive([0.9, 0.95, 0.97], rule)
    assert threshold == 0.45 and notes == [
        "language_score: 1 language(s) with fewer than min_documents = 4 documents have the "
        "threshold min_score = 0.45: sw"
    ]
    assert derive([0.9, 0.95, 0.97, 0.98], rule)[0] != 0.45


def test_without_spread_nothing_is_dropped_by_chance() -> None:
    threshold, notes = derive([0.617] * 300)
    assert threshold == 0.61 and len(notes) == 1 and "in one bin" in notes[0]
    assert derive([0.995] * 300)[0] == 0.9  # the cap still holds
    threshold, notes = derive([0.105] * 300)
    assert threshold == 0.3 and "drops about 100%" in notes[1]


def test_two_groups_that_are_not_separated_are_noted() -> None:
    threshold, notes = derive([0.355] * 300 + [0.995] * 300)
    # median .675, deviation .32: .355, which drops half of the lower group's bin
    assert threshold == pytest.approx(0.355, abs=0.001)
    threshold, notes = derive([0.355] * 310 + [0.995] * 290)
    assert threshold == 0.3 and len(notes) == 1 and "two groups" in notes[0]
    assert "by_language.sw.min_score" in notes[0]


def test_a_normal_language_has_no_note() -> None:
    scores = np.random.default_rng(7).normal(0.75, 0.08, 5000).clip(0, 1)
    threshold, notes = derive([float(score) for score in scores])
    assert threshold == pytest.approx(0.67, abs=0.01) and notes == []
    assert np.mean(scores < threshold) == pytest.approx(0.159, abs=0.03)


def test_und_has_no_threshold_and_bad_histograms_are_refused() -> None:
    assert derived_thresholds({"und": [1] * BINS}, RULE, []) == {}
    for counts in ([1] * 99, [-1] + [1] * 99):
        with pytest.raises(ValueError, match="sw: a histogram is 100 counts of 0 or more"):
            derived_thresholds({"sw": counts}, RULE, [])


def test_thresholds_go_into_the_section_and_a_persons_own_stays() -> None:
    section = LanguageScoreFilter(
        kind="language_score",
        by_language={"swh": {"min_score": 0.2}, "zh": {"min_score": 0.4}, "de": {"cap": 0.8}},
    )
    thresholds = {"sw": 0.7, "de": 0.6, "zh-Hans": 0.9, "fr": 0.8}
    filled = with_thresholds(section, thresholds)
    found = {tag: filled.for_language(tag).min_score for tag in (*thresholds, "el", "zh-Hant")}  # type: ignore[attr-defined]
    assert found == {"sw": 0.2, "de": 0.6, "zh-Hans": 0.4, "fr": 0.8, "el": 0.5, "zh-Hant": 0.4}
    assert LanguageScoreFilter.model_validate(filled.model_dump()) == filled


def test_the_filter_drops_below_the_threshold_of_the_language() -> None:
    section = with_thresholds(RULE, {"sw": 0.7})
    reasons = [
        reason_to_drop(document(score, language), [section])
        for score, language in ((0.69, "sw"), (0.7, "sw"), (0.69, "de"), (0.49, "de"))
    ]
    assert reasons == ["low_language_score", None, None, "low_language_score"]
    assert getattr(reasons[0], "because", "") == "language score 0.69 < 0.7"


def test_a_floor_over_the_cap_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"floor = 0\.95 is over cap = 0\.9"):
        LanguageScoreFilter(kind="language_score", floor=0.95)
