"""The language of one text or of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.config import LanguageIdentificationSection
from pipelines.core.records import UNKNOWN_LANGUAGE
from pipelines.identify_language.clean import has_words, shown_text
from pipelines.identify_language.labels import tag_of, tags_of
from pipelines.identify_language.models import load_model
from pipelines.identify_language.models.base import LoadedModel

CANDIDATES = 3
"""Labels asked of the model: two may have the same tag, and two tags are to be left."""


@dataclass(frozen=True)
class Identified:
    """The likeliest language and the runner-up, with scores in [0, 1]."""

    language: str
    score: float
    second: str
    second_score: float


UNIDENTIFIED = Identified(UNKNOWN_LANGUAGE, 0.0, UNKNOWN_LANGUAGE, 0.0)


def identify(text: str, config: LanguageIdentificationSection) -> Identified:
    """Name the language of a text.

    Returns:
        `und` as the language when nothing in the text is in words, or when the best score is
        below the threshold of `config` for that language (the score is kept, and the best guess
        becomes the runner-up).

    Raises:
        ConfigError: the model cannot be loaded.
    """
    return identify_many([text], config)[0]


def identify_many(texts: Sequence[str], config: LanguageIdentificationSection) -> list[Identified]:
    """`identify` for each text; a text's result does not depend on the others."""
    return [judged(guess, config) for guess in best_guesses(texts, config)]


def best_guesses(texts: Sequence[str], config: LanguageIdentificationSection) -> list[Identified]:
    """The likeliest tag of each text and the runner-up, whatever their scores."""
    loaded = load_model(config)
    lines = [shown_text(text, config.max_characters) for text in texts]
    with_words = [line for line in lines if has_words(line)]
    predicted = iter(loaded.model.predict(with_words, CANDIDATES))
    return [
        _guess(loaded, line, next(predicted)) if has_words(line) else UNIDENTIFIED for line in lines
    ]


def judged(guess: Identified, config: LanguageIdentificationSection) -> Identified:
    """`und` in place of a guess below its threshold."""
    threshold = config.min_score_by_language.get(guess.language, config.min_score)
    if guess.language == UNKNOWN_LANGUAGE or guess.score >= threshold:
        return guess
    return Identified(UNKNOWN_LANGUAGE, guess.score, guess.language, guess.score)


def known_languages(
    config: LanguageIdentificationSection = LanguageIdentificationSection(),  # noqa: B008 - frozen
) -> frozenset[str]:
    """Every tag that `identify` can give with this model, `und` left out."""
    loaded = load_model(config)
    tags = {tag for label in loaded.meaning.values() for tag in tags_of(label)}
    return frozenset(tags - {UNKNOWN_LANGUAGE})


def _guess(loaded: LoadedModel, line: str, predicted: Sequence[tuple[str, float]]) -> Identified:
    scores: dict[str, float] = {}
    for label, score in predicted:
        tag = tag_of(loaded.meaning[label], line)
        scores[tag] = scores.get(tag, 0.0) + score
    ranked = sorted(scores.items(), key=lambda item: -item[1])  # stable: the model's order at ties
    nothing = (UNKNOWN_LANGUAGE, 0.0)
    (first, score), (second, second_score), *_ = [*ranked, nothing, nothing]
    return Identified(first, min(score, 1.0), second, min(second_score, 1.0))
