"""Filters that count: length, words, symbols, bullets, letters, script, lines, lost characters."""

from __future__ import annotations

from functools import cache

import numpy as np
import regex

from pipelines.config import (
    BulletsFilter,
    LengthFilter,
    LettersFilter,
    LineQualityFilter,
    ReplacementCharactersFilter,
    ScriptFilter,
    SymbolsFilter,
    WordLengthFilter,
)
from pipelines.core.languages import unicode_scripts_of
from pipelines.core.manifest import Counters
from pipelines.core.records import Document
from pipelines.filters.base import Reason, above, below
from pipelines.filters.characters import LETTER, MARK, NUMBER, SYMBOL, every_code_point, letters_of
from pipelines.filters.units import Units, units_of

REPLACEMENT = "\ufffd"
ELLIPSES = ("...", "…")
BULLETS = frozenset("•‣▪●◦■□○∙·・*-–—")

MORE_ENDS = "…\u037e\u1361\u0f0d\u0f0e"
"""Ends of sentences that Unicode does not list as such: the ellipsis, the Greek question mark, the
Ethiopic wordspace that is doubled for a full stop, the Tibetan shad."""
CLOSERS = "\"'”’»›)]}」』）】〉》 "
"""What may stand after the end of a sentence."""
NO_END_PUNCTUATION = frozenset({"Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Tavt", "Lana"})
"""Scripts whose lines often end in no mark. FineWeb-2 has a threshold of 0 for th, km, lo, my."""

MEAN_WORD_LENGTHS = {"Kore": (1.0, 6.0), "Vaii": (1.0, 6.0)}
"""Hangul: FineWeb-2's values for Korean. Vai is a syllabary too."""
MEAN_WORD_LENGTH_EN = (3.0, 10.0)
"""Gopher's values; it is English alone."""
MEAN_WORD_LENGTH = (2.5, 16.0)
"""All other scripts with blanks: what the 530 translations of the Universal Declaration of Human
Rights span (Dangme 2.7, Kalaallisut 14.6), rounded outwards."""


def bad_length(document: Document, config: LengthFilter, count: Counters) -> Reason | None:
    """Drop a document with too few or too many characters or words. Source: Gopher, A1."""
    characters = len(document.text)
    reason = below("too_short", "characters", characters, config.min_characters)
    if reason is None and config.max_characters is not None:
        reason = above("too_long", "characters", characters, config.max_characters)
    if reason is not None or (not config.min_words and characters <= config.max_words):
        return reason
    words = units_of(document).number_of_words
    return below("too_short", "words", words, config.min_words) or above(
        "too_long", "words", words, config.max_words
    )


def word_length_bounds(language: str, script: str) -> tuple[float, float]:
    """The least and most mean word length where a person set none."""
    if language.split("-")[0] == "en":
        return MEAN_WORD_LENGTH_EN
    return MEAN_WORD_LENGTHS.get(script, MEAN_WORD_LENGTH)


def bad_word_length(document: Document, config: WordLengthFilter, count: Counters) -> Reason | None:
    """Drop a document by its mean word length. Source: Gopher, A1; FineWeb-2.

    Text without a word, or in a script without blanks, passes and is counted.
    """
    units = units_of(document)
    if not units.spaced or not len(units.word_lengths):
        count[f"passed.no_word_lengths/{document.language}"] += 1
        return None
    least, most = word_length_bounds(document.language, units.script)
    least = least if config.min_mean is None else config.min_mean
    most = most if config.max_mean is None else config.max_mean
    mean = float(units.word_lengths.mean())
    what = "mean characters of a word"
    return below("short_words", what, mean, least) or above("long_words", what, mean, most)


def _per_word(number: int, units: Units) -> float:
    """Occurrences to a word; text without words counts as one word."""
    return number / max(units.number_of_words, 1)


def too_many_symbols(document: Document, config: SymbolsFilter, count: Counters) -> Reason | None:
    """Drop a document with too many number signs or ellipses to its words. Source: Gopher, A1."""
    text, units = document.text, units_of(document)
    signs = _per_word(text.count("#"), units)
    ellipses = _per_word(sum(map(text.count, ELLIPSES)), units)
    return above(
        "number_signs", "number signs to a word", signs, config.max_number_signs_per_word
    ) or above("ellipses", "ellipses to a word", ellipses, config.max_ellipses_per_word)


def mostly_bullets(document: Document, config: BulletsFilter, count: Counters) -> Reason | None:
    """Drop a document whose lines are bullets or break off in ellipses. Source: Gopher, A1."""
    lines = units_of(document).lines
    if not lines:
        return None
    bullets = sum(line[0] in BULLETS for line in lines) / len(lines)
    ellipses = sum(line.endswith(ELLIPSES) for line in lines) / len(lines)
    return above(
        "bullet_lines", "share of bullet lines", bullets, config.max_share_of_bullet_lines
    ) or above(
        "ellipsis_lines", "share of ellipsis lines", ellipses, config.max_share_of_ellipsis_lines
    )


def too_few_letters(document: Document, config: LettersFilter, count: Counters) -> Reason | None:
    """Drop a document when the share of words with at least one letter is below the threshold.

    Words stand between blanks, so `--` and `42` are words. A word needs one letter, not only
    letters: in Thai or Hindi words marks stand between them. Source: Gopher, A1. In scripts
    without blanks it is the share of letters and marks among letters, marks, numbers, symbols.
    """
    units = units_of(document)
    if units.spaced:
        what, whole = "share of words with a letter", len(units.token_starts)
        letters = units.classes & LETTER != 0
        own = np.count_nonzero(np.logical_or.reduceat(letters, units.token_starts)) if whole else 0
    else:
        what, own = "share of letters", units.count(LETTER | MARK)
        whole = own + units.count(NUMBER | SYMBOL)
    if not whole:
        return Reason("no_words", "the text has no words")
    return below("few_letters", what, float(own / whole), config.min_share_of_words)


def wrong_script(document: Document, config: ScriptFilter, count: Counters) -> Reason | None:
    """Drop a document when too few of its letters are in its language's script.

    A language whose script is not known passes and is counted.
    """
    scripts = unicode_scripts_of(document.language)
    if not scripts:
        count[f"passed.no_script/{document.language}"] += 1
        return None
    units = units_of(document)
    letters = units.count(LETTER)
    if not letters:
        return Reason("no_letters", "the text has no letters")
    own = int(np.count_nonzero(letters_of(scripts)[units.codes])) / letters
    what = f"share of letters in {'/'.join(scripts)}"
    return below("wrong_script", what, own, config.min_share_of_letters)


@cache
def end_punctuation() -> frozenset[str]:
    """What ends a sentence in the scripts that mark it (Unicode property Sentence_Terminal)."""
    return frozenset(regex.findall(r"\p{STerm}", every_code_point())) | set(MORE_ENDS)


def ends_sentence(line: str) -> bool:
    """Whether a line ends in a mark that ends sentences; closing quotes and brackets may follow."""
    return line.rstrip(CLOSERS)[-1:] in end_punctuation()


def poor_lines(document: Document, config: LineQualityFilter, count: Counters) -> Reason | None:
    """Drop a document whose lines are no sentences. Source: FineWeb, section 3.4."""
    units = units_of(document)
    lines = units.lines
    if not lines:
        return None
    if units.script not in NO_END_PUNCTUATION:
        share = sum(map(ends_sentence, lines)) / len(lines)
        reason = below(
            "few_sentence_ends",
            "share of lines that end a sentence",
            share,
            config.min_share_with_end_punctuation,
        )
        if reason is not None:
            return reason
    short = sum(len(line) <= config.short_line_characters for line in lines) / len(lines)
    return above(
        "short_lines", "share of short lines", short, config.max_share_of_short_lines
    ) or above(
        "line_breaks",
        "line breaks to a word",
        _per_word(len(lines) - 1, units),
        config.max_line_breaks_per_word,
    )


def lost_characters(
    document: Document, config: ReplacementCharactersFilter, count: Counters
) -> Reason | None:
    """Drop a document with too many U+FFFD, the sign of a wrong charset."""
    share = document.text.count(REPLACEMENT) / max(len(document.text), 1)
    return above("replacement_characters", "share of U+FFFD", share, config.max_share)
