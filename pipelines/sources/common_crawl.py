"""Common Crawl: the list of a snapshot's files, and the pages in them.

Layout: https://commoncrawl.org/get-started (crawl-data/SNAPSHOT/{warc,wet}.paths.gz).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pipelines.config import CommonCrawlSource
from pipelines.core.config import ConfigError
from pipelines.core.hashing import stable_uint64
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.archives.warc_records import MAX_MEMBER_BYTES
from pipelines.sources.base import RawPage
from pipelines.sources.fetching.fetch import read_url
from pipelines.sources.warc import read_warc_pages, read_wet_pages

GZIP_MAGIC = b"\x1f\x8b"
MAX_LIST_BYTES = 2**28
"""A list of 90,000 paths has 13 MB."""
SNAPSHOT = re.compile(r"(?:^|/)crawl-data/(CC-[A-Z]+(?:-\d{4}-\d{2})?)/")
FORMAT_ENDINGS = {
    ".wet": "wet",
    ".wat": "wat",
    ".warc": "warc",
    ".parquet": "index",
    ".cdx": "index",
    ".arc": "ARC",
}
PACKED = re.compile(r"\.(?:gz|zst|lz4)$")


class CommonCrawl:
    """Source `common_crawl`."""

    downloads = True

    def list_shards(self, config: CommonCrawlSource, server: str) -> list[Shard]:
        """The files of a list, or a choice of them, in its order; see `Source.list_shards`.

        The files themselves are not asked for: a snapshot has 90,000, and once published they do
        not change. A file's path is its identity, so shards have neither size nor etag.

        Lines are paths below `server`, or whole addresses.
        """
        url = config.paths or f"{server}/crawl-data/{config.snapshot}/{config.format}.paths.gz"
        paths = read_list(read_url(url), url)
        wrong = next((path for path in paths if format_of(path) not in (None, config.format)), None)
        if wrong is not None:
            kind = format_of(wrong)
            right = f'set format = "{kind}"' if kind in ("warc", "wet") else "they hold no pages"
            raise ConfigError(
                f"{url} lists {kind} files ({wrong}), and format = {config.format!r}: {right}"
            )
        chosen = choose(paths, config.max_shards, config.sample_seed)
        return [_shard(line, config, server) for line in chosen]

    def read_pages(
        self,
        path: Path,
        shard: Shard,
        counters: Counters,
        notes: list[str],
        max_page_bytes: int,
        max_member_bytes: int = MAX_MEMBER_BYTES,
    ) -> Iterator[RawPage]:
        """Pages of a WARC or WET file; see `Source.read_pages`."""
        read = {"warc": read_warc_pages, "wet": read_wet_pages}[shard.options["format"]]
        return read(path, shard.name, counters, notes, max_page_bytes, max_member_bytes)


def read_list(content: bytes, url: str) -> list[str]:
    """The lines of a list of paths, gzipped or plain, each once.

    Raises:
        ConfigError: it is no such list, or an empty one.
    """
    try:
        text = (_unpack(content) if content.startswith(GZIP_MAGIC) else content).decode("utf-8")
    except (zlib.error, EOFError, UnicodeDecodeError) as error:
        raise ConfigError(f"{url} is not a list of paths, gzipped or plain: {error}") from error
    if text.lstrip().startswith("<"):
        raise ConfigError(f"{url} is a page of markup, not a list of paths")
    paths = list(dict.fromkeys(line for part in text.split("\n") if (line := part.strip())))
    if not paths:
        raise ConfigError(f"{url} lists no file; choose a snapshot that has some")
    return paths


def _unpack(content: bytes) -> bytes:
    parts, size = [], 0
    while content.startswith(GZIP_MAGIC):
        unpacker = zlib.decompressobj(wbits=31)
        parts.append(unpacker.decompress(content, MAX_LIST_BYTES + 1 - size))
        size += len(parts[-1])
        if size > MAX_LIST_BYTES:
            raise EOFError(f"it unpacks to more than {MAX_LIST_BYTES} bytes")
        if not unpacker.eof:
            raise EOFError("it is cut off")
        content = unpacker.unused_data
    return b"".join(parts)


def choose(paths: Sequence[str], count: int | None, seed: int | None) -> list[str]:
    """Choose `count` paths, in the order of the list: the first, or with a seed any.

    With a seed the paths with the smallest hash of (seed, path) are taken, so a larger count keeps
    the smaller choice, and a path is judged the same in every list.
    """
    if count is None or count >= len(paths):
        return list(paths)
    if seed is None:
        return list(paths[:count])
    ranked = sorted(paths, key=lambda path: (stable_uint64("sample", seed, path), path))
    kept = set(ranked[:count])
    return [path for path in paths if path in kept]


def format_of(path: str) -> str | None:
    """What a path's ending says (a value of FORMAT_ENDINGS); None if it says nothing."""
    stem = PACKED.sub("", path.split("?")[0])
    return next((kind for ending, kind in FORMAT_ENDINGS.items() if stem.endswith(ending)), None)


def _shard(line: str, config: CommonCrawlSource, server: str) -> Shard:
    """A line's shard. Its name is the path without the address, the same on every mirror."""
    whole = "://" in line
    name = (urlsplit(line).path if whole else line).lstrip("/")
    snapshot = SNAPSHOT.search(name)
    return Shard(
        name=name,
        url=line if whole else f"{server}/{name}",
        source="commoncrawl",
        kind=config.kind,
        date=config.snapshot or (snapshot[1] if snapshot else None),
        options={"format": config.format},
    )
