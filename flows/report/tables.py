"""The JSON tables that stages write, as the report reads them."""

from __future__ import annotations

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
    """Natural share of the sentences."""
    q: float
    """Share in the mix."""
    repeats: float
    """Times each text is seen in one pass."""
    capped: bool


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


class LanguageTokens(Row):
    """What the vocabulary makes of one language's text."""

    tokens: int
    characters: int
    words: int
    unknown: int
    """Tokens that are <unk>."""


class VocabularyReport(Row):
    """The report of the vocabulary stage."""

    pieces: int
    rows: int
    """Rows of the embedding: pieces and special tokens."""
    sample_characters: int
    languages: dict[str, LanguageTokens]


class LossSum(Row):
    """A sum of cross-entropies, in nats, over so many masked tokens."""

    loss_sum: float
    tokens: int


class LogEntry(Row):
    """One line of the training log."""

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float


class Evaluation(Row):
    """Held-out losses after so many steps."""

    step: int
    languages: dict[str, LossSum]


class Metrics(Row):
    """What pretraining measured."""

    rows: int
    steps: int
    tokens_seen: int
    final_loss: float
    log: tuple[LogEntry, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    unigram: dict[str, LossSum] = {}


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
