"""What a filter is: a function from a document to a reason to drop it, or None to keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.core.manifest import Counters
from pipelines.core.records import Document


class Reason(str):
    """A reason to drop a document: its short name, and the figure behind it in `because`.

    The name is one of the section's `reasons`. Equal to the plain string of that name.
    """

    __slots__ = ("because",)

    because: str
    """For people: "share of words with a letter 0.61 < 0.7"."""

    def __new__(cls, name: str, because: str = "") -> Reason:
        """Make a reason from its short name."""
        reason = super().__new__(cls, name)
        reason.because = because
        return reason


Filter = Callable[[Document, Any, Counters], str | None]
"""Takes the document, the filter's own section for the document's language, and counters.

A filter is deterministic and raises nothing, whatever the text. It changes `document.text` only
where its section says `changes_text`, and never lower-cases or strips what it keeps. Counters are
for what it changed or could not judge (`dropped_lines.boilerplate`, `passed.no_stop_words/xx`); the
reasons are counted by the caller, and the counters of a document that is dropped are forgotten.
"""


def below(name: str, what: str, value: float, least: float) -> Reason | None:
    """The reason when a value is under its least one."""
    return Reason(name, f"{what} {figure(value)} < {figure(least)}") if value < least else None


def above(name: str, what: str, value: float, most: float) -> Reason | None:
    """The reason when a value is over its most."""
    return Reason(name, f"{what} {figure(value)} > {figure(most)}") if value > most else None


def figure(value: float) -> str:
    """A number for people: whole ones in full, others with four significant digits."""
    return str(value) if isinstance(value, int) else f"{value:.4g}"
