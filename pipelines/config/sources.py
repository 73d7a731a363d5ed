"""Sections of the sources ([[sources]]), and how they are fetched ([fetching])."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipelines.config.base import PositiveInt
from pipelines.core.config import Config

SAMPLE_MIRROR = "sample-mirror"
"""A server name that stands for the mirror built on this machine from installed packages."""


DATASET_FORMATS = ("parquet", "json", "text", "csv")
"""Names that stand for a file format where a dataset's name is asked for."""


class FetchingSection(Config):
    """How politely servers are asked ([fetching]). One budget for the whole job."""

    requests_per_second: Annotated[float, Field(gt=0)] = 20.0
    """Requests to one host, over all workers together."""
    tries: Annotated[int, Field(ge=1, le=100)] = 8
    """Tries for one file before its shard fails; on status 403 never more than 4."""
    first_pause_seconds: Annotated[float, Field(gt=0)] = 1.0
    """Pause after the first refusal (429, 403, 503, SlowDown); for all workers; it grows."""
    longest_pause_seconds: Annotated[float, Field(gt=0)] = 300.0
    """Pauses grow to this; a server's Retry-After is obeyed even when it is longer."""
    min_bytes_per_second: Annotated[float, Field(ge=0)] = 1000.0
    """A transfer that brings less, over 60 seconds, is a failed try."""
    longest_retry_after_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """A longer Retry-After is not waited for: the file fails at once."""

    @model_validator(mode="after")
    def _pauses_grow(self) -> FetchingSection:
        if self.first_pause_seconds > self.longest_pause_seconds:
            raise ValueError(
                f"first_pause_seconds = {self.first_pause_seconds} is above "
                f"longest_pause_seconds = {self.longest_pause_seconds}"
            )
        return self


class CommonCrawlSource(Config):
    """Files of one Common Crawl snapshot, or of a list of paths."""

    kind: Literal["common_crawl"]
    snapshot: Annotated[str | None, Field(pattern=r"^CC-MAIN-\d{4}-\d{2}$")] = None
    """For example CC-MAIN-2026-44. This or `paths`."""
    paths: str | None = None
    """A list of paths, `….paths.gz` or plain text (a URL or a local file). This or `snapshot`."""
    format: Literal["warc", "wet"] = "warc"
    """warc: pages as served; wet: text the crawler extracted."""
    server: str = "https://data.commoncrawl.org"
    """Base URL (https, s3, gs, file), or "sample-mirror"."""
    max_shards: PositiveInt | None = None
    """Read only so many files of the list; None reads all."""
    sample_seed: Annotated[int, Field(ge=0)] | None = None
    """With `max_shards`: draw the files by this seed instead of taking the first. A larger
    `max_shards` keeps the files of a smaller one."""

    @model_validator(mode="after")
    def _one_list(self) -> CommonCrawlSource:
        if (self.snapshot is None) == (self.paths is None):
            raise ValueError('give either snapshot = "CC-MAIN-YYYY-WW" or paths = a list of paths')
        return self


class WikipediaSource(Config):
    """Article dumps of Wikipedias (pages-articles, multistream)."""

    kind: Literal["wikipedia"]
    wikis: Annotated[list[str], Field(min_length=1)]
    """Codes as the dump server writes them, or language tags: ["sw", "simple", "zh_yue", "nb"]."""
    date: Annotated[str, Field(pattern=r"^(\d{8}|latest)$")]
    """Dump date, YYYYMMDD, or "latest": the date of the newest whole dump, where the server says
    it."""
    server: str = "https://dumps.wikimedia.org"
    """Base URL, or "sample-mirror"."""
    range_megabytes: PositiveInt = 128
    """A multistream file larger than this is shared by several workers, so many compressed
    megabytes (10^6 bytes) each, along the streams that its index lists. Without an index it is one
    shard. A document's identity does not depend on it."""


class HuggingFaceSource(Config):
    """A dataset of the Hugging Face hub, or local files in a format that `datasets` reads."""

    kind: Literal["hugging_face"]
    dataset: Annotated[str, Field(min_length=1)]
    """Name on the hub ("wikimedia/wikipedia"), or a format: "parquet", "json", "text", "csv"."""
    config: str | None = None
    """Configuration of the dataset ("20231101.sw")."""
    split: str = "train"
    """Which split."""
    revision: str | None = None
    """Commit or tag; pin it, for a dataset can change."""
    data_files: list[str] = []
    """Files (paths, globs, URLs) when `dataset` is a format, or a choice of the dataset's own."""
    text_column: str = "text"
    """Column that holds the text."""
    url_column: str | None = "url"
    """Column that holds the address, where there is one."""
    shards: PositiveInt = 1
    """Into how many parts a streamed split is cut; more than the dataset has files is too many."""
    max_rows: PositiveInt | None = None
    """Read only the first so many rows of each part."""


class LocalFilesSource(Config):
    """Plain files: JSONL, Parquet, text, HTML, and whatever the other readers read."""

    kind: Literal["local_files"]
    paths: Annotated[list[str], Field(min_length=1)]
    """Files or globs, any fsspec URL."""
    format: Literal["auto", "jsonl", "parquet", "text", "html", "warc", "wet", "wikipedia"] = "auto"
    """auto goes by the file's ending, else by its first bytes. A text or HTML file is one document;
    a text file of one document a line is read by hugging_face with dataset = "text"."""
    text_column: str = "text"
    """JSONL, Parquet: the field that holds the text."""
    url_column: str | None = "url"
    """JSONL, Parquet: the field that holds the address, where there is one."""


SourceConfig = Annotated[
    CommonCrawlSource | WikipediaSource | HuggingFaceSource | LocalFilesSource,
    Field(discriminator="kind"),
]
