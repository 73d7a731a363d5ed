"""Sections of the steps that look at the whole corpus: duplicates and perplexity."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipelines.config.base import PositiveInt
from pipelines.core.config import Config


class NearSection(Config):
    """Near-duplicates by MinHash and locality-sensitive hashing ([deduplication.near])."""

    enabled: bool = True
    """Whether near-duplicate documents are dropped, beside exact ones."""
    jaccard_threshold: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Two documents that share this much of their shingles should be found. Where `bands` is not
    given, bands get as many rows as still find such a pair with a probability of 0.9 or more."""
    hashes: Annotated[int, Field(ge=1, le=1024)] = 112
    """MinHash values of a document. FineWeb: 112."""
    bands: PositiveInt | None = None
    """Groups of values; two documents meet when all values of one group are equal."""
    rows_per_band: PositiveInt | None = None
    """Values in a group; bands x rows_per_band must be `hashes`."""
    shingle_words: PositiveInt = 5
    """Words in a shingle; characters where words are not separated by blanks. A document with
    fewer is not compared, and counted; it can still be an exact duplicate. FineWeb: 5."""

    @model_validator(mode="after")
    def _bands_fit(self) -> NearSection:
        if (self.bands is None) != (self.rows_per_band is None):
            raise ValueError("give both bands and rows_per_band, or neither")
        if self.bands and self.rows_per_band and self.bands * self.rows_per_band != self.hashes:
            raise ValueError(
                f"bands x rows_per_band = {self.bands} x {self.rows_per_band} = "
                f"{self.bands * self.rows_per_band}, and hashes = {self.hashes}; they must be equal"
            )
        return self


class DeduplicationSection(Config):
    """Duplicates over the whole corpus ([deduplication])."""

    paragraphs: bool = True
    """Drop a paragraph that an earlier document already had."""
    ignore_digits: bool = False
    """Paragraphs, and shingles of near-duplicates, that differ only in the values of digits count
    as the same: good against dates and counters of web pages, bad for facts. CCNet: true."""
    keep: Literal["first", "longest", "highest_score"] = "first"
    """Which document of a cluster of near-duplicates survives: the first (older snapshots first,
    then by name and offset), the longest, or the one with the highest language score."""
    min_characters: PositiveInt = 20
    """A document that lost paragraphs and keeps less text than this is dropped. One that lost
    nothing stays, however short: how short a document may be is for the filters to say."""
    base_run: str | None = None
    """A finished run of this store: its unique documents stay as they are, and only what is new is
    compared, with itself and with them."""
    keys_per_partition: PositiveInt = 4_000_000
    """Hash keys that one worker holds at a time (about 150 bytes each). It changes no document."""
    near: NearSection = NearSection()


class PerplexitySection(Config):
    """Perplexity under an n-gram model of each language ([perplexity])."""

    enabled: bool = False
    """Train the models and score every document. Nothing is dropped unless `keep` says so."""
    order: Annotated[int, Field(ge=1, le=7)] = 5
    """Length of the n-grams. CCNet: 5."""
    smoothing: Literal["add_k", "good_turing", "katz", "kneser_ney"] = "kneser_ney"
    """kneser_ney: interpolated, modified (Chen and Goodman 1998). good_turing and katz give one
    unknown word all that unseen words have together; take them with min_count of 2 or more, else
    documents of unknown words look good."""
    k: Annotated[float, Field(gt=0)] = 1.0
    """add_k: what is added to every count."""
    tokens: Literal["words", "characters", "pieces"] = "pieces"
    """What the n-grams are made of; pieces come from a small Unigram model of the language."""
    pieces: Annotated[int, Field(ge=100)] = 65_536
    """Size of that model, less where the text supports fewer. CCNet: 65,536."""
    min_count: PositiveInt = 1
    """Tokens seen less often are unknown words."""
    train_on: Literal["wikipedia", "all"] = "wikipedia"
    """Which documents the models are trained on. CCNet: Wikipedia."""
    max_training_documents: PositiveInt = 1_000_000
    """Documents of a language, drawn by the run's seed. CCNet: 1,000,000."""
    max_training_bytes: PositiveInt = 50_000_000
    """UTF-8 bytes of a language, drawn the same way. It bounds the memory of the worker that makes
    the model: at order 5, 0.5 GB for 10 MB, 0.95 GB for 26 MB, about 1.5 GB for 50 MB."""
    min_training_characters: PositiveInt = 20_000
    """Languages with less text get no model; their documents get no score, and are counted."""
    scorer: Literal["built_in", "kenlm"] = "built_in"
    """What scores the documents; kenlm is optional (the extra `kenlm`), reads the model's ARPA
    file, and gives the same within 1e-4 in log10. It knows no models of order 1."""
    head_percentile: Annotated[float, Field(gt=0, lt=100)] = 30.0
    """Documents of a language below this percentile of perplexity are its head. CCNet: 30."""
    middle_percentile: Annotated[float, Field(gt=0, lt=100)] = 60.0
    """Below this one, and above the head: the middle; the rest is the tail. CCNet: 60."""
    keep: Annotated[list[Literal["head", "middle", "tail", "unscored"]], Field(min_length=1)] = [
        "head",
        "middle",
        "tail",
        "unscored",
    ]
    """Which go on to the vocabulary and the model. The others are kept apart, as rejects."""

    @model_validator(mode="after")
    def _percentiles_rise(self) -> PerplexitySection:
        if self.head_percentile >= self.middle_percentile:
            raise ValueError("head_percentile must be below middle_percentile")
        if self.scorer == "kenlm" and self.order == 1:
            raise ValueError("scorer 'kenlm' needs order 2 or more; take 'built_in' for order 1")
        return self
