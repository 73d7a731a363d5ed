"""One try at a download over HTTP (RFC 9110: ranges, redirects, Retry-After)."""

from __future__ import annotations

import contextlib
import http.client
import re
import string
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Any

from pipelines.sources.fetching import http_watch
from pipelines.sources.fetching.http_watch import (
    Answer,
    Watchdog,
    WatchedHttp,
    WatchedHttps,
    WatchedRequest,
)
from pipelines.sources.fetching.transfer import (
    MAGIC,
    Asker,
    FileInfo,
    Partial,
    TryFailed,
    instead_of,
    seconds_of,
    suffix_of,
)

USER_AGENT = "babelmill/0.1 (reads crawls and dumps for multilingual corpora)"
TIMEOUT_SECONDS = 60.0
MAX_REDIRECTS = 5
COPY_BYTES = 2**20
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by `_open`, which asks the budget for each host."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects, WatchedHttp, WatchedHttps)


def is_http(url: str) -> bool:
    """Whether the address is one for this module."""
    return url[:8].lower().startswith(("http://", "https://"))


def web_address(url: str) -> str:
    """An address as it can be sent: blanks and what is not ASCII are percent-encoded (RFC 3986).

    Control characters are left, to be refused. A host's name is written by IDNA.

    Raises:
        ValueError: it is no address.
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode("ascii")
    if CONTROL.search(url):
        return url
    rest = urllib.parse.quote(
        url[url.index("://") + 3 + len(parts.netloc) :],
        string.punctuation,
        errors="surrogateescape",
    )
    return f"{parts.scheme}://{host}{rest}"


def http_info(url: str, asker: Asker) -> FileInfo:
    """Size and version mark of a file, by a HEAD request.

    Raises:
        TryFailed: no good answer.
    """
    with _open(url, "HEAD", {}, asker) as answer:
        length = answer.headers.get("Content-Length")
        etag = answer.headers.get("ETag")
    size = int(length) if length and length.isdigit() else None
    return FileInfo(size, etag.strip('"') if etag else None)


def http_download(url: str, partial: Partial, asker: Asker) -> None:
    """Bring what is missing of a download.

    A range is asked for when bytes are there already or when only a range is wanted. A server may
    answer with the whole file instead (status 200): then the wanted bytes are cut out of it.

    Raises:
        TryFailed: no good answer, a wrong range, a short body.
    """
    there = partial.there()
    headers = {}
    if partial.start + there > 0 or partial.end is not None:
        last = "" if partial.end is None else partial.end - 1
        headers["Range"] = f"bytes={partial.start + there}-{last}"
        if there and partial.validator is not None:
            headers["If-Range"] = partial.validator
    with _open(url, "GET", headers, asker) as answer:
        moved = "" if answer.url == url else f", redirected to {answer.url}"
        partial.answer = f" (HTTP status {answer.status}{moved})"
        try:
            if answer.status == 206:
                _take_range(answer, partial, there)
            elif answer.status == 200:
                _take_from_whole(answer, partial, url)
            else:
                raise TryFailed(f"unexpected HTTP status {answer.status}", answer.status)
        except TryFailed as failed:
            raise TryFailed(f"{failed.reason}{moved}", failed.status) from failed


def _take_range(answer: Answer, partial: Partial, there: int) -> None:
    first = partial.start + there
    said = answer.headers.get("Content-Range", "")
    found = CONTENT_RANGE.fullmatch(said.strip())
    right = found is not None and int(found[1]) == first
    if found is not None and right:
        total = int(found[3]) if found[3] != "*" else None
        end = partial.end if partial.end is not None else total
        right = end is not None and int(found[2]) == end - 1
    validator = _validator(answer)
    if there and validator is not None and validator != partial.validator:
        right = False  # another version, though If-Range asked for the same
    if not right or found is None:
        partial.forget()
        raise TryFailed(f"wrong range: asked for byte {first} on, got Content-Range {said!r}")
    if not there:
        partial.validator = validator
    with partial.target.open("ab" if there else "wb") as file:
        _copy(answer, file, int(found[2]) - first + 1)


def _take_from_whole(answer: Answer, partial: Partial, url: str) -> None:
    declared = answer.headers.get("Content-Length")
    length = int(declared) if declared and declared.isdigit() else None
    if length is not None and partial.end is not None and length < partial.end:
        raise TryFailed(f"the file has {length} bytes; bytes up to {partial.end} were wanted")
    partial.validator = _validator(answer)
    with partial.target.open("wb") as file:
        if partial.start:
            _skip(answer, partial.start, url)
        wanted = partial.size
        if wanted is None and length is not None:
            wanted = length - partial.start
        _copy(answer, file, wanted)


def _skip(answer: Answer, count: int, url: str) -> None:
    """Read over the beginning of a file, which must be one of its kind."""
    magic = MAGIC.get(suffix_of(url), ())
    start = _read(answer, min(64, count), 0)
    if magic and not any(start[: len(mark)] == mark[: len(start)] for mark in magic):
        raise TryFailed(f"{instead_of(start, url)} (HTTP status {answer.status})")
    count -= len(start)
    while count > 0:
        part = _read(answer, min(COPY_BYTES, count), 0)
        if not part:
            raise TryFailed(f"short body (HTTP status {answer.status})")
        count -= len(part)


def _copy(answer: Answer, file: IO[bytes], wanted: int | None) -> None:
    received = 0
    while wanted is None or received < wanted:
        room = COPY_BYTES if wanted is None else min(COPY_BYTES, wanted - received)
        part = _read(answer, room, received)
        if not part:
            break
        file.write(part)
        received += len(part)
    if wanted is not None and received != wanted:
        raise TryFailed(f"short body: {received} of {wanted} bytes (HTTP status {answer.status})")


def _read(answer: Answer, size: int, received: int) -> bytes:
    try:
        return answer.read(size)
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise TryFailed(
            f"transfer broke off after {received} bytes (HTTP status {answer.status}): {error}"
        ) from error


def _validator(answer: Answer) -> str | None:
    """What If-Range can carry (RFC 9110, section 13.1.5); None if the server takes no ranges."""
    if answer.headers.get("Accept-Ranges", "").strip().lower() == "none":
        return None
    etag = answer.headers.get("ETag")
    if etag and etag.startswith('"'):
        return str(etag)
    modified = answer.headers.get("Last-Modified")
    return str(modified) if modified and not etag else None


def _open(url: str, method: str, headers: dict[str, str], asker: Asker) -> Answer:
    """Ask, and follow redirects; each hop takes a slot of its own host."""
    here = url
    for _ in range(MAX_REDIRECTS + 1):
        moved = "" if here == url else f", redirected to {here}"
        answer_or_next = _ask(here, method, headers, asker, moved)
        if not isinstance(answer_or_next, str):
            return answer_or_next
        here = urllib.parse.urljoin(here, answer_or_next)
        if not is_http(here):
            raise TryFailed(f"redirected to {here}, which is no web address", status=400)
    raise TryFailed(f"more than {MAX_REDIRECTS} redirects, the last to {here}", status=400)


def _ask(url: str, method: str, headers: dict[str, str], asker: Asker, moved: str) -> Answer | str:
    """One request: its answer, or where it redirects to."""
    watchdog = Watchdog(asker.budget.min_bytes_per_second, http_watch.WINDOW_SECONDS)
    try:
        address = web_address(url)
        host = urllib.parse.urlsplit(address).netloc.lower()
        sent = {"User-Agent": USER_AGENT, **headers}
        request = WatchedRequest(address, method, sent, watchdog)
    except ValueError as error:
        raise TryFailed(f"not an address: {error}{moved}", status=400) from error
    asker.wait(host)
    with contextlib.ExitStack() as until_it_failed:
        until_it_failed.callback(watchdog.close)
        try:
            answer: http.client.HTTPResponse = _OPENER.open(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            with error:
                asker.answered(host, error.code, seconds_of(error.headers.get("Retry-After")))
                target = error.headers.get("Location")
            if error.code in (301, 302, 303, 307, 308) and target:
                return str(target)
            raise TryFailed(f"HTTP status {error.code}{moved}", error.code) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            if isinstance(error, ValueError | http.client.InvalidURL) and not watchdog.tripped:
                raise TryFailed(f"not an address: {error}{moved}", status=400) from error
            asker.answered(host, None)
            reason = watchdog.tripped or f"no answer: {getattr(error, 'reason', error)}"
            raise TryFailed(f"{reason}{moved}") from error
        watchdog.headers_came()
        if watchdog.tripped:  # headers that break off look as if they had ended
            answer.close()
            asker.answered(host, None)
            raise TryFailed(f"{watchdog.tripped}{moved}")
        asker.answered(host, answer.status)
        until_it_failed.pop_all()
        return Answer(answer, watchdog)
