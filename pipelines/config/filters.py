"""Sections of the quality filters ([[filters]])."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.config.base import PositiveInt, Share
from pipelines.config.documents import FilterBase


class LengthFilter(FilterBase):
    """Drops short documents."""

    kind: Literal["length"]
    min_characters: PositiveInt = 100
    """Characters a document needs."""


class LettersFilter(FilterBase):
    """Drops documents whose words mostly hold no letter (numbers, markup, tables)."""

    kind: Literal["letters"]
    min_share_of_words: Share = 0.7
    """Least share of words that contain at least one letter. Gopher: 0.8."""


class RepetitionFilter(FilterBase):
    """Drops documents that repeat themselves."""

    kind: Literal["repetition"]
    max_share_of_characters: Share = 0.3
    """Most characters that may stand in repeated paragraphs. Gopher: 0.2 to 0.3."""


class ScriptFilter(FilterBase):
    """Drops documents that are not written in their language's script."""

    kind: Literal["script"]
    min_share_of_letters: Share = 0.5
    """Least share of letters in the language's own script."""


FilterConfig = Annotated[
    LengthFilter | LettersFilter | RepetitionFilter | ScriptFilter, Field(discriminator="kind")
]
