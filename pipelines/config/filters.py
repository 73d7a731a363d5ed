"""Sections of the filters that measure a document ([[filters]]), and the union of all.

Sources of the default values: Gopher is Rae et al. 2021 (arXiv 2112.11446), tables A1 and A2; C4 is
Raffel et al. 2020 (JMLR 21/140), section 2.2; FineWeb is Penedo et al. 2024 (arXiv 2406.17557);
FineWeb-2 is Penedo et al. 2025 (arXiv 2506.20920). A share that equals its threshold passes.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, model_validator

from pipelines.config.base import PositiveInt, Share
from pipelines.config.filter_base import FilterBase
from pipelines.config.page_filters import (
    LinesFilter,
    PersonalDataFilter,
    RobotsFilter,
    UrlBlocklistFilter,
)


class LengthFilter(FilterBase):
    """Drops short and very long documents."""

    reasons: ClassVar = frozenset({"too_short", "too_long"})
    kind: Literal["length"]
    min_characters: PositiveInt = 100
    """Characters a document needs."""
    max_characters: PositiveInt | None = None
    """Most characters of a document; no limit when left out."""
    min_words: NonNegativeInt = 0
    """Words a document needs. Gopher: 50. In scripts without blanks words are estimated from
    characters (pipelines/filters/README.md)."""
    max_words: PositiveInt = 100_000
    """Most words of a document. Gopher: 100,000."""


class WordLengthFilter(FilterBase):
    """Drops documents whose words are on average very short or very long."""

    reasons: ClassVar = frozenset({"short_words", "long_words"})
    kind: Literal["word_length"]
    min_mean: NonNegativeFloat | None = None
    """Least mean characters of a word. Left out: 1 in Hangul (FineWeb-2's value for Korean), else
    3 (Gopher). Scripts without blanks have no words to measure: they pass and are counted."""
    max_mean: NonNegativeFloat | None = None
    """Most mean characters of a word. Left out: 6 in Hangul, else 13 (both FineWeb-2; Gopher has
    10 for English alone)."""


class SymbolsFilter(FilterBase):
    """Drops documents full of number signs and ellipses."""

    reasons: ClassVar = frozenset({"number_signs", "ellipses"})
    kind: Literal["symbols"]
    max_number_signs_per_word: NonNegativeFloat = 0.1
    """Most `#` to a word. Gopher: 0.1."""
    max_ellipses_per_word: NonNegativeFloat = 0.1
    """Most `...` or U+2026 to a word. Gopher: 0.1."""


class BulletsFilter(FilterBase):
    """Drops lists and tables of cut-off teasers."""

    reasons: ClassVar = frozenset({"bullet_lines", "ellipsis_lines"})
    kind: Literal["bullets"]
    max_share_of_bullet_lines: Share = 0.9
    """Most lines that begin with a bullet. Gopher: 0.9."""
    max_share_of_ellipsis_lines: Share = 0.3
    """Most lines that end in an ellipsis. Gopher: 0.3."""


class LettersFilter(FilterBase):
    """Drops documents whose words mostly hold no letter (numbers, markup, tables)."""

    reasons: ClassVar = frozenset({"few_letters", "no_words"})
    kind: Literal["letters"]
    min_share_of_words: Share = 0.7
    """Least share of words that contain at least one letter. Gopher: 0.8. In scripts without
    blanks: of the characters that are letters, marks, numbers or symbols, those that are letters
    or marks."""


class RepetitionFilter(FilterBase):
    """Drops documents that repeat themselves (Gopher, table A1)."""

    reasons: ClassVar = frozenset(
        {
            "duplicate_lines",
            "duplicate_line_characters",
            "duplicate_paragraphs",
            "duplicate_paragraph_characters",
            "top_ngram",
            "duplicate_ngrams",
            "no_words",
        }
    )
    kind: Literal["repetition"]
    max_duplicate_lines: Share = 0.3
    """Most lines that stood in the document before. Gopher: 0.30."""
    max_duplicate_line_characters: Share = 0.2
    """Most characters in such lines. Gopher: 0.20."""
    max_duplicate_paragraphs: Share = 0.3
    """Most paragraphs that stood in the document before. Gopher: 0.30."""
    max_duplicate_paragraph_characters: Share = 0.2
    """Most characters in such paragraphs. Gopher: 0.20."""
    max_top_ngram: Annotated[list[Share], Field(min_length=3, max_length=3)] = [0.2, 0.18, 0.16]
    """Most characters inside the most frequent n-gram of 2, 3, 4 words. Gopher: these."""
    max_duplicate_ngrams: Annotated[list[Share], Field(min_length=6, max_length=6)] = [
        0.15,
        0.14,
        0.13,
        0.12,
        0.11,
        0.1,
    ]
    """Most characters inside n-grams of 5, 6, 7, 8, 9, 10 words that stood in the document before.
    Gopher: these."""


class StopWordsFilter(FilterBase):
    """Drops documents without the small words that running text has."""

    reasons: ClassVar = frozenset({"few_stop_words"})
    kind: Literal["stop_words"]
    min_distinct: PositiveInt = 2
    """So many different words of the list must occur. Gopher and FineWeb-2: 2."""
    words: list[str] = []
    """The list; best given by language. Left empty: Gopher's eight words for English, the list of
    the package stopwordsiso for 57 other languages. A language without a list passes, counted."""


class ScriptFilter(FilterBase):
    """Drops documents that are not written in their language's script."""

    reasons: ClassVar = frozenset({"wrong_script", "no_letters"})
    kind: Literal["script"]
    min_share_of_letters: Share = 0.5
    """Least share of letters in the language's own script."""


class LineQualityFilter(FilterBase):
    """Drops documents whose lines are no sentences (FineWeb's own filters)."""

    reasons: ClassVar = frozenset({"few_sentence_ends", "short_lines", "line_breaks"})
    kind: Literal["line_quality"]
    min_share_with_end_punctuation: Share = 0.12
    """Least share of lines that end a sentence. FineWeb: 0.12. Thai, Lao, Khmer, Burmese and
    Tibetan need none (FineWeb-2: 0 for th, km, lo, my)."""
    max_share_of_short_lines: Share = 1.0
    """Most lines of at most `short_line_characters`. FineWeb: 0.67; off as in FineWeb-2."""
    short_line_characters: PositiveInt = 30
    """What a short line is. FineWeb: 30."""
    max_line_breaks_per_word: NonNegativeFloat = 0.3
    """Most line breaks to a word. FineWeb: 0.3."""


class ReplacementCharactersFilter(FilterBase):
    """Drops documents that were decoded wrongly: U+FFFD stands where a character was lost."""

    reasons: ClassVar = frozenset({"replacement_characters"})
    kind: Literal["replacement_characters"]
    max_share: Share = 0.001
    """Most characters that may be U+FFFD. Our own choice: one in a thousand is a page of a wrong
    charset in a script with few other letters; a single lost quotation mark passes."""


class LanguageScoreFilter(FilterBase):
    """Drops documents whose language is not sure enough."""

    reasons: ClassVar = frozenset({"low_language_score"})
    kind: Literal["language_score"]
    min_score: Share = 0.5
    """Least score of the document's language. CCNet: 0.5."""
    derived: bool = False
    """Take each language's threshold from its own scores instead: max(floor, min(cap, median -
    standard deviation)), the rule of FineWeb-2. A language with a `min_score` of its own in
    by_language keeps that."""
    floor: Share = 0.3
    """derived: no threshold is lower. FineWeb-2: 0.3."""
    cap: Share = 0.9
    """derived: no threshold is higher. FineWeb-2: 0.9."""
    min_documents: PositiveInt = 100
    """derived: a language with fewer documents gets min_score, with a note. Our own choice: the
    median's standard error is then an eighth of the standard deviation."""
    max_dropped_share: Share = 0.5
    """derived: a threshold that drops more of a language is noted. Our own choice: the rule drops
    a sixth of a normal distribution."""

    @model_validator(mode="after")
    def _floor_is_below_cap(self) -> LanguageScoreFilter:
        if self.floor > self.cap:
            raise ValueError(f"floor = {self.floor} is over cap = {self.cap}")
        return self


FilterConfig = Annotated[
    LengthFilter
    | WordLengthFilter
    | SymbolsFilter
    | BulletsFilter
    | LettersFilter
    | RepetitionFilter
    | StopWordsFilter
    | ScriptFilter
    | LanguageScoreFilter
    | LineQualityFilter
    | ReplacementCharactersFilter
    | LinesFilter
    | UrlBlocklistFilter
    | PersonalDataFilter
    | RobotsFilter,
    Field(discriminator="kind"),
]
