"""Sections of the steps from balanced documents to packed, masked sequences."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipelines.config.base import PositiveInt, Share, check_phases_reach_the_end
from pipelines.core.config import Config

Normalization = Literal["nmt_nfkc", "nmt_nfkc_joiners", "nfkc", "identity"]

LEAST_BYTE_FALLBACK_SIZE = 271
"""256 pieces of bytes, 3 control pieces, the mark of a blank, and the 11 characters in the names of
the special tokens, which byte fallback requires (train_vocabulary/unigram_trainer.py)."""


class VocabularySection(Config):
    """The vocabulary ([vocabulary])."""

    kind: Literal["unigram", "wordpiece"] = "unigram"
    """unigram is XLM-R's, by SentencePiece; wordpiece is BERT's."""
    size: Annotated[int, Field(ge=100, le=4_000_000)] = 250_000
    """Pieces; of a Unigram vocabulary three are control pieces. XLM-R: 250,000; BERT: 30,000."""
    train_on: Literal["words", "lines"] = "words"
    """words: counts of words over the whole corpus, weighted by q_i. lines: a sample of lines, as
    plain SentencePiece does; slower, and memory grows with the sample."""
    sample_characters: Annotated[int, Field(ge=10_000, le=2**53)] = 600_000_000
    """Characters drawn by q_i where lines are trained on; about 20 bytes of memory a character."""
    max_words: Annotated[int, Field(ge=1000, le=2**53)] = 20_000_000
    """Most distinct words that are trained on, the most frequent ones; the rest is reported."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 0.9995
    """Share of the characters that get a piece of their own: of the whole, and of each language
    and script, so that a small one does not lose its letters. SentencePiece takes 0.98 to 1."""
    normalization: Normalization = "nmt_nfkc"
    """nmt_nfkc is XLM-R's; it turns U+200C into a space. nmt_nfkc_joiners is the same without
    that: take it for Persian, Urdu and the scripts of India. nfkc and identity keep joiners too.
    It has no effect on wordpiece, which cleans text as BERT does."""
    byte_fallback: bool = False
    """Write characters without a piece as pieces of bytes, and so never as <unk>."""
    lowercase: bool = False
    """Only wordpiece: lower-case the text and strip accents, as BERT's uncased models do."""
    num_threads: Annotated[int, Field(ge=1, le=1024)] = 2
    """Threads of the trainer, which takes 1 to 1024; the result depends on it."""
    max_memory_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory that training may need, in 10^9 bytes; not given: what the machine has."""
    start_from: str | None = None
    """Take a vocabulary that there is and train none: a Hugging Face folder (a path with a slash in
    it, or a URL), or a run of this store (NAME). Its pieces, ids and rules for text stay as they
    are; `size`, `normalization`, `lowercase`, `byte_fallback` and `train_on` then have no effect,
    and `kind` must be what it is."""
    add_pieces: Annotated[int, Field(ge=1, le=4_000_000)] | None = None
    """Only with start_from, kind = unigram: so many pieces more, learnt from this run's text. Old
    pieces keep their ids and scores; only that of <mask> changes."""
    compare_with: str | None = None
    """A SentencePiece model whose fertility the report shows beside this one's: a path on the
    machine that checks the run and on those that train."""

    @model_validator(mode="after")
    def _kind_fits(self) -> VocabularySection:
        if self.kind == "wordpiece" and self.byte_fallback:
            raise ValueError("byte_fallback is for kind = unigram")
        if self.kind == "wordpiece" and self.train_on == "lines":
            raise ValueError("train_on = 'lines' is for kind = unigram; wordpiece counts words")
        if self.byte_fallback and self.size < LEAST_BYTE_FALLBACK_SIZE:
            raise ValueError(
                f"size = {self.size}: byte_fallback alone takes {LEAST_BYTE_FALLBACK_SIZE} pieces "
                "(256 bytes, 3 control pieces, the blank, and the characters of the special "
                "tokens' names); set size well above that"
            )
        if self.add_pieces is not None and self.start_from is None:
            raise ValueError(
                f"add_pieces = {self.add_pieces} adds to the vocabulary of start_from: set that, "
                "or set size"
            )
        if self.add_pieces is not None and self.kind == "wordpiece":
            raise ValueError("add_pieces is for kind = unigram")
        if self.kind == "unigram" and self.lowercase:
            raise ValueError("lowercase is for kind = wordpiece")
        return self


class PackingSection(Config):
    """Documents to sequences ([packing])."""

    mode: Literal["stream", "document", "pairs"] = "stream"
    """stream: contiguous text, </s> between documents (RoBERTa's FULL-SENTENCES). document: whole
    documents side by side, none sees another. pairs: two segments each, for BERT's next sentence
    prediction."""
    length: Annotated[int, Field(ge=8, le=65_535)] = 512
    """Tokens per sequence, <s> and </s> included. XLM-R: 512."""
    mix_languages: bool = False
    """Whether one sequence may hold documents of several languages. Such rows are trained on in the
    text's own shares: q_i acts on the vocabulary alone."""
    true_next_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Only pairs: share whose second segment follows the first. BERT: 0.5."""
    short_pair_share: Share = 0.1
    """Only pairs: share that is cut to a random shorter length. BERT: 0.1."""
    held_out_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.01
    """Share of documents kept for evaluation, never trained on."""
    max_held_out_documents: PositiveInt = 1000
    """Most documents kept for evaluation in one language."""


class RatePhase(Config):
    """A part of training with a masking rate of its own ([[masking.phases]])."""

    until: Annotated[float, Field(gt=0, le=1)]
    """Share of the training steps at which the phase ends; the last one ends at 1."""
    rate: Annotated[float, Field(gt=0, lt=1)]
    """Share of ordinary tokens chosen in this part."""


class MaskingSection(Config):
    """Which tokens are predicted ([masking])."""

    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of ordinary tokens chosen. BERT and XLM-R: 0.15; ModernBERT: 0.3."""
    phases: list[RatePhase] = []
    """Rates that change with time, such as 0.3, 0.15, 0.05 (mmBERT); empty: `rate` throughout."""
    unit: Literal["token", "word", "span"] = "token"
    """What is chosen: single tokens, whole words, or spans of words."""
    mean_span_words: Annotated[float, Field(ge=1, le=5.5)] = 3.8
    """Only span: mean length of a span in words, geometric and cut off at 10 words, where 5.5 is
    the longest mean there is. SpanBERT: 3.8."""
    mask_probability: Share = 0.8
    """Of the chosen: replaced by <mask>."""
    random_probability: Share = 0.1
    """Of the chosen: replaced by a random token."""
    random_from: Literal["unigram", "uniform"] = "unigram"
    """Random tokens are drawn by their frequency in the training text, or all alike (BERT)."""
    views: Annotated[int, Field(ge=0, le=64)] = 1
    """Masks stored per sequence; later passes compute theirs by the same function."""

    @model_validator(mode="after")
    def _probabilities_fit(self) -> MaskingSection:
        whole = self.mask_probability + self.random_probability
        if whole > 1 + 1e-9:
            raise ValueError(
                f"mask_probability + random_probability = {self.mask_probability:g} + "
                f"{self.random_probability:g} = {whole:g}, above 1; lower one of them"
            )
        return self

    @model_validator(mode="after")
    def _phases_reach_the_end(self) -> MaskingSection:
        check_phases_reach_the_end([phase.until for phase in self.phases])
        return self
