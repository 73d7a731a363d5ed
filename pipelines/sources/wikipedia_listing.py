"""Which files a Wikipedia dump has, and how large ones are cut into ranges.

Layout: https://dumps.wikimedia.org/WIKIwiki/DATE/ with dumpstatus.json. The index of a multistream
file holds a line `offset:page_id:title` for each page; the offset is the byte where the page's bz2
stream begins (https://meta.wikimedia.org/wiki/Data_dumps/Dump_format).
"""

from __future__ import annotations

import bz2
import json
import re
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.config import WikipediaSource
from pipelines.core.config import ConfigError
from pipelines.core.records import Shard
from pipelines.sources.dump_pages import Site, parse_site, read_blocks
from pipelines.sources.fetching.fetch import FetchError, fetch, file_info, read_url
from pipelines.sources.multistream import DumpFile

JOBS = ("articlesmultistreamdump", "articlesdump")
ARTICLES = re.compile(r"-pages-articles(-multistream)?\d*\.xml(-p\d+p\d+)?\.bz2$")
DATED = re.compile(r"-(\d{8})-pages-articles")
CODES = {
    "be-tarask": "be_x_old",
    "cmn": "zh",
    "gsw": "als",
    "lzh": "zh_classical",
    "nan": "zh_min_nan",
    "nb": "no",
    "rup": "roa_rup",
    "sgs": "bat_smg",
    "vro": "fiu_vro",
    "yue": "zh_yue",
}
"""Language tags whose Wikipedia has another code, of history's making."""


@dataclass(frozen=True)
class Listed:
    """A file as dumpstatus.json lists it."""

    name: str
    size: int | None = None
    sha1: str | None = None


def database_of(wiki: str) -> str:
    """The database's name of a Wikipedia by its code or language tag: "zh_yue" is zh_yuewiki."""
    return CODES.get(wiki.lower(), wiki).replace("-", "_") + "wiki"


def list_wiki(config: WikipediaSource, wiki: str, server: str) -> list[Shard]:
    """Shards of one wiki: its article files, large multistream files cut into ranges.

    "latest" is resolved to the date of the newest whole dump where the server says it (in
    latest/…-sha1sums.txt), so that files have the names and check sums of their date.

    Raises:
        ConfigError: the dump is not done, the list is none, or a file has another size than listed.
        FetchError: the server does not answer, or has no such dump.
    """
    database = database_of(wiki)
    date = config.date
    if date == "latest":
        date = _latest_date(server, database) or date
    folder = f"{database}/{date}"
    files, indexes = ([], {}) if date == "latest" else _dump_files(server, folder)
    if not files:
        files = [Listed(f"{database}-{date}-pages-articles-multistream.xml.bz2")]
    shards: list[Shard] = []
    for listed in files:
        shard = _file_shard(config, server, folder, listed, database, date)
        index = indexes.get(_index_name(listed.name))
        large = (shard.size or 0) > config.range_megabytes * 1_000_000
        if large and index is not None:
            shards += _range_shards(shard, f"{server}/{folder}/{index}", config.range_megabytes)
        else:
            shards.append(shard)
    return shards


def _file_shard(
    config: WikipediaSource, server: str, folder: str, listed: Listed, database: str, date: str
) -> Shard:
    url = f"{server}/{folder}/{listed.name}"
    info = file_info(url)
    size = listed.size if listed.size is not None else info.size
    if info.size is not None and size != info.size:
        raise ConfigError(
            f"{url} has {info.size} bytes and its dumpstatus.json says {size}: the mirror is "
            "not complete; wait, or choose another date"
        )
    return Shard(
        name=f"{folder}/{listed.name}",
        url=url,
        source="wikipedia",
        kind=config.kind,
        size=size,
        etag=f"sha1:{listed.sha1}" if listed.sha1 else info.etag,
        date=None if date == "latest" else date,
        options={"wiki": database},
    )


def _range_shards(shard: Shard, index_url: str, range_megabytes: int) -> list[Shard]:
    """Cut a multistream file along its streams; the parts cover all its bytes.

    A part's check is its size and bz2's own check sums: the file's SHA-1 says nothing of a part,
    but stays in what identifies it.
    """
    size = shard.size or 0
    offsets = _stream_offsets(index_url)
    if not offsets or offsets[-1] >= size:
        last = offsets[-1] if offsets else "no line"
        raise ConfigError(
            f"{index_url} is not the index of {shard.url}: {size} bytes, and its last stream "
            f"begins at {last}"
        )
    site = _read_site(shard.url, offsets[0])
    parts = []
    for start, end in cut_ranges(offsets, size, range_megabytes * 1_000_000):
        parts.append(
            Shard(
                name=f"{shard.name}#{start}-{end}",
                url=shard.url,
                source=shard.source,
                kind=shard.kind,
                size=end - start,
                etag=f"part of {shard.etag}" if shard.etag else None,
                date=shard.date,
                options={
                    **shard.options,
                    "file": shard.name,
                    "file_size": str(size),
                    "start": str(start),
                    "end": str(end),
                    "site": site.to_json(),
                },
            )
        )
    return parts


def cut_ranges(offsets: Iterable[int], size: int, range_bytes: int) -> list[tuple[int, int]]:
    """Ranges [start, end) of whole streams, each as soon as it has `range_bytes`.

    The first begins at byte 0 with the stream of the siteinfo, the last ends with the file.
    """
    bounds = [0]
    for offset in sorted(set(offsets)):
        if offset - bounds[-1] >= range_bytes:
            bounds.append(offset)
    return list(zip(bounds, [*bounds[1:], size], strict=True))


def _stream_offsets(url: str) -> list[int]:
    """Where the streams of pages begin, as the index says."""
    offsets: list[int] = []
    known = b""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index.txt.bz2")
        fetch(url, path)
        try:
            with bz2.open(path) as lines:
                for line in lines:
                    offset = line.partition(b":")[0]
                    if offset != known:
                        known = offset
                        offsets.append(int(offset))
        except (OSError, EOFError, ValueError) as error:
            raise ConfigError(f"{url} is not the index of a dump: {error}") from error
    return sorted(set(offsets))


def _read_site(url: str, end: int) -> Site:
    """Namespaces and base address, from the stream before the first page's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "head.xml.bz2")
        fetch(url, path, byte_range=(0, end))
        head = DumpFile(path, url, Counter(), [])
        try:
            for block in read_blocks(head.pieces(), max_block_bytes=0):
                if block.kind == "site":
                    return parse_site(block.content)
        except ElementTree.ParseError as error:
            raise ConfigError(f"{url}: the siteinfo does not read: {error}") from error
    raise ConfigError(f"{url}: no siteinfo in the first {end} bytes, before the first page")


def _latest_date(server: str, database: str) -> str | None:
    url = f"{server}/{database}/latest/{database}-latest-sha1sums.txt"
    try:
        dates = DATED.findall(read_url(url).decode("utf-8", errors="replace"))
    except FetchError as error:
        if error.status == 404:
            return None
        raise
    return max(dates, default=None)


def _dump_files(server: str, folder: str) -> tuple[list[Listed], dict[str, str]]:
    """(article files, the indexes there are by name), as dumpstatus.json lists them; none without
    that file."""
    url = f"{server}/{folder}/dumpstatus.json"
    try:
        jobs = _article_jobs(json.loads(read_url(url)))
    except FetchError as error:
        if error.status == 404:
            return [], {}
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{url} is not a dump status: {error!r}") from error
    for status, files, indexes in jobs.values():
        if status == "done" and files:
            return files, indexes
    states = {job: status for job, (status, _, _) in jobs.items()}
    raise ConfigError(f"{url}: the dump of articles is not done ({states}); choose another date")


def _article_jobs(status: Any) -> dict[str, tuple[str, list[Listed], dict[str, str]]]:
    """State, article files and indexes of the jobs that dump articles, by preference."""
    jobs = {}
    for name in JOBS:
        job = status["jobs"].get(name, {})
        files = job.get("files", {})
        articles = [
            Listed(file, known.get("size"), known.get("sha1"))
            for file, known in files.items()
            if ARTICLES.search(file)
        ]
        indexes = {file: file for file in files if "-multistream-index" in file}
        jobs[name] = (job.get("status", "absent"), articles, indexes)
    return jobs


def _index_name(name: str) -> str:
    """X-multistream1.xml-p1p2.bz2 has the index X-multistream-index1.txt-p1p2.bz2."""
    return name.replace("-multistream", "-multistream-index").replace(".xml", ".txt")
