"""Where text comes from. A source is one file and one line of SOURCES."""

from __future__ import annotations

import os

from pipelines.config import SAMPLE_MIRROR, DataConfig
from pipelines.core.config import ConfigError
from pipelines.core.records import Shard
from pipelines.sources.base import Source, base_url
from pipelines.sources.common_crawl import CommonCrawl
from pipelines.sources.fetching.fetch import FetchError
from pipelines.sources.hugging_face import HuggingFace
from pipelines.sources.local_files import LocalFiles
from pipelines.sources.wikipedia import Wikipedia

SOURCES: dict[str, Source] = {
    "common_crawl": CommonCrawl(),
    "wikipedia": Wikipedia(),
    "hugging_face": HuggingFace(),
    "local_files": LocalFiles(),
}
"""By the `kind` of a source's configuration."""

SAMPLE_MIRROR_VARIABLE = "BABELMILL_SAMPLE_MIRROR"
"""Environment variable that holds the address of the sample mirror."""


def list_shards(config: DataConfig) -> list[Shard]:
    """List the shards of all sources, in the configuration's order; a shard listed twice is kept
    once.

    Raises:
        ConfigError: a source cannot be listed, or two list one name for different things; names
            the setting, the address and what is right.
    """
    shards: dict[str, Shard] = {}
    for number, source in enumerate(config.sources):
        setting = f"sources.{number}"
        server = resolve_server(getattr(source, "server", ""), setting)
        try:
            found = SOURCES[source.kind].list_shards(source, server)
        except FetchError as error:
            raise ConfigError(
                f"{setting} ({source.kind}): cannot read {error.url}: {error.reason}. "
                f"{_advice(error)} (server = {server!r})"
            ) from error
        except ConfigError as error:
            raise ConfigError(f"{setting} ({source.kind}): {error}") from error
        for shard in found:
            known = shards.setdefault(shard.name, shard)
            if (known.etag, known.options) != (shard.etag, shard.options):
                raise ConfigError(
                    f"{setting} ({source.kind}): {shard.name} is listed twice, and not for the "
                    "same reading: take one of the two out"
                )
    return list(shards.values())


def _advice(error: FetchError) -> str:
    if error.status == 404:
        return "The server has no such snapshot, wiki or date: choose one that it lists"
    if error.status in (403, 429, 503):
        return "The server refuses for now: wait, or read a mirror"
    return "Check the address and that the server is up"


def resolve_server(server: str, setting: str) -> str:
    """The base URL of a server by its configured name.

    Raises:
        ConfigError: the sample mirror is asked for and its address is not in the environment.
    """
    if server != SAMPLE_MIRROR:  # "" for sources that have none
        return base_url(server)
    address = os.environ.get(SAMPLE_MIRROR_VARIABLE)
    if not address:
        raise ConfigError(
            f"{setting}.server = {SAMPLE_MIRROR!r}: the environment variable "
            f"{SAMPLE_MIRROR_VARIABLE} does not hold the mirror's address; start the run through "
            "`babelmill`, which serves the mirror, or set it to the address of one"
        )
    return base_url(address)
