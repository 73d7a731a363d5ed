"""The JSON tables that stages write, as the report reads them."""

from __future__ import annotations

from functools import cached_property

from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """Base of the tables that stages write; keys that the report does not show are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class BalanceRow(Row):
    """One language of the mix; sizes are those of the deduplicated corpus."""

    language: str
    documents: int
    sentences: int
    characters: int
    bytes: int
    p: float
    """Natural share, in the table's unit."""
    q: float
    """Share in the mix, over the whole of training."""
    repeats: float
    """Times each text is seen in one pass."""
    capped: bool
    """Whether the cap on repeats held it, in some phase."""
    weighted: bool = False
    """Whether q was set by hand."""


class ShareRow(Row):
    """One language's share in a phase of training or in the vocabulary's sample."""

    language: str
    q: float
    repeats: float
    capped: bool


class Shares(Row):
    """The languages' shares for one use."""

    alpha: float
    rows: tuple[ShareRow, ...]

    @cached_property
    def _q(self) -> dict[str, float]:
        return {row.language: row.q for row in self.rows}

    def of(self, language: str) -> float | None:
        """q of a language; None where it has none."""
        return self._q.get(language)


class SharesOfPhase(Shares):
    """The languages' shares in a part of training."""

    until: float
    """Share of the steps at which it ends."""


class ExcludedLanguage(Row):
    """A language left out of the mix, and why."""

    language: str
    sentences: int
    reason: str


class Balance(Row):
    """The table of the balance stage, the largest language first."""

    alpha: float
    max_repeats: float
    unit: str
    rows: tuple[BalanceRow, ...]
    excluded: tuple[ExcludedLanguage, ...] = ()
    phases: tuple[SharesOfPhase, ...] = ()
    vocabulary: Shares | None = None

    @property
    def alphas(self) -> str:
        """The exponents of training in the order of its phases, in words."""
        return ", then ".join(f"{a:g}" for a in [p.alpha for p in self.phases] or [self.alpha])

    @property
    def held(self) -> str:
        """When the cap holds a language that is `capped`: words to put behind, or none."""
        return " in at least one phase" if len(self.phases) > 1 else ""


class Encoded(Row):
    """What a vocabulary makes of some text."""

    tokens: int
    unknown: int
    """Tokens that are <unk>."""
    unknown_characters: int = 0
    """Characters that are lost in them."""


class LanguageTokens(Encoded):
    """Held-out text of one language, and what the vocabulary makes of it."""

    lines: int = 0
    characters: int
    words: int
    """What stands between blanks."""
    written_with_blanks: bool = True
    """False where the script separates no words, so that `words` says nothing."""
    compared: Encoded | None = None
    """What the vocabulary that is compared with makes of the same text."""
    ratio: float | None = None
    """Tokens, over those of the compared vocabulary."""


class VocabularyTotals(Encoded):
    """All held-out text together."""

    languages: int
    lines: int
    characters: int
    words: int
    tokens_per_word: float | None
    """Of the languages that are written with blanks."""
    tokens_per_character: float | None
    compared: Encoded | None = None
    ratio: float | None = None
    mean_ratio: float | None = None
    """Geometric mean of the languages' ratios."""
    languages_with_fewer_tokens: int = 0


class ScriptPieces(Row):
    """Pieces of one script, or of one kind that has none."""

    script: str
    """ISO 15924 code."""
    name: str
    pieces: int
    share: float
    used: int
    """Of them, those that occur in the held-out text."""


class PiecesBy(Row):
    """The pieces, counted in three ways."""

    script: tuple[ScriptPieces, ...]
    length: dict[int, int]
    """By characters, without the mark of a word's beginning."""
    kind: dict[str, float | None]


class Covered(Row):
    """How much of a text's characters the vocabulary can write."""

    characters: int
    distinct: int
    covered_share: float | None
    """Of `characters`."""
    covered_distinct: int
    """Of `distinct`."""


class MissingCharacter(Row):
    """A character that becomes <unk>."""

    character: str
    shown: str
    count: int


class Coverage(Covered):
    """Characters of the training text."""

    missing: tuple[MissingCharacter, ...] = ()
    """The most frequent ones."""
    languages: dict[str, Covered] = {}


class VocabularyTraining(Row):
    """How the vocabulary was trained."""

    kind: str
    train_on: str
    normalization: str
    character_coverage: float
    sample_characters: int | None = None
    """Characters of the lines that were drawn, where lines are trained on."""
    words: int | None = None
    """Distinct words trained on, where words are."""
    distinct_words: int | None = None
    """Distinct words of the corpus."""


class VocabularyReport(Row):
    """The report of the vocabulary stage."""

    pieces: int
    rows: int
    """Rows of the embedding: pieces and special tokens."""
    languages: dict[str, LanguageTokens]
    totals: VocabularyTotals | None = None
    pieces_by: PiecesBy | None = None
    examples: dict[str, tuple[str, ...]] = {}
    coverage: Coverage | None = None
    training: VocabularyTraining | None = None


class LabelScore(Row):
    """One label of a classification test set."""

    precision: float
    recall: float
    f1: float
    count: int


class LanguageScore(Row):
    """One language of a test set."""

    accuracy: float
    count: int


class DevelopmentScore(Row):
    """Scores on the development set after one epoch."""

    epoch: int
    accuracy: float
    macro_f1: float


class TestScores(Row):
    """Scores on the test set; shares from 0 to 1."""

    accuracy: float
    macro_f1: float
    majority_accuracy: float
    """What always answering the most frequent label would score."""
    per_label: dict[str, LabelScore]
    per_language: dict[str, LanguageScore]


class Scores(Row):
    """One fine-tuned task."""

    task: str
    labels: tuple[str, ...]
    counts: dict[str, int]
    dropped: dict[str, int] = {}
    dev: tuple[DevelopmentScore, ...] = ()
    test: TestScores
