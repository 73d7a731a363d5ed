"""Documents in several languages: paragraphs are labelled one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.config import LanguageIdentificationSection
from pipelines.core.manifest import Counters
from pipelines.core.records import PARAGRAPH_BREAK, UNKNOWN_LANGUAGE
from pipelines.identify_language.identify import (
    Identified,
    best_guesses,
    identify,
    judged,
)


@dataclass(frozen=True)
class _Paragraph:
    text: str
    guess: Identified | None
    """None when it is too short to judge, or has no words."""


def identify_document(
    text: str, config: LanguageIdentificationSection, counters: Counters
) -> tuple[Identified, str]:
    """The language of a document, and the text to keep of it, as `config.unit` says.

    Counts `dropped_paragraphs.language`, the same with `/TAG` for each language, and
    `dropped_characters.language`.
    """
    if config.unit == "document":
        return identify(text, config), text
    found, kept, dropped = _split(text, config)
    for tag, paragraph in dropped:
        counters["dropped_paragraphs.language"] += 1
        counters[f"dropped_paragraphs.language/{tag}"] += 1
        counters["dropped_characters.language"] += len(paragraph)
    return found, kept


def identify_paragraphs(
    text: str, config: LanguageIdentificationSection
) -> tuple[Identified, str, Counter[str]]:
    """The language most characters are in, the text without foreign paragraphs, and what went.

    A paragraph is foreign when it has `min_paragraph_characters` and its score in another language
    is at least `min_paragraph_score`. A shorter one shares the fate of the paragraphs around it if
    they agree, and stays otherwise. Where no paragraph can be judged, the text is judged as one.

    Returns:
        The language with, as scores, the mean probability over the characters that stay, of this
        language and of the runner-up; the kept paragraphs, each unchanged; the number of dropped
        paragraphs by language.
    """
    found, kept, dropped = _split(text, config)
    return found, kept, Counter(tag for tag, _ in dropped)


def _split(
    text: str, config: LanguageIdentificationSection
) -> tuple[Identified, str, list[tuple[str, str]]]:
    parts = text.split(PARAGRAPH_BREAK)
    paragraphs = _guessed(parts, config)
    language = _main_language(paragraphs, config)
    if language is None:
        return identify(text, config), text, []
    foreign = _foreign_languages(paragraphs, language, config)
    staying = [p for p, tag in zip(paragraphs, foreign, strict=True) if tag is None]
    found = judged(_mixture(staying, language), config)
    dropped = [(tag, p.text) for p, tag in zip(paragraphs, foreign, strict=True) if tag]
    kept = PARAGRAPH_BREAK.join(p.text for p in staying) if dropped else text
    return found, kept, dropped


def _guessed(parts: Sequence[str], config: LanguageIdentificationSection) -> list[_Paragraph]:
    long_enough = [part for part in parts if len(part) >= config.min_paragraph_characters]
    guesses = iter(best_guesses(long_enough, config))
    paragraphs = []
    for part in parts:
        guess = next(guesses) if len(part) >= config.min_paragraph_characters else None
        in_words = guess is not None and guess.language != UNKNOWN_LANGUAGE
        paragraphs.append(_Paragraph(part, guess if in_words else None))
    return paragraphs


def _main_language(
    paragraphs: Sequence[_Paragraph], config: LanguageIdentificationSection
) -> str | None:
    """The language that most characters are in; the one that comes first at a tie."""
    characters: Counter[str] = Counter()
    for paragraph in paragraphs:
        if paragraph.guess is not None:
            tag = judged(paragraph.guess, config).language
            characters[tag] += len(paragraph.text)
    del characters[UNKNOWN_LANGUAGE]
    return characters.most_common(1)[0][0] if characters else None


def _foreign_languages(
    paragraphs: Sequence[_Paragraph], language: str, config: LanguageIdentificationSection
) -> list[str | None]:
    """For each paragraph the foreign language it is dropped for, or None when it stays."""
    verdicts: list[str | None] = []
    for paragraph in paragraphs:
        guess = paragraph.guess
        foreign = (
            guess is not None
            and guess.score >= config.min_paragraph_score
            # A score says nothing of the script, so another script alone makes nobody foreign.
            and guess.language.partition("-")[0] != language.partition("-")[0]
        )
        verdicts.append(guess.language if guess and foreign else None)
    judged_at = [i for i, paragraph in enumerate(paragraphs) if paragraph.guess is not None]
    before, following = None, 0
    for i, paragraph in enumerate(paragraphs):
        if paragraph.guess is not None:
            before, following = i, following + 1
            continue
        after = judged_at[following] if following < len(judged_at) else None
        around = {verdicts[j] for j in (before, after) if j is not None}
        if len(around) == 1:
            verdicts[i] = around.pop()
    return verdicts


def _mixture(paragraphs: Sequence[_Paragraph], language: str) -> Identified:
    """Mean probabilities of languages, weighted by characters."""
    mass = {language: 0.0}
    total = 0
    for paragraph in paragraphs:
        if (guess := paragraph.guess) is None:
            continue
        total += len(paragraph.text)
        for tag, score in ((guess.language, guess.score), (guess.second, guess.second_score)):
            mass[tag] = mass.get(tag, 0.0) + score * len(paragraph.text)
    own = min(mass.pop(language) / total, 1.0)
    mass.pop(UNKNOWN_LANGUAGE, None)
    second = max(mass, key=lambda tag: mass[tag], default=UNKNOWN_LANGUAGE)  # the first at a tie
    return Identified(language, own, second, min(mass.get(second, 0.0) / total, 1.0))
