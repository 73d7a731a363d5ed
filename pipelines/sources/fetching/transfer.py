"""What downloads over HTTP and from object storage have in common."""

from __future__ import annotations

import email.utils
import re
import time
from dataclasses import dataclass
from pathlib import Path

from pipelines.sources.fetching.politeness import REFUSALS, Budget, wait_for_slot

MAGIC = {
    ".gz": (b"\x1f\x8b",),
    ".bz2": (b"BZh",),
    ".zst": (b"\x28\xb5\x2f\xfd", b"\x5d\x2a\x4d\x18"),
    ".xz": (b"\xfd7zXZ",),
    ".lz4": (b"\x04\x22\x4d\x18",),
}
"""How files of these endings begin."""

NOT_UTF8 = re.compile("[\udc80-\udcff]")


class TryFailed(Exception):
    """One try did not bring the file.

    Args:
        status: the HTTP status, or the one that a storage library's error stands for.
        final: another try would be no better.
    """

    def __init__(self, reason: str, status: int | None = None, *, final: bool = False) -> None:
        self.reason, self.status, self.final = reason, status, final
        super().__init__(reason)


@dataclass(frozen=True)
class FileInfo:
    """What a server says of a file."""

    size: int | None
    etag: str | None


@dataclass(frozen=True)
class Asker:
    """Asks the budget before a request and tells it the answer."""

    budget: Budget
    jitter: float

    def wait(self, host: str) -> None:
        """Wait until a request to the host may go out."""
        wait_for_slot(self.budget, host)

    def answered(self, host: str, status: int | None, retry_after: float | None = None) -> None:
        """Tell how the host answered.

        Raises:
            TryFailed: it refused, and asks for a longer pause than can be waited for.
        """
        longest = self.budget.longest_retry_after_seconds
        if status in REFUSALS and retry_after is not None and retry_after > longest:
            self.budget.report(host, status, None, self.jitter)
            raise TryFailed(
                f"status {status}, and asks to come back in {retry_after:.0f} s, more than "
                f"fetching.longest_retry_after_seconds = {longest:g}",
                status,
                final=True,
            )
        self.budget.report(host, status, retry_after, self.jitter)


@dataclass
class Partial:
    """A download in work: what is wanted, and what of it lies in `target` already."""

    target: Path
    span: tuple[int, int | None]
    """Bytes wanted, [start, end); no end is the end of the file."""
    validator: str | None = None
    """A strong ETag or a date that tells whether the server's file is still the same one."""

    answer: str = ""
    """What the server answered last, for messages."""

    @property
    def start(self) -> int:
        """First byte wanted."""
        return self.span[0]

    @property
    def end(self) -> int | None:
        """Byte after the last one wanted, if not the file's own end."""
        return self.span[1]

    @property
    def size(self) -> int | None:
        """Bytes wanted, if known."""
        return None if self.end is None else self.end - self.start

    def there(self) -> int:
        """Bytes that need not be asked for again."""
        if self.validator is None or not self.target.exists():
            return 0
        return self.target.stat().st_size

    def forget(self) -> None:
        """Begin anew with the next try."""
        self.validator = None
        self.target.unlink(missing_ok=True)

    def keep_if_it_can_go_on(self, url: str) -> None:
        """After a failed try: forget what is no beginning of the file."""
        try:
            if self.there():
                check_magic(self, url)
                return
        except TryFailed:
            pass
        self.forget()


def check_magic(partial: Partial, url: str) -> None:
    """Refuse a file that does not begin as its ending says: an error page, say.

    Raises:
        TryFailed: names what is there instead.
    """
    magic = MAGIC.get(suffix_of(url))
    if magic is None or partial.start > 0:
        return
    with partial.target.open("rb") as file:
        start = file.read(64)
    if not start.startswith(magic):
        raise TryFailed(f"{instead_of(start, url)}{partial.answer}")


def instead_of(start: bytes, url: str) -> str:
    """What stands where an archive should be."""
    kind = "a page of markup" if start.lstrip()[:1] == b"<" else f"bytes {start[:8]!r}"
    return f"{kind} instead of a {suffix_of(url)} file"


def suffix_of(url: str) -> str:
    """The ending of an address's path, with its dot."""
    return Path(url.split("?")[0]).suffix


def seconds_of(retry_after: str | None) -> float | None:
    """Read Retry-After: a number of seconds or an HTTP date (RFC 9110, section 10.2.3).

    None for what is neither. It may be more than any clock can wait.
    """
    if retry_after is None:
        return None
    if re.fullmatch(r"[0-9]{1,300}", retry_after.strip()):
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def storable(name: str) -> str:
    """A name that any file can hold: bytes of it that are no UTF-8 are percent-encoded.

    Python holds such bytes of a file's name as lone surrogates (PEP 383).
    """
    if name.isascii():
        return name
    kept = NOT_UTF8.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", name)
    return kept.encode("utf-8", "replace").decode("utf-8")
