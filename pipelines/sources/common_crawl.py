"""Common Crawl: the list of a snapshot's files, and the pages in them.

Layout: https://commoncrawl.org/get-started (crawl-data/SNAPSHOT/{warc,wet}.paths.gz).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipelines.config import CommonCrawlSource
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import RawPage
from pipelines.sources.fetch import file_info, read_url
from pipelines.sources.warc import read_warc_pages, read_wet_pages

HEAD_REQUESTS_AT_ONCE = 8


class CommonCrawl:
    """Source `common_crawl`."""

    def list_shards(self, config: CommonCrawlSource, server: str) -> list[Shard]:
        """The files of a snapshot's list, in its order; see `Source.list_shards`."""
        url = f"{server}/crawl-data/{config.snapshot}/{config.format}.paths.gz"
        try:
            lines = gzip.decompress(read_url(url)).decode("ascii").split()
        except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
            raise ConfigError(f"{url} is not a gzipped list of paths: {error}") from error
        if not lines:
            raise ConfigError(f"{url} lists no file; choose a snapshot that has some")
        paths = lines[: config.max_shards]
        with ThreadPoolExecutor(HEAD_REQUESTS_AT_ONCE) as pool:
            infos = list(pool.map(lambda path: file_info(f"{server}/{path}"), paths))
        return [
            Shard(
                name=path,
                url=f"{server}/{path}",
                source="commoncrawl",
                kind=config.kind,
                size=info.size,
                etag=info.etag,
                date=config.snapshot,
                options={"format": config.format},
            )
            for path, info in zip(paths, infos, strict=True)
        ]

    def read_pages(
        self, path: Path, shard: Shard, counters: Counters, notes: list[str], max_page_bytes: int
    ) -> Iterator[RawPage]:
        """Pages of a WARC or WET file; see `Source.read_pages`."""
        read = {"warc": read_warc_pages, "wet": read_wet_pages}[shard.options["format"]]
        return read(path, shard.name, counters, notes, max_page_bytes)
