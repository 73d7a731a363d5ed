"""Bring a file of a server to the local disk: whole and right, or an error that names the URL.

Requests and pauses follow one budget (politeness.py). Tries are bounded. A short body, or a page of
HTML or XML where an archive should be, is a failed try: it is never handed on. A broken transfer
goes on where it stopped when the server can prove that the file is still the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pipelines.core.hashing import stable_fraction
from pipelines.core.store import local_file
from pipelines.sources.fetching.http_transfer import http_download, http_info, is_http
from pipelines.sources.fetching.politeness import (
    LONG_WAIT_SECONDS,
    REFUSALS,
    Budget,
    Politeness,
    tell_wait,
)
from pipelines.sources.fetching.storage_transfer import storage_download, storage_info
from pipelines.sources.fetching.transfer import (
    Asker,
    FileInfo,
    Partial,
    TryFailed,
    check_magic,
    storable,
    suffix_of,
)

__all__ = ["FetchError", "FileInfo", "fetch", "file_info", "own_budget", "read_url"]

PERMANENT = frozenset({400, 401, 404, 405, 410, 416})
FORBIDDEN_TRIES = 4
"""Tries on 403: a crawl server answers so to a client that asks too fast, but not for ever."""

OWN_BUDGET = Politeness()
"""For those who are part of no job: this process's own."""
_own_budget: ContextVar[Budget | None] = ContextVar("own_budget", default=None)

T = TypeVar("T")


class FetchError(OSError):
    """A file could not be fetched; the message names the URL and the last answer."""

    def __init__(self, url: str, reason: str, status: int | None = None) -> None:
        self.url, self.reason, self.status = storable(url), storable(reason), status
        super().__init__(f"{self.url}: {self.reason}")


@dataclass(frozen=True)
class _Try:
    url: str
    budget: Budget
    attempt: int

    @property
    def jitter(self) -> float:
        """Depends on the URL and the try alone, so that many readers spread out the same way."""
        return stable_fraction("pause", storable(self.url), self.attempt)

    @property
    def asker(self) -> Asker:
        return Asker(self.budget, self.jitter)


@contextmanager
def own_budget(budget: Budget) -> Iterator[None]:
    """Let what is part of no job follow this budget while the block runs."""
    token = _own_budget.set(budget)
    try:
        yield
    finally:
        _own_budget.reset(token)


def fetch(
    url: str,
    target: Path,
    budget: Budget | None = None,
    *,
    byte_range: tuple[int, int] | None = None,
) -> None:
    """Download `url` (http, https, s3, gs, file, a plain path) to the local file `target`.

    Args:
        budget: the job's (`SharedBudget(attempt.shared)`); None for this process's own.
        byte_range: only these bytes, [start, end).

    Raises:
        FetchError: after the last try; `target` is not there then.
    """
    partial = Partial(target, byte_range or (0, None))
    download = http_download if is_http(url) else storage_download

    def once(this: _Try) -> None:
        try:
            download(url, partial, this.asker)
            check_magic(partial, url)
        except TryFailed:
            partial.keep_if_it_can_go_on(url)
            raise

    try:
        _with_tries(url, budget, once)
    except FetchError:
        target.unlink(missing_ok=True)
        raise


def read_url(url: str, budget: Budget | None = None) -> bytes:
    """Read a small file whole (a list of paths, a status file); see `fetch`."""
    with local_file(suffix_of(url)) as path:
        fetch(url, path, budget)
        return path.read_bytes()


def file_info(url: str, budget: Budget | None = None) -> FileInfo:
    """Ask for a file's size and version mark without reading it.

    Raises:
        FetchError: there is no such file, or the server does not answer.
    """
    ask = http_info if is_http(url) else storage_info
    return _with_tries(url, budget, lambda this: ask(url, this.asker))


def _with_tries(url: str, budget: Budget | None, action: Callable[[_Try], T]) -> T:
    budget = budget or _own_budget.get() or OWN_BUDGET
    attempt = 0
    while True:
        attempt += 1
        this = _Try(url, budget, attempt)
        try:
            return action(this)
        except TryFailed as failed:
            allowed = min(budget.tries, FORBIDDEN_TRIES) if failed.status == 403 else budget.tries
            if failed.final or failed.status in PERMANENT or attempt >= allowed:
                plural = "try" if attempt == 1 else "tries"
                reason = f"{failed.reason} (after {attempt} {plural})"
                raise FetchError(url, reason, failed.status) from failed
            if failed.status not in REFUSALS:  # for those the budget pauses everybody
                pause = budget.pause(attempt, this.jitter)
                if pause > LONG_WAIT_SECONDS:
                    tell_wait(pause, f"{storable(url)}: {failed.reason}")
                time.sleep(pause)
