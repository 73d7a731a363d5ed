"""Dumps that tests build: pages, streams and their index, as MediaWiki writes them."""

from __future__ import annotations

import bz2
from collections.abc import Sequence
from xml.sax.saxutils import escape

HEAD = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/"><siteinfo>'
    "<base>https://de.wikipedia.org/wiki/Wikipedia:Hauptseite</base><namespaces>"
    '<namespace key="-2">Medium</namespace><namespace key="0" />'
    '<namespace key="1">Diskussion</namespace>'
    '<namespace key="6">Datei</namespace><namespace key="14">Kategorie</namespace>'
    "</namespaces></siteinfo>\n"
)
FOOT = "</mediawiki>\n"


def page(
    title: str, text: str, number: int = 5, *, ns: int | None = 0, extra: str = "", more: str = ""
) -> str:
    """One `<page>`; `extra` stands beside its title, `more` in its revision."""
    space = "" if ns is None else f"<ns>{ns}</ns>"
    return (
        f"<page><title>{escape(title)}</title>{space}<id>{number}</id>{extra}<revision>"
        f"<id>9</id><timestamp>2026-11-01T00:00:00Z</timestamp>{more}"
        f'<text xml:space="preserve">{escape(text)}</text></revision></page>\n'
    )


def multistream(pages: Sequence[str], per_stream: int = 100) -> tuple[bytes, bytes, list[int]]:
    """(dump, index, offsets of the streams of pages): head, pages by the hundred, foot."""
    dump = bz2.compress(HEAD.encode())
    index, offsets = [], []
    for start in range(0, len(pages), per_stream):
        offsets.append(len(dump))
        index += [
            f"{len(dump)}:{number + 1}:Title: {number}\n"
            for number in range(start, min(start + per_stream, len(pages)))
        ]
        dump += bz2.compress("".join(pages[start : start + per_stream]).encode())
    dump += bz2.compress(FOOT.encode())
    return dump, bz2.compress("".join(index).encode()), offsets
