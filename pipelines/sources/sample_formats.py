"""Writers of the sample mirror: pages as WARC, WET and MediaWiki dump files, byte for byte stable.

Formats: ISO 28500 (WARC 1.0, one gzip member a record), Common Crawl's WET, MediaWiki's export-0.11
XML in bz2 streams with an index of `offset:page id:title` lines.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import html
import uuid
from collections.abc import Sequence
from xml.sax.saxutils import escape

from pipelines.core.hashing import stable_uint64
from pipelines.sources.sample_catalogues import Page

OLD_CHARSETS = {
    "ru": "windows-1251",
    "bg": "windows-1251",
    "uk": "koi8-u",
    "ja": "euc-jp",
    "el": "iso-8859-7",
    "pl": "iso-8859-2",
    "cs": "iso-8859-2",
    "he": "windows-1255",
    "zh_Hans": "gb18030",
    "zh_Hant": "big5",
}
"""A third of these locales' pages is served so, as old sites do."""
NAVIGATION = ("Home", "Index", "Search", "Sitemap", "Contact", "Log in")
PAGES_PER_STREAM = 100
SITE = {
    "ar": ("ملف", "تصنيف"),
    "de": ("Datei", "Kategorie"),
    "fi": ("Tiedosto", "Luokka"),
    "fr": ("Fichier", "Catégorie"),
    "hi": ("चित्र", "श्रेणी"),
    "ja": ("ファイル", "Category"),
    "ru": ("Файл", "Категория"),
    "sw": ("Picha", "Jamii"),
}
"""Wikis of the mirror: their names for files and categories."""


def html_page(page: Page) -> tuple[bytes, str]:
    """(bytes, charset) of a page with navigation around its text."""
    charset = "utf-8"
    if page.locale in OLD_CHARSETS and stable_uint64("charset", page.url) % 3 == 0:
        charset = OLD_CHARSETS[page.locale]
    language = page.locale.replace("_", "-")
    links = "".join(f'<li><a href="/{name.lower()}">{name}</a></li>' for name in NAVIGATION)
    body = "\n".join(f"<p>{html.escape(message)}</p>" for message in page.messages)
    markup = (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="{charset}">\n'
        f"<title>{html.escape(page.title)}</title>\n<script>var page = {page.number};</script>\n"
        f'</head>\n<body>\n<header><nav class="navigation"><ul>{links}</ul></nav></header>\n'
        f'<main id="content"><article>\n{body}\n</article></main>\n'
        f'<footer class="footer"><p>Copyright {page.package}.example. '
        '<a href="/privacy">Privacy</a></p></footer>\n</body>\n</html>\n'
    )
    # What the old charset lacks is written as a character reference, as old sites do.
    return markup.encode(charset, errors="xmlcharrefreplace"), charset


def warc_file(pages: Sequence[Page], name: str, date: str) -> bytes:
    """A `.warc.gz`: warcinfo, then request, response and metadata of each page."""
    info = (
        f"software: babelmill sample mirror\r\nformat: WARC File Format 1.0\r\nisPartOf: {name}\r\n"
    )
    records = [_record("warcinfo", name, date, "application/warc-fields", info.encode())]
    for page in pages:
        body, charset = html_page(page)
        host = page.url.split("/")[2]
        request = f"GET /{page.url.split('/', 3)[3]} HTTP/1.1\r\nHost: {host}\r\n\r\n"
        packed = stable_uint64("packed", page.url) % 2 == 0
        if packed:
            body = gzip.compress(body, 6, mtime=0)
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset={charset}\r\n"
            + ("Content-Encoding: gzip\r\n" if packed else "")
            + f"Content-Length: {len(body)}\r\n\r\n"
        )
        response = head.encode() + body
        records += [
            _record(
                "request", page.url, date, "application/http; msgtype=request", request.encode()
            ),
            _record("response", page.url, date, "application/http; msgtype=response", response),
            _record("metadata", page.url, date, "application/warc-fields", b"fetchTimeMs: 100\r\n"),
        ]
    return b"".join(records)


def wet_file(pages: Sequence[Page], name: str, date: str) -> bytes:
    """A `.warc.wet.gz`: warcinfo, then one conversion record a page, a line for each message."""
    info = f"Software-Info: babelmill sample mirror\r\nIs-Part-Of: {name}\r\n"
    records = [_record("warcinfo", name, date, "application/warc-fields", info.encode())]
    records += [
        _record("conversion", page.url, date, "text/plain", "\n".join(page.messages).encode())
        for page in pages
    ]
    return b"".join(records)


def _record(kind: str, target: str, date: str, content_type: str, block: bytes) -> bytes:
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {target} {date}")
    digest = base64.b32encode(hashlib.sha1(block).digest()).decode()
    field = "WARC-Filename" if kind == "warcinfo" else "WARC-Target-URI"
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\n{field}: {target}\r\nWARC-Date: {date}\r\n"
        f"WARC-Record-ID: <urn:uuid:{identity}>\r\nWARC-Block-Digest: sha1:{digest}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n", 6, mtime=0)


def wiki_dump(pages: Sequence[Page], wiki: str, date: str) -> tuple[bytes, bytes]:
    """(multistream dump, its index), both bz2: head, pages by the hundred, foot."""
    file_name, category = SITE[wiki]
    head = (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" '
        f'xml:lang="{wiki}">\n<siteinfo><sitename>Wikipedia</sitename><dbname>{wiki}wiki</dbname>'
        f"<base>https://{wiki}.wikipedia.example/wiki/Main</base><namespaces>"
        '<namespace key="0" case="first-letter" />'
        f'<namespace key="6" case="first-letter">{file_name}</namespace>'
        f'<namespace key="14" case="first-letter">{category}</namespace>'
        "</namespaces></siteinfo>\n"
    )
    streams, index = [bz2.compress(head.encode())], []
    offset = len(streams[0])
    for start in range(0, len(pages), PAGES_PER_STREAM):
        members = range(start, min(start + PAGES_PER_STREAM, len(pages)))
        content = "".join(_wiki_page(pages[i], i + 1, wiki, date) for i in members)
        index += [f"{offset}:{i + 1}:{_title(pages[i])}\n" for i in members]
        streams.append(bz2.compress(content.encode()))
        offset += len(streams[-1])
    streams.append(bz2.compress(b"</mediawiki>\n"))
    return b"".join(streams), bz2.compress("".join(index).encode())


def _title(page: Page) -> str:
    return f"{page.section} {page.number}"


def _wiki_page(page: Page, number: int, wiki: str, date: str) -> str:
    stamp = f"{date[:4]}-{date[4:6]}-{date[6:]}T00:00:00Z"
    return (
        f"<page><title>{escape(_title(page))}</title><ns>0</ns><id>{number}</id>"
        f"<revision><id>{number}</id><timestamp>{stamp}</timestamp><model>wikitext</model>"
        f'<text xml:space="preserve">{escape(_wikitext(page, wiki))}</text></revision></page>\n'
    )


def _wikitext(page: Page, wiki: str) -> str:
    """The messages as paragraphs, with the markup that articles have around and inside them."""
    file_name, category = SITE[wiki]
    parts = [
        f"{{{{Infobox software\n| name = {page.package}\n"
        f"| section = {{{{lc:{page.section}}}}}\n}}}}",
        f"[[{file_name}:{page.package}.svg|thumb|200px|[[{page.package}]]]]",
    ]
    for position, message in enumerate(page.messages):
        text = f"<nowiki>{message}</nowiki>" if set(message) & set("[]{}|='*#:;") else message
        first, blank, rest = message.partition(" ")
        if text is message and blank and position % 5 == 0:
            text = f"'''{first}''' {rest}"
        if position % 7 == 3:
            text += f'<ref name="{page.package}/{position}">{{{{cite web|url={page.url}}}}}</ref>'
        if position % 11 == 10:
            parts.append("== <!-- next --> ==")
        parts.append(text)
    parts.append('{| class="wikitable"\n|-\n! a !! b\n|-\n| 1 || 2\n|}')
    parts.append(f"[[{category}:{page.section}]]")
    return "\n\n".join(parts) + "\n"
