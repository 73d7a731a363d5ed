"""Pages of a MediaWiki export: blocks of `<page>` to `</page>`, and what they say.

https://www.mediawiki.org/wiki/Help:Export. Each block is parsed for itself, so that a hole in the
file costs the pages in it and no other; in an export no text can hold the tags of a block, for `<`
is always escaped there.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipelines.sources.multistream import Piece

PAGE, PAGE_END = b"<page>", b"</page>"
SITE, SITE_END = b"<siteinfo>", b"</siteinfo>"
DUMP_END = b"</mediawiki>"
HIDDEN_NAMESPACES = ("-2", "6", "14")
"""Media, File, Category: their links show no running text."""
MAX_HEAD_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Site:
    """What a dump says of its wiki."""

    base: str = ""
    """Address prefix of the articles."""
    hidden: frozenset[str] = frozenset()
    """Lower-case names of the namespaces whose links show no text (files, categories)."""
    namespaces: frozenset[str] = frozenset()
    """Lower-case names of all namespaces but the articles'; empty when read from JSON."""

    def to_json(self) -> str:
        """What readers of a range need; some 200 bytes."""
        return json.dumps({"base": self.base, "hidden": sorted(self.hidden)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Site:
        """Read back what `to_json` wrote."""
        values = json.loads(text)
        return cls(values["base"], frozenset(values["hidden"]))


@dataclass(frozen=True, slots=True)
class Block:
    """One part of an export, or the loss of one."""

    kind: str
    """site, page; too_large (a page longer than allowed); cut (a page without its end, because
    bytes were lost or the file ends); end (of the whole export)."""
    stream: int
    content: bytes = b""


def read_blocks(pieces: Iterable[Piece], max_block_bytes: int) -> Iterator[Block]:
    """Cut an export into its parts; memory stays below two pieces and one page."""
    cutter = _Cutter(max_block_bytes)
    for piece in pieces:
        if piece.after_loss:
            yield from cutter.finish()
        yield from cutter.feed(piece)
    yield from cutter.finish()


class _Cutter:
    """What was read and belongs to no whole part yet."""

    def __init__(self, max_block_bytes: int) -> None:
        self._max = max_block_bytes
        self._buffer = b""
        self._stream = 0  # of the buffer's first byte
        self._skipping = False  # within a page that is too large
        self._head = True  # no siteinfo and no page yet

    def finish(self) -> Iterator[Block]:
        """What was begun has no end."""
        if self._skipping or self._buffer.startswith(PAGE):
            yield Block("cut", self._stream)
        self._buffer, self._skipping = b"", False

    def feed(self, piece: Piece) -> Iterator[Block]:
        """Whole parts that end in a piece."""
        carried = len(self._buffer)
        self._buffer += piece.content
        position = self._skip() if self._skipping else 0
        if self._head:
            yield from self._read_head(piece.stream)
        while not self._skipping and (start := self._buffer.find(PAGE, position)) >= 0:
            stream = self._stream if start < carried else piece.stream
            end = self._buffer.find(PAGE_END, max(start, carried - len(PAGE_END)))
            position = end + len(PAGE_END) if end >= 0 else start
            size = (position if end >= 0 else len(self._buffer)) - start
            if size > self._max:
                yield Block("too_large", stream)
                self._skipping = end < 0
            elif end >= 0:
                yield Block("page", stream, self._buffer[start:position])
            if end < 0:
                self._keep(start, stream)
                return
        if self._skipping:
            self._keep(max(position, len(self._buffer) - len(PAGE_END) + 1), self._stream)
            return
        if DUMP_END in self._buffer[position:]:
            yield Block("end", piece.stream)
            position = len(self._buffer)
        tail = MAX_HEAD_BYTES if self._head else len(DUMP_END) - 1
        self._keep(max(position, len(self._buffer) - tail), piece.stream)

    def _keep(self, position: int, stream: int) -> None:
        self._buffer, self._stream = self._buffer[position:], stream

    def _skip(self) -> int:
        """Leave the rest of a page that is too large; where the next may begin."""
        end = self._buffer.find(PAGE_END)
        self._skipping = end < 0
        return max(end, 0) + len(PAGE_END) if end >= 0 else 0

    def _read_head(self, stream: int) -> Iterator[Block]:
        start = self._buffer.find(PAGE)
        end = self._buffer.find(SITE_END, 0, start if start >= 0 else len(self._buffer))
        if end >= 0:
            site = self._buffer[self._buffer.find(SITE) : end + len(SITE_END)]
            yield Block("site", stream, site)
        self._head = start < 0 and end < 0


@dataclass(frozen=True, slots=True)
class Page:
    """What one `<page>` says, of its last revision."""

    title: str
    namespace: str
    page_id: str
    is_redirect: bool
    timestamp: str | None
    model: str
    text: str


def parse_page(content: bytes) -> Page:
    """Read a block of one page.

    Raises:
        ElementTree.ParseError: it is no well-formed XML.
    """
    element = ElementTree.fromstring(content)
    revision = element
    for child in element.iterfind("revision"):
        revision = child
    return Page(
        title=element.findtext("title") or "",
        namespace=element.findtext("ns") or "",
        page_id=element.findtext("id") or "",
        is_redirect=element.find("redirect") is not None,
        timestamp=revision.findtext("timestamp"),
        model=revision.findtext("model") or "wikitext",
        text=revision.findtext("text") or "",
    )


def parse_site(content: bytes) -> Site:
    """Read a block of siteinfo.

    Raises:
        ElementTree.ParseError: it is no well-formed XML.
    """
    element = ElementTree.fromstring(content)
    base = element.findtext("base") or ""
    before, wiki, _ = base.partition("/wiki/")  # a main page's title may hold a slash
    hidden, names = set(), set()
    for space in element.iterfind("namespaces/namespace"):
        name = (space.text or "").lower()
        if name:
            names.add(name)
            if space.get("key") in HIDDEN_NAMESPACES:
                hidden.add(name)
    base = before + wiki if wiki else base.rpartition("/")[0] + "/" if base else ""
    return Site(base, frozenset(hidden), frozenset(names))
