"""Wikipedia's article dumps: which files a dump has, and the pages in them.

Layout: https://dumps.wikimedia.org/WIKIwiki/DATE/ with dumpstatus.json; the XML format is
https://www.mediawiki.org/wiki/Help:Export. A multistream dump is many bz2 streams in one file.
"""

from __future__ import annotations

import bz2
import json
import re
import urllib.parse
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.config import WikipediaSource
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import RawPage
from pipelines.sources.fetch import FetchError, file_info, read_url
from pipelines.sources.wikitext import is_disambiguation

JOBS = ("articlesmultistreamdump", "articlesdump")
ARTICLES = re.compile(r"-pages-articles(-multistream)?\d*\.xml(-p\d+p\d+)?\.bz2$")
CHUNK_BYTES = 2**18
HIDDEN_NAMESPACES = {"-2", "6", "14"}
"""Media, File, Category: their links show no running text."""


class Wikipedia:
    """Source `wikipedia`."""

    def list_shards(self, config: WikipediaSource, server: str) -> list[Shard]:
        """The article files of each wiki, in the configuration's order."""
        return [shard for wiki in config.wikis for shard in _list_wiki(config, wiki, server)]

    def read_pages(
        self, path: Path, shard: Shard, counters: Counters, notes: list[str], max_page_bytes: int
    ) -> Iterator[RawPage]:
        """Articles of a dump file (namespace 0, no redirects, no disambiguation pages).

        Counts `records` and `dropped.{namespace,redirect,disambiguation,page_too_large}`; a cut or
        damaged file is counted as `dropped.truncated_dump` and noted.
        """
        stream = _Bz2Streams(path, shard.name, counters, notes)
        base, namespaces = "", frozenset[str]()
        wiki = shard.options.get("wiki", "")
        root: ElementTree.Element | None = None
        number = 0
        try:
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):
                if root is None:
                    root = element
                tag = element.tag.rpartition("}")[2]
                if event == "start" or tag not in ("siteinfo", "page"):
                    continue
                if tag == "siteinfo":
                    base, namespaces = _site(element)
                    continue
                counters["records"] += 1
                number += 1
                page = _page(element, counters, max_page_bytes)
                root.clear()  # else the whole dump stays in memory
                if page is not None:
                    page.offset = number - 1
                    page.url = base + urllib.parse.quote((page.title or "").replace(" ", "_"))
                    page.namespaces = namespaces
                    page.metadata["wiki"] = wiki
                    yield page
        except ElementTree.ParseError as error:
            counters["dropped.truncated_dump"] += 1
            notes.append(f"{shard.name}: the XML ends or breaks after {number} page(s): {error}")
        finally:
            stream.close()


def _list_wiki(config: WikipediaSource, wiki: str, server: str) -> list[Shard]:
    database = wiki.replace("-", "_") + "wiki"
    folder = f"{database}/{config.date}"
    files = {} if config.date == "latest" else _dump_files(server, folder)
    if not files:
        name = f"{database}-{config.date}-pages-articles-multistream.xml.bz2"
        files = {name: {}}
    shards = []
    for name, listed in files.items():
        url = f"{server}/{folder}/{name}"
        info = file_info(url)
        size, checksum = listed.get("size", info.size), listed.get("sha1")
        if info.size is not None and size != info.size:
            raise ConfigError(
                f"{url} has {info.size} bytes and its dumpstatus.json says {size}: the mirror is "
                "not complete; wait, or choose another date"
            )
        shards.append(
            Shard(
                name=f"{folder}/{name}",
                url=url,
                source="wikipedia",
                kind=config.kind,
                size=size,
                etag=f"sha1:{checksum}" if checksum else info.etag,
                date=None if config.date == "latest" else config.date,
                options={"wiki": database},
            )
        )
    return shards


def _dump_files(server: str, folder: str) -> dict[str, dict[str, Any]]:
    """Article files by name with size and sha1, as dumpstatus.json lists them; {} without one."""
    url = f"{server}/{folder}/dumpstatus.json"
    try:
        jobs = _article_jobs(json.loads(read_url(url)))
    except FetchError as error:
        if error.status == 404:
            return {}
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{url} is not a dump status: {error!r}") from error
    for status, files in jobs.values():
        if status == "done" and files:
            return files
    states = {job: status for job, (status, _) in jobs.items()}
    raise ConfigError(f"{url}: the dump of articles is not done ({states}); choose another date")


def _article_jobs(status: Any) -> dict[str, tuple[str, dict[str, dict[str, Any]]]]:
    """State and article files of the jobs that dump articles, in the order of preference."""
    jobs = {}
    for name in JOBS:
        job = status["jobs"].get(name, {})
        files = {file: dict(known) for file, known in job.get("files", {}).items()}
        articles = {file: known for file, known in files.items() if ARTICLES.search(file)}
        jobs[name] = (job.get("status", "absent"), articles)
    return jobs


class _Bz2Streams:
    """All bz2 streams of a file, one after the other, as one readable stream."""

    def __init__(self, path: Path, name: str, counters: Counters, notes: list[str]) -> None:
        self._file = path.open("rb")
        self._size = path.stat().st_size
        self._name, self._counters, self._notes = name, counters, notes
        self._unpacker = bz2.BZ2Decompressor()
        self._pending = b""
        self._streams = 0
        self._fresh = True  # nothing of the current stream was fed yet
        self._over = False

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """Some of the unpacked bytes, at most `size`; b"" at the end."""
        while not self._over:
            if self._unpacker.eof:
                self._pending = self._unpacker.unused_data
                self._unpacker, self._fresh = bz2.BZ2Decompressor(), True
                self._streams += 1
            feed = b""
            if self._unpacker.needs_input:
                feed = self._pending or self._file.read(CHUNK_BYTES)
                self._pending = b""
                if not feed:
                    self._end()
                    return b""
            was_fresh, self._fresh = self._fresh, False
            try:
                content = self._unpacker.decompress(feed, max_length=max(size, 1))
            except OSError as error:
                self._break(feed, was_fresh, error)
                return b""
            if content:
                return content
        return b""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _end(self) -> None:
        self._over = True
        if not self._fresh:
            self._counters["dropped.truncated_stream"] += 1
            self._notes.append(f"{self._name}: bz2 stream {self._streams + 1} is cut off")

    def _break(self, feed: bytes, was_fresh: bool, error: OSError) -> None:
        self._over = True
        lost = self._size - self._file.tell() + len(feed)
        self._counters["bytes_lost"] += lost
        if was_fresh and self._streams:
            what = f"no bz2 stream in the last {lost} bytes, after stream {self._streams}"
        else:
            self._counters["dropped.damaged_stream"] += 1
            what = f"bz2 stream {self._streams + 1} is damaged ({error}); {lost} bytes lost"
        self._notes.append(f"{self._name}: {what}")


def _site(element: ElementTree.Element) -> tuple[str, frozenset[str]]:
    """Address prefix of the articles, and the names of the namespaces that show no text."""
    base, names = "", set()
    for child in element.iter():
        tag = child.tag.rpartition("}")[2]
        if tag == "base" and child.text:
            base = child.text.rpartition("/")[0] + "/"
        elif tag == "namespace" and child.get("key") in HIDDEN_NAMESPACES and child.text:
            names.add(child.text.lower())
    return base, frozenset(names)


def _page(element: ElementTree.Element, counters: Counters, max_page_bytes: int) -> RawPage | None:
    fields: dict[str, str] = {}
    for child in element.iter():
        # The first of a name is the page's own: a revision and its contributor have ids as well.
        fields.setdefault(child.tag.rpartition("}")[2], child.text or "")
    text = fields.get("text", "")
    reason = None
    if fields.get("ns", "0") != "0":
        reason = "namespace"
    elif "redirect" in fields or text[:200].lstrip().lower().startswith("#redirect"):
        reason = "redirect"
    elif is_disambiguation(text):
        reason = "disambiguation"
    content = text.encode("utf-8")
    if reason is None and len(content) > max_page_bytes:
        reason = "page_too_large"
    if reason is not None:
        counters[f"dropped.{reason}"] += 1
        return None
    return RawPage(
        url="",
        offset=0,
        content=content,
        content_kind="wikitext",
        title=fields.get("title"),
        date=fields.get("timestamp"),
        metadata={"page_id": fields.get("id", "")},
    )
