"""One WARC record and its named fields (ISO 28500, sections 4 and 5)."""

from __future__ import annotations

import re

TYPES = frozenset(
    {
        "warcinfo",
        "response",
        "resource",
        "request",
        "metadata",
        "revisit",
        "conversion",
        "continuation",
    }
)
"""WARC-Type, section 5.5."""
FOLDED = re.compile(r"\r?\n[ \t]+")
COMMON_TYPE = re.compile(rb"\nWARC-Type: ([a-z]+)\r\n")
"""As nearly every crawler writes it; other forms take the way through `parse_fields`."""


class Record:
    """A whole WARC record.

    Attributes:
        offset: byte offset in the unpacked archive (of a damaged one: in what could be unpacked).
        block: exactly Content-Length bytes.
    """

    __slots__ = ("_head", "_headers", "block", "offset")

    def __init__(self, offset: int, head: bytes, block: bytes) -> None:
        self.offset, self.block = offset, block
        self._head = head
        self._headers: dict[str, str] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Named fields, names in lower case; of a repeated field the first."""
        if self._headers is None:
            self._headers = parse_fields(self._head)
        return self._headers

    @property
    def kind(self) -> str:
        """WARC-Type in lower case; "unknown" if it is none of TYPES."""
        common = COMMON_TYPE.search(self._head)
        if common is not None:
            kind = common[1].decode("ascii")
        else:
            kind = self.headers.get("warc-type", "").lower()
        return kind if kind in TYPES else "unknown"


def parse_fields(header: bytes) -> dict[str, str]:
    """Named fields by lower-case name; folded lines are unfolded."""
    text = header.decode("utf-8", errors="replace")
    if "\n " in text or "\n\t" in text:
        text = FOLDED.sub(" ", text)
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if not colon:
            continue
        name, value = name.strip().lower(), value.strip()
        if name == "content-length" and fields.get(name, value) != value:
            value = fields[name] = ""  # two lengths: neither can be believed
        fields.setdefault(name, value)
    return fields
