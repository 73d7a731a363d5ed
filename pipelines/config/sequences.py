"""Sections of the steps from unique documents to packed sequences."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from pipelines.config.base import PositiveInt, Share
from pipelines.core.config import Config


class BalanceSection(Config):
    """q_i = p_i^alpha / sum_j p_j^alpha ([balance])."""

    alpha: Share = 0.3
    """1 keeps natural shares, 0 makes all languages equal. XLM-R: 0.3."""
    max_repeats: Annotated[float, Field(ge=1)] = 8.0
    """Most often a text may be seen in one pass over the corpus; the excess goes to the others."""
    min_sentences: PositiveInt = 20
    """Languages with fewer sentences are left out, and named."""


class VocabularySection(Config):
    """The Unigram vocabulary ([vocabulary])."""

    size: Annotated[int, Field(ge=100, le=4_000_000)] = 250_000
    """SentencePiece pieces, three control pieces included. XLM-R: 250,000."""
    sample_characters: PositiveInt = 600_000_000
    """Characters drawn by q_i to train on; memory is about 20 bytes a character."""
    character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9995
    """Share of the sample's characters that get a piece of their own."""
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    """nmt_nfkc is XLM-R's; it turns U+200C into a space. nfkc and identity keep joiners."""
    num_threads: PositiveInt = 2
    """Threads of the trainer; the result depends on it."""


class PackingSection(Config):
    """Documents to sequences ([packing])."""

    length: Annotated[int, Field(ge=8, le=65_535)] = 512
    """Tokens per sequence, <s> and </s> included. XLM-R: 512."""
    held_out_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.01
    """Share of documents kept for evaluation, never trained on."""
    max_held_out_documents: PositiveInt = 1000
    """Most documents kept for evaluation in one language."""


class MaskingSection(Config):
    """Which tokens are predicted ([masking])."""

    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of ordinary tokens chosen. BERT and XLM-R: 0.15."""
    mask_probability: Share = 0.8
    """Of the chosen: replaced by <mask>."""
    random_probability: Share = 0.1
    """Of the chosen: replaced by a token drawn by unigram frequency."""
    views: Annotated[int, Field(ge=1, le=64)] = 1
    """Masks stored per sequence; later passes compute theirs by the same function."""

    @field_validator("random_probability")
    @classmethod
    def _probabilities_fit(cls, value: float, info: Any) -> float:
        if value + info.data.get("mask_probability", 0.0) > 1 + 1e-9:
            raise ValueError("mask_probability + random_probability is above 1")
        return value
