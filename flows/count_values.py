"""One count as a file has it: a whole number, or what is wrong with it."""

from __future__ import annotations

import re
from typing import Any

from pipelines.core.config import ConfigError

LARGEST_COUNT = 2**63 - 1
UNNAMED = ("count", "counts", "n", "number", "value")
"""Names of a column that do not say what is counted."""
UNITS = {
    *UNNAMED,
    *("documents", "sentences", "tokens", "characters", "bytes", "words", "lines", "texts"),
    *("docs", "chars", "pages", "articles", "paragraphs", "examples"),
}
"""Names of a column that holds counts whatever is written in it."""
SEPARATORS = r"[.,' \u00a0\u2009\u202f\u2019_]"
GROUPED = re.compile(rf"-?[0-9]{{1,3}}({SEPARATORS}[0-9]{{3}})+")
"""A number in groups of three digits; 1.000 may be one and may be a fraction."""
SURELY_GROUPED = re.compile(rf"(?!-?[0-9]+\.[0-9]+$){GROUPED.pattern}")


def whole(value: Any) -> bool:
    """Whether a value is a whole number, as JSON has it or as text."""
    if isinstance(value, str):
        return value.isascii() and value.removeprefix("-").isdigit()
    return isinstance(value, int) and not isinstance(value, bool)


def meant_as_count(column: str, value: Any) -> bool:
    """Whether a value can only be a count, by its column's name or by how it is written."""
    grouped = isinstance(value, str) and SURELY_GROUPED.fullmatch(value) is not None
    return column.lower() in UNITS or grouped


def number(where: str, value: Any) -> int:
    """A count: a whole number that is not negative.

    Raises:
        ConfigError: it is none, or above 2^63 - 1; `where` and the value are named.
    """
    if not whole(value) or (str(value).startswith("-") and str(value).strip("-0")):
        hint = ""
        if isinstance(value, str) and GROUPED.fullmatch(value) and not value.startswith("-"):
            hint = f", without separators: write {re.sub(SEPARATORS, '', value)}"
        raise ConfigError(
            f"{where} = {short(value)} is not a count; need a whole number, 0 or more{hint}"
        )
    digits = str(value).lstrip("-0") or "0"
    if len(digits) > len(str(LARGEST_COUNT)) or int(digits) > LARGEST_COUNT:
        raise ConfigError(
            f"{where} = {short(value)} is too large for a count; need at most {LARGEST_COUNT:,}"
        )
    return int(digits)


def integer(digits: str) -> int | str:
    """A number of JSON; one that no count can be stays text, so that its entry can be named."""
    return int(digits) if len(digits) <= len(str(LARGEST_COUNT)) + 1 else digits


def short(value: Any) -> str:
    """A value as a message shows it: not more than a line of it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
