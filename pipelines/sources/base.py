"""What a source is: it lists shards, and reads pages from a shard that lies on the local disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pipelines.core.manifest import Counters
from pipelines.core.records import Shard


@dataclass(slots=True)
class RawPage:
    """One page as the source holds it, before text is taken out of it."""

    url: str
    offset: int
    """Byte offset of the record in the uncompressed shard, or the page number of a dump."""
    content: bytes
    """The page's bytes; UTF-8 unless `content_kind` is "html"."""
    content_kind: Literal["html", "text", "wikitext"]
    charset: str | None = None
    """The charset that the server declared for an HTML page, if any."""
    title: str | None = None
    date: str | None = None
    """ISO 8601, as the source gives it."""
    metadata: dict[str, str] = field(default_factory=dict)
    namespaces: frozenset[str] = frozenset()
    """Wikitext: lower-case names of the namespaces whose links show no text (files, categories)."""


class Source(Protocol):
    """An entry of pipelines.sources.SOURCES."""

    def list_shards(self, config: Any, server: str) -> list[Shard]:
        """List the shards that a source's configuration asks for, in the server's order.

        Args:
            config: the source's own section of the configuration.
            server: base URL without a slash at its end.

        Raises:
            FetchError: a list cannot be read.
            ConfigError: the server holds nothing of that name.
        """

    def read_pages(
        self, path: Path, shard: Shard, counters: Counters, notes: list[str], max_page_bytes: int
    ) -> Iterator[RawPage]:
        """Read the pages of a local file; what is not a page is counted, damage is noted."""


def base_url(server: str) -> str:
    """A server's address without a slash at its end."""
    return server.rstrip("/")
