"""Pages to documents: text, then language; nothing here opens a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pipelines.config import ExtractionSection, LanguageIdentificationSection
from pipelines.core.hashing import digest
from pipelines.core.manifest import Counters
from pipelines.core.records import PARAGRAPH_BREAK, UNKNOWN_LANGUAGE, Document, Shard
from pipelines.core.sections import kept_of, renumbered
from pipelines.extract.charset import decode_page, decode_plain
from pipelines.extract.child import Child
from pipelines.extract.html import EXTRACTORS, HtmlText, nests_deeper, paragraphs_of
from pipelines.identify_language import identify_document
from pipelines.sources.base import RawPage, replace_surrogates
from pipelines.sources.wikitext import is_list_page, sections_json, to_article

IN_PROCESS_CHARACTERS = 2**17
"""Longer pages go through the child process: so short ones cost a few seconds at the worst."""
BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


@dataclass(frozen=True)
class Reading:
    """The settings that the way from pages to documents reads."""

    extraction: ExtractionSection
    identification: LanguageIdentificationSection
    languages: frozenset[str] | None
    """Tags to keep, `und` besides; None keeps all."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Reading:
        """From the step's plain configuration; see `pipelines.extract.stage.extract_step`."""
        wanted = config["languages"]
        return cls(
            ExtractionSection.model_validate(config["extraction"]),
            LanguageIdentificationSection.model_validate(config["language_identification"]),
            None if wanted == "all" else frozenset((*wanted, UNKNOWN_LANGUAGE)),
        )


class TextExtractor:
    """Takes the text out of pages of every kind. A context manager: it may own a child process."""

    def __init__(self, config: ExtractionSection, counters: Counters) -> None:
        self._config, self._counters = config, counters
        self._open = ExitStack()
        self._child = self._open.enter_context(
            Child(
                f"{__package__}.html:{config.extractor}_text",
                config.max_page_seconds,
                config.max_page_megabytes,
            )
        )

    def __enter__(self) -> TextExtractor:
        return self

    def __exit__(self, *problem: object) -> None:
        self._open.close()

    def text_of(self, page: RawPage) -> str | None:
        """The text of a page: paragraphs separated by one blank line.

        The title, the charset, the number of U+FFFD and what the page tells robots are noted in
        the page. Changes nothing but NULs, which are taken out, and lone surrogates, which cannot
        be stored and become U+FFFD; both are counted (`replaced.nul`, `replaced.surrogates`).

        Returns:
            None, with `dropped.REASON` counted, when the page has too little text or is past a
            limit.
        """
        if len(page.content) > self._config.max_page_bytes:
            self._counters["dropped.page_too_large"] += 1
            return None
        paragraphs = self._paragraphs(page)
        if paragraphs is None:
            return None
        text = replace_surrogates(PARAGRAPH_BREAK.join(paragraphs), self._counters)
        if "\0" in text:
            self._counters["replaced.nul"] += text.count("\0")
            text = text.replace("\0", "")
        if page.title:
            title = replace_surrogates(" ".join(page.title.replace("\0", "").split()), Counters())
            page.title = title or None
        if wrong := text.count("\ufffd"):
            page.metadata["replacement_characters"] = str(wrong)
        if len(text) >= self._config.min_characters:
            return text
        self._counters["dropped.too_short" if text else "dropped.no_text"] += 1
        return None

    def _paragraphs(self, page: RawPage) -> list[str] | None:
        match page.content_kind:
            case "html":
                return self._html(page)
            case "wikitext":
                article = to_article(
                    page.content.decode("utf-8"), page.namespaces, page.title or ""
                )
                if is_list_page(article, page.title or ""):
                    self._counters["dropped.list_page"] += 1
                    return None
                if article.holes:
                    self._counters["dropped_sentences.hole"] += article.holes
                if article.sections:
                    page.metadata["sections"] = sections_json(article.sections)
                found = article.paragraphs
            case "text":
                found = page.content.decode("utf-8", errors="replace").splitlines()
            case "paragraphs":
                decoded = decode_plain(page.content, page.charset, self._counters)
                if decoded.charset != "utf-8":
                    page.metadata["charset"] = decoded.charset
                found = BLANK_LINE.split(decoded.text.replace("\r\n", "\n"))
                if len(found) == 1:
                    found = decoded.text.splitlines()
        return [part for part in map(str.strip, found) if part]

    def _html(self, page: RawPage) -> list[str] | None:
        decoded = decode_page(page.content, page.charset, self._counters)
        page.metadata["charset"] = decoded.charset
        if nests_deeper(decoded.text, self._config.max_nesting):
            self._counters["dropped.nesting"] += 1
            return None
        found = self._extract(decoded.text)
        if found is None:
            return None
        page.title = page.title or found.title
        if found.robots:
            before = page.metadata.get("robots")
            page.metadata["robots"] = f"{before}, {found.robots}" if before else found.robots
        return paragraphs_of(found.text)

    def _extract(self, markup: str) -> HtmlText | None:
        config = self._config
        if config.extractor == "resiliparse" and len(markup) <= IN_PROCESS_CHARACTERS:
            try:
                return EXTRACTORS[config.extractor](markup, config.main_content)
            except (ValueError, RuntimeError):  # lexbor gave the page up
                self._counters["dropped.extractor_crash"] += 1
                return None
        result, loss = self._child.extract(markup, config.main_content)
        if loss is not None:
            self._counters[f"dropped.{loss}"] += 1
            return None
        return HtmlText(*result)


def documents_of(
    pages: Iterable[RawPage], shard: Shard, reading: Reading, counters: Counters
) -> Iterator[Document]:
    """Documents of the pages, in their order; `und` is kept.

    Counts `pages`, `dropped.language`, and every page that was left out.
    """
    with TextExtractor(reading.extraction, counters) as extractor:
        for page in pages:
            counters["pages"] += 1
            text = extractor.text_of(page)
            if text is None:
                continue
            found, kept = identify_document(text, reading.identification, counters)
            if kept != text:
                places = kept_of(text.split(PARAGRAPH_BREAK), kept.split(PARAGRAPH_BREAK))
                page.metadata, text = renumbered(page.metadata, places), kept
            if len(text) < reading.extraction.min_characters:
                counters["dropped.too_short"] += 1  # paragraphs in other languages went
                continue
            if reading.languages is not None and found.language not in reading.languages:
                counters["dropped.language"] += 1
                continue
            yield Document(
                id=document_id(page, shard),
                text=text,
                source=shard.source,
                url=replace_surrogates(page.url, counters),
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


def document_id(page: RawPage, shard: Shard) -> str:
    """The same for a page however its file was cut into byte ranges.

    Pages of a dump's bz2 stream share its offset; their numbers tell them apart.
    """
    name = shard.options.get("file", shard.name)
    number = page.metadata.get("page_id") if page.content_kind == "wikitext" else None
    if number:
        return digest(shard.source, name, page.offset, number)
    return digest(shard.source, name, page.offset)
