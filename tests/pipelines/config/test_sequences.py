"""What the sections of vocabulary, packing and masking refuse."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.config import MaskingSection, VocabularySection
from pipelines.config.sequences import LEAST_BYTE_FALLBACK_SIZE
from pipelines.core.config import ConfigError, validate
from pipelines.core.vocabulary import MASK_TOKEN, SPECIAL_TOKENS


@pytest.mark.parametrize(
    "settings",
    [
        {"mask_probability": 0.95},  # random_probability is 0.1 by default
        {"random_probability": 0.25},  # mask_probability is 0.8 by default
        {"mask_probability": 0.5, "random_probability": 0.6},
    ],
)
def test_probabilities_above_1_are_refused_whichever_is_set(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"mask_probability \+ random_probability = .*above 1"):
        validate(MaskingSection, settings, "here")


def test_probabilities_that_make_1_are_taken() -> None:
    section = MaskingSection(mask_probability=0.9)
    assert section.mask_probability + section.random_probability == pytest.approx(1)
    assert MaskingSection(mask_probability=1.0, random_probability=0.0).random_probability == 0


@pytest.mark.parametrize(
    ("setting", "least"),
    [("character_coverage", 0.98), ("max_words", 1000), ("sample_characters", 10_000)],
)
def test_the_least_that_works_is_taken_and_less_is_refused(setting: str, least: float) -> None:
    assert getattr(VocabularySection(**{setting: least}), setting) == least
    below = {setting: 0.9799 if setting == "character_coverage" else int(least) - 1}
    with pytest.raises(ConfigError, match=rf"{setting} = .* greater than or equal to {least:g}"):
        validate(VocabularySection, below, "here")


def test_threads_that_the_trainer_does_not_take_are_refused() -> None:
    assert VocabularySection(num_threads=1024).num_threads == 1024
    with pytest.raises(ConfigError, match="num_threads = 1025: .*less than or equal to 1024"):
        validate(VocabularySection, {"num_threads": 1025}, "here")


def test_byte_fallback_needs_room_for_the_bytes() -> None:
    names = {*"".join(SPECIAL_TOKENS), *MASK_TOKEN}
    assert 256 + 3 + 1 + len(names) == LEAST_BYTE_FALLBACK_SIZE
    VocabularySection(byte_fallback=True, size=271)
    VocabularySection(size=270)
    with pytest.raises(ConfigError, match=r"size = 270: byte_fallback alone takes 271 pieces"):
        validate(VocabularySection, {"byte_fallback": True, "size": 270}, "here")


def test_wordpiece_is_trained_on_words_alone() -> None:
    with pytest.raises(ConfigError, match="train_on = 'lines' is for kind = unigram"):
        validate(VocabularySection, {"kind": "wordpiece", "train_on": "lines"}, "here")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"add_pieces": 5}, r"add_pieces = 5 adds to the vocabulary of start_from: set that"),
        (
            {"add_pieces": 5, "start_from": "old", "kind": "wordpiece"},
            r"add_pieces is for kind = unigram",
        ),
        ({"add_pieces": 0, "start_from": "old"}, r"add_pieces = 0: .* greater than or equal to 1"),
    ],
)
def test_pieces_are_added_to_a_unigram_vocabulary_that_there_is(
    given: dict[str, Any], message: str
) -> None:
    VocabularySection(start_from="old", add_pieces=5)
    with pytest.raises(ConfigError, match=message):
        validate(VocabularySection, given, "here")
