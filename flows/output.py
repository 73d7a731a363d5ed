"""What goes to the standard output: safe for a terminal, and either written or known as lost."""

from __future__ import annotations

import io
import os
import sys
import unicodedata
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

REORDERING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
ACTING = frozenset(("Cc", "Cs", "Zl", "Zp"))
"""Categories of characters that move the cursor, begin a sequence, or cannot be written."""


def visible(text: str, keep: str = "") -> str:
    r"""A text in which every character that acts on a terminal is written as \uXXXX.

    Inside JSON this is the character's own escape, so JSON stays the same JSON.

    Args:
        keep: characters to leave as they are, the line ends of a text for example.
    """
    return "".join(
        f"\\u{ord(character):04x}"
        if character not in keep
        and (character in REORDERING or unicodedata.category(character) in ACTING)
        else character
        for character in text
    )


def write(text: str) -> None:
    """Write to the standard output and see that it went out.

    A character that the output's encoding lacks is written as its escape.

    Raises:
        typer.Exit: status 1, after one line on the standard error: the output is closed or full.
    """
    if sys.stdout is None:
        fail("error: the standard output is closed", 1)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would fail again, with a traceback, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail(f"error: the standard output: {error.strerror}", 1)


class _Page(io.StringIO):
    """Text in memory that is drawn as the standard output would be: rich asks for these two."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(sys.stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        return sys.stdout is not None and sys.stdout.isatty()


def write_drawn(thing: RenderableType, width: int | None = None, soft_wrap: bool = False) -> None:
    """Write what rich draws, with colours on a terminal; see `write`.

    Args:
        width: characters of a line; by default the terminal's.
        soft_wrap: leave the breaking of lines to the terminal.
    """
    from rich.console import Console

    page = _Page()
    Console(file=page, width=width, highlight=False).print(thing, soft_wrap=soft_wrap)
    write(page.getvalue())


def fail(message: str, status: int) -> NoReturn:
    """Say one line on the standard error and end the command.

    Raises:
        typer.Exit: always.
    """
    if sys.stderr is not None:
        print(visible(message, keep="\n"), file=sys.stderr)  # noqa: T201 - this is the terminal
    raise typer.Exit(status)
