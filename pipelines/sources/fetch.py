"""Bring a file of a server to the local disk: whole and right, or an error that names the URL.

Retries are bounded, with growing pauses (RFC 9110: Retry-After is obeyed). A short body, or a page
of HTML or XML where an archive should be, is a failed try: it is never handed on.
"""

from __future__ import annotations

import email.utils
import http.client
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import fsspec

from pipelines.core.hashing import stable_fraction
from pipelines.core.store import local_file

USER_AGENT = "babelmill/0.1 (reads crawls and dumps for multilingual corpora)"
MAGIC = {".gz": b"\x1f\x8b", ".bz2": b"BZh"}
PERMANENT = frozenset({400, 401, 404, 405, 410})
REFUSED_TRIES = 2
"""Tries on 403: a crawl server answers so to a client that asks too fast, but not for ever."""
TIMEOUT_SECONDS = 60.0

T = TypeVar("T")


class FetchError(OSError):
    """A file could not be fetched; the message names the URL and the last answer."""

    def __init__(self, url: str, reason: str, status: int | None = None) -> None:
        self.url, self.reason, self.status = url, reason, status
        super().__init__(f"{url}: {reason}")


@dataclass(frozen=True)
class Retries:
    """How often and how patiently a file is asked for."""

    tries: int = 6
    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 60.0

    def pause(self, url: str, attempt: int, asked: float | None) -> float:
        """Seconds to wait after a failed try (1, 2, ...); never less than the server asked for.

        Doubles each time; the jitter depends on the URL, so that many readers spread out.
        """
        grown = self.first_pause_seconds * 2.0 ** (attempt - 1)
        grown *= 1.0 + 0.5 * stable_fraction("pause", url, attempt)
        return max(min(grown, self.longest_pause_seconds), asked or 0.0)


@dataclass(frozen=True)
class FileInfo:
    """What a server says of a file."""

    size: int | None
    etag: str | None


class _TryFailed(Exception):
    def __init__(
        self, reason: str, status: int | None = None, retry_after: float | None = None
    ) -> None:
        self.reason, self.status, self.retry_after = reason, status, retry_after
        super().__init__(reason)


def fetch(url: str, target: Path, retries: Retries = Retries()) -> None:
    """Download `url` (http, https, s3, gs, file, a plain path) to the local file `target`.

    Raises:
        FetchError: after the last try; `target` is not there then.
    """
    suffix = Path(url.split("?")[0]).suffix

    def once() -> None:
        _download(url, target)
        _check_magic(target, suffix, "HTTP status 200, but " if _is_http(url) else "")

    try:
        _with_retries(url, retries, once)
    except FetchError:
        target.unlink(missing_ok=True)
        raise


def read_url(url: str, retries: Retries = Retries()) -> bytes:
    """Read a small file whole (a list of paths, a status file); see `fetch`."""
    with local_file(Path(url.split("?")[0]).suffix) as path:
        fetch(url, path, retries)
        return path.read_bytes()


def file_info(url: str, retries: Retries = Retries()) -> FileInfo:
    """Ask for a file's size and version mark without reading it.

    Raises:
        FetchError: there is no such file, or the server does not answer.
    """
    return _with_retries(url, retries, lambda: _http_info(url) if _is_http(url) else _info(url))


def _with_retries(url: str, retries: Retries, action: Callable[[], T]) -> T:
    attempt = 0
    while True:
        attempt += 1
        try:
            return action()
        except _TryFailed as failed:
            if (
                failed.status in PERMANENT
                or attempt >= retries.tries
                or (failed.status == 403 and attempt >= REFUSED_TRIES)
            ):
                plural = "try" if attempt == 1 else "tries"
                reason = f"{failed.reason} (after {attempt} {plural})"
                raise FetchError(url, reason, failed.status) from failed
            time.sleep(retries.pause(url, attempt, failed.retry_after))


def _is_http(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _open(url: str, method: str) -> http.client.HTTPResponse:
    try:
        request = urllib.request.Request(url, method=method, headers={"User-Agent": USER_AGENT})
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
        return answer
    except urllib.error.HTTPError as error:
        asked = _seconds(error.headers.get("Retry-After")) if error.code in (429, 503) else None
        error.close()
        raise _TryFailed(f"HTTP status {error.code}", error.code, asked) from error
    except ValueError as error:
        raise _TryFailed(f"not an address: {error}", status=400) from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise _TryFailed(f"no answer: {getattr(error, 'reason', error)}") from error


def _seconds(retry_after: str | None) -> float | None:
    """Read Retry-After: a number of seconds or an HTTP date (RFC 9110, section 10.2.3)."""
    if retry_after is None:
        return None
    if re.fullmatch(r"\d+", retry_after.strip()):
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None


def _download(url: str, target: Path) -> None:
    if not _is_http(url):
        _copy(url, target)
        return
    with _open(url, "GET") as answer, target.open("wb") as file:
        length = answer.headers.get("Content-Length")
        try:
            shutil.copyfileobj(answer, file, 2**20)
        except (http.client.HTTPException, OSError) as error:
            raise _TryFailed(f"transfer broke off after {file.tell()} bytes: {error}") from error
        received = file.tell()
        if length is not None and received != int(length):
            raise _TryFailed(
                f"short body: {received} of {length} bytes (HTTP status {answer.status})"
            )


def _copy(url: str, target: Path) -> None:
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        expected = filesystem.info(path).get("size")
        filesystem.get_file(path, str(target))
    except FileNotFoundError as error:
        raise _TryFailed("no such file", status=404) from error
    except PermissionError as error:
        raise _TryFailed(f"refused: {error}", status=403) from error
    except (ValueError, ImportError) as error:  # an address or a driver that cannot work
        raise _TryFailed(str(error), status=400) from error
    except Exception as error:  # a storage library's own error: it may pass
        raise _TryFailed(f"{type(error).__name__}: {error}") from error
    received = target.stat().st_size
    if expected is not None and received != expected:
        raise _TryFailed(f"short copy: {received} of {expected} bytes")


def _check_magic(path: Path, suffix: str, answer: str) -> None:
    magic = MAGIC.get(suffix)
    if magic is None:
        return
    with path.open("rb") as file:
        start = file.read(64)
    if not start.startswith(magic):
        kind = "a page of markup" if start.lstrip()[:1] == b"<" else f"bytes {start[:8]!r}"
        raise _TryFailed(f"{answer}{kind} instead of a {suffix} file")


def _http_info(url: str) -> FileInfo:
    with _open(url, "HEAD") as answer:
        length = answer.headers.get("Content-Length")
        etag = answer.headers.get("ETag")
    return FileInfo(int(length) if length else None, etag.strip('"') if etag else None)


def _info(url: str) -> FileInfo:
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        info = filesystem.info(path)
    except FileNotFoundError as error:
        raise _TryFailed("no such file", status=404) from error
    except (ValueError, ImportError) as error:  # an address or a driver that cannot work
        raise _TryFailed(str(error), status=400) from error
    except Exception as error:  # a storage library's own error: it may pass
        raise _TryFailed(f"{type(error).__name__}: {error}") from error
    etag = info.get("ETag") or info.get("etag") or info.get("md5Hash")
    return FileInfo(info.get("size"), str(etag).strip('"') if etag else None)
