"""Evaluations as a person and as sinks see them."""

from __future__ import annotations

from typing import Any

import pytest

from model.held_out import evaluation_line, evaluation_values


def sums(losses: dict[str, float], tokens: int = 10) -> dict[str, dict[str, float]]:
    return {tag: {"loss_sum": loss * tokens, "tokens": tokens} for tag, loss in losses.items()}


def evaluation(losses: dict[str, float]) -> dict[str, Any]:
    return {"step": 8, "languages": sums(losses)}


def test_the_line_names_the_best_and_the_worst_against_unigram() -> None:
    losses = {"en": 4.0, "fi": 6.0, "sw": 7.0, "de": 5.0, "ja": 9.0, "hi": 8.5, "ur": 8.0}
    baseline = sums({"en": 7.0, "fi": 7.0, "sw": 7.5, "de": 7.0, "ja": 8.0, "hi": 8.0, "ur": 8.1})
    line = evaluation_line(evaluation(losses), baseline)
    assert line == (
        "held-out loss 6.79 over 7 languages; against unigram, "
        "best: en 4.00 (-3.00), de 5.00 (-2.00), fi 6.00 (-1.00); "
        "worst: ja 9.00 (+1.00), hi 8.50 (+0.50), ur 8.00 (-0.10)"
    )


def test_with_few_languages_all_are_named_and_without_any_it_says_what_to_do() -> None:
    line = evaluation_line(evaluation({"fi": 6.0, "en": 4.0}), sums({"en": 7.0, "fi": 7.0}))
    assert line == (
        "held-out loss 5.00 over 2 languages; against unigram: en 4.00 (-3.00), fi 6.00 (-1.00)"
    )
    assert "raise packing.held_out_share" in evaluation_line(evaluation({}), {})
    assert evaluation_line(evaluation({"en": 4.0}), {}) == "held-out loss 4.00 over 1 language"


def test_values_are_means_by_language_and_a_language_without_tokens_has_none() -> None:
    found = {"en": {"loss_sum": 40.0, "tokens": 10}, "fi": {"loss_sum": 18.0, "tokens": 2}}
    found["sw"] = {"loss_sum": 0.0, "tokens": 0}
    values = evaluation_values({"step": 1, "languages": found}, sums({"en": 7.0}))
    assert values == {
        "held_out_loss/en": 4.0,
        "held_out_loss/fi": 9.0,
        "held_out_loss/all": pytest.approx(58 / 12),
        "unigram_loss/en": 7.0,
    }
