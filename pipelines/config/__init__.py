"""The configuration sections of the data path."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from pipelines.config.balance import AlphaPhase, BalanceSection
from pipelines.config.base import PositiveInt, Sha256, Share
from pipelines.config.corpus import DeduplicationSection, NearSection, PerplexitySection
from pipelines.config.documents import ExtractionSection, LanguageIdentificationSection
from pipelines.config.filter_base import FilterBase
from pipelines.config.filters import (
    BulletsFilter,
    FilterConfig,
    LanguageScoreFilter,
    LengthFilter,
    LettersFilter,
    LineQualityFilter,
    RepetitionFilter,
    ReplacementCharactersFilter,
    ScriptFilter,
    StopWordsFilter,
    SymbolsFilter,
    WordLengthFilter,
)
from pipelines.config.page_filters import (
    LinesFilter,
    PersonalDataFilter,
    RobotsFilter,
    UrlBlocklistFilter,
)
from pipelines.config.sequences import MaskingSection, PackingSection, VocabularySection
from pipelines.config.sources import (
    DATASET_FORMATS,
    SAMPLE_MIRROR,
    CommonCrawlSource,
    FetchingSection,
    HuggingFaceSource,
    LocalFilesSource,
    SourceConfig,
    WikipediaSource,
)
from pipelines.core.config import Config, validate
from pipelines.core.languages import normalise
from pipelines.core.run_file import RUN_NAME, config_key, read_run_file
from pipelines.core.store import Store

__all__ = [
    "DATASET_FORMATS",
    "SAMPLE_MIRROR",
    "AlphaPhase",
    "BalanceSection",
    "BulletsFilter",
    "CommonCrawlSource",
    "DataConfig",
    "DeduplicationSection",
    "ExtractionSection",
    "FetchingSection",
    "FilterBase",
    "FilterConfig",
    "HuggingFaceSource",
    "LanguageIdentificationSection",
    "LanguageScoreFilter",
    "LengthFilter",
    "LettersFilter",
    "LineQualityFilter",
    "LinesFilter",
    "LocalFilesSource",
    "MaskingSection",
    "NearSection",
    "PackingSection",
    "PerplexitySection",
    "PersonalDataFilter",
    "PositiveInt",
    "RepetitionFilter",
    "ReplacementCharactersFilter",
    "RobotsFilter",
    "RunSection",
    "ScriptFilter",
    "Sha256",
    "Share",
    "SourceConfig",
    "StopWordsFilter",
    "StoreSection",
    "SymbolsFilter",
    "UrlBlocklistFilter",
    "VocabularySection",
    "WikipediaSource",
    "WordLengthFilter",
    "read_data_config",
]


class RunSection(Config):
    """Which run this is ([run])."""

    name: Annotated[str, Field(pattern=RUN_NAME)]
    """Lower-case letters, digits and dashes, at most 40. The same name continues the same run."""
    seed: Annotated[int, Field(ge=0)] = 7
    """Every random choice is a function of this and of a stable id."""
    languages: Literal["all"] | list[str] = "all"
    """BCP 47 tags to keep, or "all" that are found."""

    @field_validator("languages")
    @classmethod
    def _tags_are_bcp47(cls, value: Any) -> Any:
        if isinstance(value, str):
            return value
        if not value:
            raise ValueError('an empty list keeps nothing; name languages, or write "all"')
        return [normalise(tag) for tag in value]


class StoreSection(Config):
    """Where everything is kept ([store])."""

    url: Annotated[str, Field(min_length=1)] = ".babelmill/store"
    """Any fsspec URL (file, s3, gs); a plain path is a folder below the checkout."""


class DataConfig(Config):
    """All sections of the data path. A run's file holds more; see flows.config.RunConfig."""

    run: RunSection
    store: StoreSection = StoreSection()
    sources: Annotated[list[SourceConfig], Field(min_length=1)]
    fetching: FetchingSection = FetchingSection()
    extraction: ExtractionSection = ExtractionSection()
    language_identification: LanguageIdentificationSection = LanguageIdentificationSection()
    filters: list[FilterConfig] = []
    deduplication: DeduplicationSection = DeduplicationSection()
    perplexity: PerplexitySection = PerplexitySection()
    balance: BalanceSection = BalanceSection()
    vocabulary: VocabularySection = VocabularySection()
    packing: PackingSection = PackingSection()
    masking: MaskingSection = MaskingSection()


def read_data_config(store: Store, run: str) -> DataConfig:
    """Read the data path's sections of a run; the other sections are left to their owners."""
    tree = read_run_file(store, run)
    return validate(
        DataConfig,
        {k: v for k, v in tree.items() if k in DataConfig.model_fields},
        origin=config_key(run),
    )
