"""How politely servers are asked: one budget of requests for the whole job.

`Politeness` is that budget. It lives once in a job (`Step.shared`), and every worker asks it before
each request and tells it how the server answered; the waiting itself is done by the worker. The
rate is kept by handing out slots in order, 1 / rate seconds apart. When a server refuses (429, 503,
403, SlowDown), its host is paused for everybody: longer each time until an answer is good, and
never shorter than Retry-After (RFC 9110, section 10.2.3).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pipelines.core.attempt import Shared

REFUSALS = frozenset({403, 429, 503})
"""Answers of a server that is asked too often. Common Crawl sends 503, and 403 to those who go on;
S3's SlowDown is a 503."""

LONG_WAIT_SECONDS = 20.0
"""A longer wait is told."""


class Budget(Protocol):
    """What a download asks before and after each request."""

    @property
    def tries(self) -> int:
        """Tries for one file."""

    @property
    def min_bytes_per_second(self) -> float:
        """A transfer that brings less is a failed try."""

    @property
    def longest_retry_after_seconds(self) -> float:
        """A server that asks for a longer pause is given up."""

    def acquire(self, host: str) -> float:
        """Take the next slot: seconds to wait until it."""

    def paused(self, host: str) -> bool:
        """Whether the host is paused now: a slot that was waited for is void then."""

    def pause_to_tell(self, host: str) -> int | None:
        """The status that the host's pause is for, to the first who asks; None to the others."""

    def report(
        self, host: str, status: int | None, retry_after: float | None, jitter: float
    ) -> None:
        """Tell how the host answered (status None: not at all). `jitter` is in [0, 1)."""

    def pause(self, attempt: int, jitter: float) -> float:
        """Seconds one reader waits after its own failed try (1, 2, ...): a short body, say."""


@dataclass
class _Host:
    next_slot: float = float("-inf")
    paused_until: float = float("-inf")
    refusals: int = 0
    untold: int | None = None
    """Status that the pause is for, until somebody was told."""


class Politeness:
    """The budget of a job; see the module. Thread-safe; its arguments can be pickled.

    Args:
        requests_per_second: requests to one host, over all workers together.
        tries: tries for one file before its shard fails.
        first_pause_seconds: pause after the first refusal; it doubles.
        longest_pause_seconds: pauses grow to this; Retry-After is obeyed even when it is longer.
        min_bytes_per_second: a transfer that brings less is a failed try.
        longest_retry_after_seconds: a server that asks for a longer pause is given up.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        requests_per_second: float = 20.0,
        tries: int = 8,
        first_pause_seconds: float = 1.0,
        longest_pause_seconds: float = 300.0,
        min_bytes_per_second: float = 1000.0,
        longest_retry_after_seconds: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spacing = 1.0 / requests_per_second
        self._tries = tries
        self._first, self._longest = first_pause_seconds, longest_pause_seconds
        self.min_bytes_per_second = min_bytes_per_second
        self.longest_retry_after_seconds = longest_retry_after_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._hosts: dict[str, _Host] = {}

    @property
    def tries(self) -> int:
        """Tries for one file."""
        return self._tries

    def get_limits(self) -> tuple[int, float, float]:
        """(tries, least bytes a second, longest Retry-After), for those who can only call."""
        return self._tries, self.min_bytes_per_second, self.longest_retry_after_seconds

    def acquire(self, host: str) -> float:
        """Take the next slot of a host: seconds from now until it. Slots go in order of asking."""
        with self._lock:
            state, now = self._host(host), self._clock()
            slot = max(now, state.next_slot, state.paused_until)
            state.next_slot = slot + self._spacing
            return slot - now

    def paused(self, host: str) -> bool:
        """Whether the host is paused now. A slot before the pause's end is void: take another."""
        with self._lock:
            return self._host(host).paused_until > self._clock()

    def pause_to_tell(self, host: str) -> int | None:
        """The status that the host's pause is for, to the first who asks; None to the others."""
        with self._lock:
            state = self._host(host)
            status = state.untold if state.paused_until > self._clock() else None
            state.untold = None
            return status

    def report(
        self, host: str, status: int | None, retry_after: float | None, jitter: float
    ) -> None:
        """Take note of an answer: a refusal pauses the host, a good answer forgets the refusals.

        Refusals that come in while the host is paused already belong to requests that were on their
        way: they count as one. A good answer shortens no pause.
        """
        with self._lock:
            state, now = self._host(host), self._clock()
            if status in REFUSALS:
                if state.paused_until <= now:
                    state.untold = status
                    state.refusals += 1
                    state.paused_until = now + self.pause(state.refusals, jitter)
                if retry_after is not None:
                    state.paused_until = max(state.paused_until, now + retry_after)
            elif status is not None and status < 400 and state.paused_until <= now:
                state.refusals = 0

    def pause(self, attempt: int, jitter: float) -> float:
        """Seconds of the pause after failure 1, 2, ...: doubled each time, up to half longer."""
        grown = self._first * 2.0 ** min(attempt - 1, 60)
        return min(grown * (1.0 + 0.5 * jitter), self._longest)

    def _host(self, host: str) -> _Host:
        return self._hosts.setdefault(host, _Host())


class SharedBudget:
    """The budget of the job as a worker sees it: every question goes to the one `Politeness`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._limits: tuple[int, float, float] | None = None

    def _get_limits(self) -> tuple[int, float, float]:
        if self._limits is None:
            tries, slowest, longest = self._shared.call("get_limits")
            self._limits = int(tries), float(slowest), float(longest)
        return self._limits

    @property
    def tries(self) -> int:
        """Tries for one file."""
        return self._get_limits()[0]

    @property
    def min_bytes_per_second(self) -> float:
        """A transfer that brings less is a failed try."""
        return self._get_limits()[1]

    @property
    def longest_retry_after_seconds(self) -> float:
        """A server that asks for a longer pause is given up."""
        return self._get_limits()[2]

    def acquire(self, host: str) -> float:
        """See `Politeness.acquire`."""
        return float(self._shared.call("acquire", host))

    def paused(self, host: str) -> bool:
        """See `Politeness.paused`."""
        return bool(self._shared.call("paused", host))

    def pause_to_tell(self, host: str) -> int | None:
        """See `Politeness.pause_to_tell`."""
        status = self._shared.call("pause_to_tell", host)
        return None if status is None else int(status)

    def report(
        self, host: str, status: int | None, retry_after: float | None, jitter: float
    ) -> None:
        """See `Politeness.report`."""
        self._shared.call("report", host, status, retry_after, jitter)

    def pause(self, attempt: int, jitter: float) -> float:
        """See `Politeness.pause`."""
        return float(self._shared.call("pause", attempt, jitter))


def wait_for_slot(budget: Budget, host: str) -> None:
    """Wait until a request to `host` may go out. A pause that began meanwhile is waited out too.

    A long pause is told on standard error, once for all who wait.
    """
    while (seconds := budget.acquire(host)) > 0:
        if seconds > LONG_WAIT_SECONDS and (status := budget.pause_to_tell(host)) is not None:
            tell_wait(seconds, f"{host} answered {status}")
        time.sleep(seconds)
        if not budget.paused(host):
            return


def tell_wait(seconds: float, why: str) -> None:
    """Tell the person who watches why nothing moves."""
    print(f"waiting {seconds:.0f} s: {why}", file=sys.stderr, flush=True)  # noqa: T201
