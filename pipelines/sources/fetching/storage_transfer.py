"""One try at a download from object storage or a folder, through fsspec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial as partial_call
from typing import Any, TypeVar

import fsspec

from pipelines.sources.fetching.transfer import Asker, FileInfo, Partial, TryFailed, seconds_of

S3_OPTIONS = {"config_kwargs": {"retries": {"total_max_attempts": 1}}}
"""The library's own quick retries would not know of the job's budget: it makes one try."""
RANGE_BYTES = 2**25
"""A range is read in requests of so many bytes, for each is held in memory."""
LOCAL = frozenset({"file", "local", "memory"})

T = TypeVar("T")


def storage_info(url: str, asker: Asker) -> FileInfo:
    """Size and version mark of a file.

    Raises:
        TryFailed: there is none, or the storage does not answer.
    """
    filesystem, path, host = _open(url)
    info = _ask(asker, host, lambda: filesystem.info(path))
    etag = info.get("ETag") or info.get("etag") or info.get("md5Hash")
    return FileInfo(info.get("size"), str(etag).strip('"') if etag else None)


def storage_download(url: str, partial: Partial, asker: Asker) -> None:
    """Bring a file, or a range of it; a broken transfer begins anew.

    Raises:
        TryFailed: there is no such file, it is shorter than the range, or the copy is short.
    """
    filesystem, path, host = _open(url)
    partial.forget()
    size = _ask(asker, host, lambda: filesystem.info(path)).get("size")
    if partial.end is None and partial.start == 0:
        _ask(asker, host, lambda: filesystem.get_file(path, str(partial.target)))
        wanted = size
    else:
        end = size if partial.end is None else partial.end
        if end is None or (size is not None and size < end):
            raise TryFailed(f"the file has {size} bytes; bytes up to {end} were wanted", status=416)
        wanted = end - partial.start
        with partial.target.open("wb") as file:
            for start in range(partial.start, end, RANGE_BYTES):
                stop = min(start + RANGE_BYTES, end)
                read = partial_call(filesystem.cat_file, path, start=start, end=stop)
                file.write(_ask(asker, host, read))
    received = partial.target.stat().st_size
    if wanted is not None and received != wanted:
        raise TryFailed(f"short copy: {received} of {wanted} bytes")


def _open(url: str) -> tuple[Any, str, str | None]:
    """(filesystem, path, the host that the budget is asked for; None for this machine's own)."""
    protocol = url.partition("://")[0] if "://" in url else "file"
    try:
        options = S3_OPTIONS if protocol in ("s3", "s3a") else {}
        filesystem, path = fsspec.core.url_to_fs(url, **options)
    except (ValueError, ImportError) as error:  # an address or a driver that cannot work
        raise TryFailed(str(error), status=400) from error
    if hasattr(filesystem, "retries"):
        filesystem.retries = 1
    host = None if protocol in LOCAL else f"{protocol}://{path.split('/')[0]}"
    return filesystem, str(path), host


def _ask(asker: Asker, host: str | None, action: Callable[[], T]) -> T:
    """One request, with the budget asked before and told after."""
    if host is not None:
        asker.wait(host)
    try:
        result = action()
    except Exception as error:  # a storage library's own error: it may pass
        status, retry_after = status_of(error)
        if host is not None:
            asker.answered(host, status, retry_after)
        raise TryFailed(_reason(error, status), status) from error
    if host is not None:
        asker.answered(host, 200)
    return result


def _reason(error: Exception, status: int | None) -> str:
    if status == 404:
        return "no such file"
    answer = "" if status is None else f" (status {status})"
    return f"{type(error).__name__}: {error}{answer}"


def status_of(error: BaseException) -> tuple[int | None, float | None]:
    """(HTTP status, Retry-After seconds) behind a storage library's error, as far as it tells.

    Reads botocore's `response` and gcsfs' `code` anywhere in the chain of causes; S3's SlowDown is
    a 503 whatever its status.
    """
    retry_after = None
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            meta = response.get("ResponseMetadata", {})
            retry_after = seconds_of(meta.get("HTTPHeaders", {}).get("retry-after"))
            if response.get("Error", {}).get("Code") == "SlowDown":
                return 503, retry_after
            if isinstance(meta.get("HTTPStatusCode"), int):
                return meta["HTTPStatusCode"], retry_after
        code = getattr(cause, "code", None)
        if isinstance(code, int) and 400 <= code < 600:
            return code, retry_after
    if isinstance(error, FileNotFoundError):
        return 404, None
    if isinstance(error, PermissionError):
        return 403, None
    return None, retry_after


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
