"""Source `wikipedia`: article dumps of Wikipedias, and the pages in them.

The XML format is https://www.mediawiki.org/wiki/Help:Export. What a dump's server holds is listed
in wikipedia_listing.py, bytes are read in multistream.py, pages cut out in dump_pages.py.
"""

from __future__ import annotations

import urllib.parse
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from pipelines.config import WikipediaSource
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import RawPage
from pipelines.sources.dump_pages import (
    Block,
    Page,
    Site,
    parse_page,
    parse_site,
    read_blocks,
)
from pipelines.sources.multistream import MAX_MEMBER_BYTES, DumpFile
from pipelines.sources.wikipedia_listing import list_wiki
from pipelines.sources.wikitext import is_disambiguation
from pipelines.sources.wikitext.mediawiki_names import REDIRECT

URL_SAFE = ";@$!*(),/~:'"
"""What MediaWiki leaves as it is in a page's address."""
XML_OVERHEAD = 6
"""A page's block may be so many times its text: `&quot;` is the longest escape."""


class Wikipedia:
    """Source `wikipedia`."""

    downloads = True

    def list_shards(self, config: WikipediaSource, server: str) -> list[Shard]:
        """The article files of each wiki, in the configuration's order; large ones in ranges.

        A range is named FILE#START-END; its options hold `start` and `end` (bytes of the file, end
        exclusive), `file` (the name without the range) and what its reader needs of the siteinfo.
        A file without an index is one shard.
        """
        return [shard for wiki in config.wikis for shard in list_wiki(config, wiki, server)]

    def read_pages(
        self,
        path: Path,
        shard: Shard,
        counters: Counters,
        notes: list[str],
        max_page_bytes: int,
        max_member_bytes: int = MAX_MEMBER_BYTES,
    ) -> Iterator[RawPage]:
        """Articles of a dump file or of a range of one: bz2 with all its streams, gzip, or plain.

        A page is told from the others by `offset`, the byte of the file at which its bz2 stream
        begins (0 in a file of one stream), together with metadata `page_id`. Neither depends on
        ranges.

        Counts `records`; `dropped.` and namespace, content_model (Lua, CSS, JSON, …), redirect,
        disambiguation, page_too_large, broken_page (no XML), cut_page (no end); what multistream.py
        counts; `lost.truncated_dump` when the file ends before the dump does, and
        `lost.truncated_range` when a range is shorter than it was listed.
        """
        reader = _Reader(shard, counters, notes, max_page_bytes)
        first = int(shard.options.get("start", 0))
        dump = DumpFile(path, shard.name, counters, notes, first, max_member_bytes)
        limit = XML_OVERHEAD * max_page_bytes + 2**16
        for block in read_blocks(dump.pieces(), limit):
            page = reader.read(block)
            if page is not None:
                yield page
        reader.finish(first + path.stat().st_size)


class _Reader:
    """What is known while one file is read."""

    def __init__(
        self, shard: Shard, counters: Counters, notes: list[str], max_page_bytes: int
    ) -> None:
        self._shard, self._counters, self._notes = shard, counters, notes
        self._max_page_bytes = max_page_bytes
        self._wiki = shard.options.get("wiki", "")
        site = shard.options.get("site")
        self._site = Site.from_json(site) if site else Site()
        self._ended = False

    def read(self, block: Block) -> RawPage | None:
        """The article of a block, if it is one."""
        try:
            if block.kind == "page":
                self._counters["records"] += 1
                return self._article(parse_page(block.content), block.stream)
            if block.kind == "site":
                self._site = parse_site(block.content)
        except ElementTree.ParseError as error:
            if block.kind == "page":
                self._drop("broken_page")
            else:
                self._counters["lost.broken_siteinfo"] += 1
            self._note(f"a {block.kind} of the stream at byte {block.stream} is no XML: {error}")
        if block.kind == "too_large":
            self._counters["records"] += 1
            self._drop("page_too_large")
        elif block.kind == "cut":
            self._counters["records"] += 1
            self._drop("cut_page")
            self._note(f"a page of the stream at byte {block.stream} has no end")
        elif block.kind == "end":
            self._ended = True
        return None

    def finish(self, end: int) -> None:
        """Say what is missing, when the file ends at byte `end` of the dump."""
        options = self._shard.options
        listed = int(options.get("end", end))
        if end < listed:
            self._counters["lost.truncated_range"] += 1
            self._note(f"ends at byte {end} and was listed to {listed}")
        elif not self._ended and listed == int(options.get("file_size", listed)):
            self._counters["lost.truncated_dump"] += 1
            self._note("the dump ends before its last line, </mediawiki>")

    def _article(self, page: Page, stream: int) -> RawPage | None:
        content = page.text.encode("utf-8")
        reason = self._reason(page)
        if reason is None and len(content) > self._max_page_bytes:
            reason = "page_too_large"
        if reason is not None:
            self._drop(reason)
            return None
        base = self._site.base
        if not base and self._wiki.endswith("wiki"):
            code = self._wiki.removesuffix("wiki").replace("_", "-")
            base = f"https://{code}.wikipedia.org/wiki/"
        return RawPage(
            url=base + urllib.parse.quote(page.title.replace(" ", "_"), safe=URL_SAFE),
            offset=stream,
            content=content,
            content_kind="wikitext",
            title=page.title,
            date=page.timestamp,
            metadata={"page_id": page.page_id, "wiki": self._wiki},
            namespaces=self._site.hidden,
        )

    def _reason(self, page: Page) -> str | None:
        namespace, colon, _ = page.title.partition(":")
        # Exports before version 0.6 have no <ns>: the title says it.
        in_other = bool(colon) and namespace.lower() in self._site.namespaces
        if page.namespace != "0" and (page.namespace or in_other):
            return "namespace"
        if page.model != "wikitext":
            return "content_model"
        if page.is_redirect or REDIRECT.match(page.text):
            return "redirect"
        return "disambiguation" if is_disambiguation(page.text, page.title) else None

    def _drop(self, reason: str) -> None:
        self._counters[f"dropped.{reason}"] += 1

    def _note(self, what: str) -> None:
        self._notes.append(f"{self._shard.name}: {what}")
