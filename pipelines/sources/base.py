"""What a source is: it lists shards, and reads the pages of a shard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pipelines.core.manifest import Counters
from pipelines.core.records import Shard

MAX_MEMBER_BYTES = 256_000_000
"""What a gzip member or a bz2 stream may unpack to; `extraction.max_member_bytes` by default."""
SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(slots=True)
class RawPage:
    """One page as the source holds it, before text is taken out of it."""

    url: str
    offset: int
    """Byte offset of the record in the uncompressed shard (of the bz2 stream in a dump), or the
    number of the row, from 0."""
    content: bytes
    """The page's bytes. Wikitext and text are UTF-8; html and paragraphs may be anything."""
    content_kind: Literal["html", "text", "paragraphs", "wikitext"]
    """text: each line is a paragraph; paragraphs: blank lines part them (where there is no blank
    line, each line is one)."""
    charset: str | None = None
    """The charset that the server declared for the page, if any."""
    title: str | None = None
    date: str | None = None
    """ISO 8601, as the source gives it."""
    metadata: dict[str, str] = field(default_factory=dict)
    namespaces: frozenset[str] = frozenset()
    """Wikitext: lower-case names of the namespaces whose links show no text (files, categories)."""


class Source(Protocol):
    """An entry of pipelines.sources.SOURCES."""

    downloads: bool
    """Whether a shard is one file that `Shard.url` names. False: `read_pages` gets no path and
    opens what it needs by `Shard.options`."""

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
        self,
        path: Any,
        shard: Shard,
        counters: Counters,
        notes: list[str],
        max_page_bytes: int,
        max_member_bytes: int = MAX_MEMBER_BYTES,
    ) -> Iterator[RawPage]:
        """Read the pages of a shard in the order of their offsets.

        `path` is the local file (a Path); None for a source that does not download.

        What is not a page is counted as `dropped.REASON`, damage is noted with the shard's name,
        and every record that was met counts as one of `records`.

        Raises:
            FetchError: nothing can be read there.
        """


def base_url(server: str) -> str:
    """A server's address without a slash at its end."""
    return server.rstrip("/")


def replace_surrogates(text: str, counters: Counters) -> str:
    """Replace lone surrogates by U+FFFD, counted; UTF-8 has no form for them."""
    try:
        text.encode("utf-8")  # several times as fast as looking for them
    except UnicodeEncodeError:
        text, count = SURROGATE.subn("\ufffd", text)
        counters["replaced.surrogates"] += count
    return text
