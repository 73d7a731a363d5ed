"""Stage `extract`: pages of a shard become documents with a language, one table a language."""

from __future__ import annotations

import hashlib
import html
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

from pipelines.config import DataConfig, ExtractionSection, LanguageIdentificationSection
from pipelines.core.hashing import digest
from pipelines.core.manifest import Counters, FileRef
from pipelines.core.records import PARAGRAPH_BREAK, Document, Shard, documents_to_table
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.core.store import local_file
from pipelines.identify_language import identify
from pipelines.sources import SOURCES
from pipelines.sources.base import RawPage
from pipelines.sources.fetch import FetchError, fetch
from pipelines.sources.wikitext import to_paragraphs

VERSION = 1
BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.I)
META_SEARCH_BYTES = 4096
TITLE = re.compile(r"<title[^>]*>(.{0,1000}?)</title\s*>", re.I | re.DOTALL)
BLANK_LINE = re.compile(r"\n[ \t\r]*\n\s*")
SURROGATE = re.compile(r"[\ud800-\udfff]")


def extract_text(page: RawPage, config: ExtractionSection, counters: Counters) -> str | None:
    """Take the text out of a page: paragraphs separated by one blank line.

    HTML: the main content (resiliparse), in the charset of the byte order mark, the HTTP header,
    the page's own declaration, or the detector, in this order. WET: each line is a paragraph.
    Changes nothing else but lone surrogates, which cannot be stored: they become U+FFFD and are
    counted (`replaced.surrogates`).

    Returns:
        None, with `dropped.REASON` counted, when the page has too little text.
    """
    if page.content_kind == "wikitext":
        paragraphs = to_paragraphs(page.content.decode("utf-8"), page.namespaces)
    elif page.content_kind == "text":
        paragraphs = page.content.decode("utf-8", errors="replace").splitlines()
    else:
        markup = decode_html(page.content, page.charset)
        if page.title is None and (title := TITLE.search(markup)):
            page.title = " ".join(clean(html.unescape(title[1]), counters).split()) or None
        plain = extract_plain_text(
            markup, main_content=config.main_content, alt_texts=False, list_bullets=False
        )
        paragraphs = BLANK_LINE.split(plain)
    stripped = (paragraph.strip() for paragraph in paragraphs)
    text = clean(PARAGRAPH_BREAK.join(part for part in stripped if part), counters)
    if len(text) >= config.min_characters:
        return text
    counters["dropped.too_short" if text else "dropped.no_text"] += 1
    return None


def decode_html(content: bytes, declared: str | None) -> str:
    """Decode a page; wrong bytes become U+FFFD. See `extract_text` for the order of charsets."""
    return str(bytes_to_str(content, charset_of(content, declared), errors="replace"))


def charset_of(content: bytes, declared: str | None) -> str:
    """The charset of an HTML page, as the name of a Python codec."""
    for mark, encoding in BOMS:
        if content.startswith(mark):
            return encoding
    meta = META_CHARSET.search(content[:META_SEARCH_BYTES])
    for name in (declared, meta[1].decode("ascii") if meta else None):
        known = map_encoding_to_html5(name.strip("\"' "), fallback_utf8=False) if name else None
        if known:
            return str(known)
    return str(detect_encoding(content) or "utf-8")


def clean(text: str, counters: Counters) -> str:
    """Replace lone surrogates by U+FFFD, counted; UTF-8 has no form for them."""
    text, count = SURROGATE.subn("\ufffd", text)
    if count:
        counters["replaced.surrogates"] += count
    return text


def extract_shard(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Fetch a shard, read it, and write its documents, one table a language, by offset.

    Counts `documents`, `documents/TAG`, `bytes/TAG`, and every page that was left out.
    """
    shard = Shard(**unit.arguments["shard"])
    with local_file(Path(shard.name).suffix) as path:
        fetch(shard.url, path)
        check_listed(path, shard)
        documents = extract_file(path, shard, config, attempt.counters, attempt.notes)
        if not attempt.counters["records"]:
            found = "; ".join(attempt.notes) or "nothing in it was recognised"
            raise FetchError(shard.url, f"no whole record in {path.stat().st_size} bytes: {found}")
    by_language: dict[str, list[Document]] = defaultdict(list)
    for document in sorted(documents, key=lambda document: document.offset):
        by_language[document.language].append(document)
    for language, members in sorted(by_language.items()):
        attempt.counters["documents"] += len(members)
        attempt.counters[f"documents/{language}"] += len(members)
        attempt.counters[f"bytes/{language}"] += sum(len(d.text.encode()) for d in members)
        attempt.write_table(
            f"{language}/part-{attempt.unit_id}",
            documents_to_table(members),
            part="documents",
            language=language,
        )


def check_listed(path: Path, shard: Shard) -> None:
    """Refuse a file that is not the one that was listed: the unit's identity would be a lie.

    Raises:
        FetchError: its size, or the SHA-1 that a dump's status gives, is another.
    """
    size = path.stat().st_size
    if shard.size is not None and size != shard.size:
        raise FetchError(shard.url, f"has {size} bytes now and was listed with {shard.size}")
    listed = (shard.etag or "").removeprefix("sha1:")
    if listed != (shard.etag or ""):
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha1").hexdigest()
        if found != listed:
            raise FetchError(shard.url, f"has SHA-1 {found} and was listed with {listed}")


def extract_file(
    path: Path, shard: Shard, config: Mapping[str, Any], counters: Counters, notes: list[str]
) -> list[Document]:
    """Documents of a local shard in the wanted languages; `und` is kept."""
    extraction = ExtractionSection.model_validate(config["extraction"])
    lid = LanguageIdentificationSection.model_validate(config["language_identification"])
    wanted = config["languages"]
    documents = []
    pages = SOURCES[shard.kind].read_pages(path, shard, counters, notes, extraction.max_page_bytes)
    for page in pages:
        counters["pages"] += 1
        text = extract_text(page, extraction, counters)
        if text is None:
            continue
        found = identify(text, lid)
        if wanted != "all" and found.language not in (*wanted, "und"):
            counters["dropped.language"] += 1
            continue
        documents.append(
            Document(
                id=digest(shard.source, shard.name, page.offset),
                text=text,
                source=shard.source,
                url=clean(page.url, counters),
                shard=shard.name,
                offset=page.offset,
                language=found.language,
                language_score=found.score,
                language_second=found.second,
                language_second_score=found.second_score,
                date=page.date,
                title=page.title,
                metadata=page.metadata,
            )
        )
    return documents


def extract_step(config: DataConfig) -> Step:
    """The stage's step; its folder carries the configuration, so that runs share documents."""
    part = {
        "extraction": config.extraction.model_dump(mode="json"),
        "language_identification": config.language_identification.model_dump(mode="json"),
        "languages": config.run.languages
        if isinstance(config.run.languages, str)
        else sorted(config.run.languages),
    }
    return Step(
        name="extract",
        version=VERSION,
        folder=f"corpus/documents/{digest(VERSION, part)[:12]}",
        config=part,
        work=extract_shard,
    )


def extract_units(config: DataConfig, shards: Sequence[Shard]) -> list[Unit]:
    """One unit a shard. The address is no part of what identifies it."""
    return [
        Unit(
            key=shard.name,
            inputs=(FileRef(path=shard.name, size=shard.size, checksum=shard.etag),),
            arguments={"shard": asdict(shard)},
        )
        for shard in shards
    ]
