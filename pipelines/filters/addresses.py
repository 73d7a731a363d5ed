"""Filters on where a page comes from: URL blocklist, and the owner's opt-out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from urllib.parse import unquote, urlsplit

import fsspec
import idna

from pipelines.config import RobotsFilter, UrlBlocklistFilter
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.core.records import Document
from pipelines.filters.base import Reason

NO_LETTER_OR_DIGIT = re.compile(r"[\W_]+")
HOSTS_FILE = re.compile(r"^(?:0\.0\.0\.0|127\.0\.0\.1|::1?)\s+")
WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview"})
"""Directives that carry a value after a colon; before any other colon stands a crawler's name."""


def normal_host(host: str) -> str:
    """A host in its one form: punycode (IDNA 2008 with UTS #46 mapping), lower case, no last dot.

    A host that is no name under these rules is lower-cased and otherwise kept.
    """
    host = host.strip().rstrip(".").lower()
    if host.isascii() and "xn--" not in host:
        return host
    try:
        return str(idna.encode(host, uts46=True).decode("ascii"))
    except UnicodeError:  # idna.IDNAError is one
        return host


@cache
def read_list(path: str, sha256: str) -> tuple[str, ...]:
    """Entries of a list of domains or words: one a line, `#` comments, hosts files too.

    Raises:
        ConfigError: the file cannot be read, is not the one of that checksum, or is not UTF-8.
    """
    try:
        with fsspec.open(path, "rb") as file:
            content = bytes(file.read())
    except Exception as error:  # any driver's own error: report it as what it means here
        raise ConfigError(
            f"filters: url_blocklist: {path!r} cannot be read: {type(error).__name__}: {error}"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ConfigError(
            f"filters: url_blocklist: {path!r} has sha256 {found}, but the setting says {sha256}"
        )
    return tuple(_entries(content, path))


def _entries(content: bytes, path: str) -> Iterator[str]:
    codec = fsspec.utils.infer_compression(path)
    try:
        if codec is not None:
            import io

            with fsspec.compression.compr[codec](io.BytesIO(content), mode="rb") as file:
                content = file.read()
        text = content.decode("utf-8")
    except Exception as error:  # each codec has its own
        raise ConfigError(
            f"filters: url_blocklist: {path!r} is no UTF-8 list"
            f"{f' compressed with {codec}' if codec else ''}: {error}"
        ) from error
    for line in text.splitlines():
        entry = HOSTS_FILE.sub("", line.partition("#")[0].strip())
        if entry:
            yield entry


@cache
def _blocked(
    domains: tuple[str, ...], words: tuple[str, ...], files: tuple[str | None, ...]
) -> tuple[frozenset[str], frozenset[str]]:
    domains_file, domains_sha256, words_file, words_sha256 = files
    if domains_file and domains_sha256:
        domains += read_list(domains_file, domains_sha256)
    if words_file and words_sha256:
        words += read_list(words_file, words_sha256)
    hosts = frozenset(normal_host(d.removeprefix("*.").removeprefix(".")) for d in domains)
    return hosts - {""}, frozenset(word.casefold() for word in words)


def host_of(url: str) -> str:
    """The host of a URL in its one form; empty where there is none."""
    try:
        return normal_host(urlsplit(url).hostname or "")
    except ValueError:  # a bracket without its partner, for example
        return ""


def words_of_url(url: str) -> set[str]:
    """The words of an address, case-folded, percent-encoding resolved."""
    return set(NO_LETTER_OR_DIGIT.split(unquote(url).casefold())) - {""}


def blocked_address(
    document: Document, config: UrlBlocklistFilter, count: Counters
) -> Reason | None:
    """Drop a page whose host, or a host above it, is listed, or whose URL holds a listed word.

    Raises:
        ConfigError: a list cannot be read or is another file; before the first document.
    """
    files = (
        config.domains_file,
        config.domains_sha256,
        config.words_file,
        config.words_sha256,
    )
    domains, words = _blocked(tuple(config.domains), tuple(config.words), files)
    if domains:
        host = host_of(document.url)
        above = host
        while above:
            if above in domains:
                return Reason("blocked_domain", f"{host} is {above} or below it")
            above = above.partition(".")[2]
    if words:
        found = sorted(words & words_of_url(document.url))
        if found:
            return Reason("blocked_word_in_url", f"the address holds {found[0]!r}")
    return None


def directives_of(robots: str, agents: frozenset[str]) -> set[str]:
    """The robots directives that a value holds, lower-case, `none` resolved.

    A crawler's name counts for the directive right after it alone. Values of several headers and
    elements come joined, so what follows may be for everybody, and an owner's no is not lost.

    Args:
        robots: values of meta elements and X-Robots-Tag headers, separated by commas.
        agents: crawlers whose own directives count; those for others do not.
    """
    found: set[str] = set()
    for part in robots.lower().replace(";", ",").replace("\n", ",").split(","):
        name, colon, rest = (piece.strip() for piece in part.partition(":"))
        if colon and name not in WITH_VALUE:
            mine = name in agents or name in ("*", "robots")
            name = rest.partition(":")[0].strip() if mine else ""
        if name:
            found.add(name)
    return found | {"noindex", "nofollow"} if "none" in found else found


def opted_out(document: Document, config: RobotsFilter, count: Counters) -> Reason | None:
    """Drop a page that carries one of the listed directives in its metadata `robots`.

    Sources: the robots meta element and X-Robots-Tag as Google documents them; noai and noimageai
    as DeviantArt introduced them in 2022.
    """
    robots = document.metadata.get("robots")
    if not robots:
        return None
    agents = frozenset(agent.lower() for agent in config.agents)
    found = directives_of(robots, agents) & {name.lower() for name in config.directives}
    return Reason("opted_out", f"robots: {', '.join(sorted(found))}") if found else None
