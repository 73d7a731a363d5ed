"""Boolean options that may be given a value: `--overwrite False` is off, and never a text."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

ON = ("true", "1", "yes", "on")
OFF = ("false", "0", "no", "off")
"""The words that pydantic reads in settings, in any case."""


def flag_value(option: str, text: str) -> bool | None:
    """The value that a word after an option gives it; None when it is no such word.

    Raises:
        typer.BadParameter: it looks like a mistyped one; the option is named.
    """
    word = text.lower()
    if word in ON or word in OFF:
        return word in ON
    if difflib.get_close_matches(word, ("true", "false"), n=1, cutoff=0.7):
        raise _not_boolean(option, text)
    return None


def _not_boolean(option: str, text: str) -> typer.BadParameter:
    return typer.BadParameter(f"{text!r} is neither true nor false", param_hint=f"'{option}'")


class Command(TyperCommand):
    """A command whose flags take an optional word; other arguments stay as they are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words behind flags, then parse as usual."""
        flags: dict[str, tuple[str | None, str | None]] = {}
        for parameter in self.params:
            if getattr(parameter, "is_flag", False) and parameter.name != "help":
                on, off = [*parameter.opts, None][0], [*parameter.secondary_opts, None][0]
                flags |= dict.fromkeys(parameter.opts, (on, off))
                flags |= dict.fromkeys(parameter.secondary_opts, (off, on))
        return super().parse_args(ctx, without_words(args, flags))


def without_words(
    args: Sequence[str], flags: Mapping[str, tuple[str | None, str | None]]
) -> list[str]:
    """Arguments in which a flag and the word behind it have become the flag that they mean.

    Args:
        flags: by name, what to write for it and for its opposite; None: nothing.

    Raises:
        typer.BadParameter: a flag has a value that is neither true nor false.
    """
    rest: list[str] = []
    left = list(args)
    while left:
        argument = left.pop(0)
        if argument == "--":
            return [*rest, argument, *left]
        name, equals, text = argument.partition("=")
        if name not in flags:
            rest.append(argument)
            continue
        value: bool | None = True
        if equals:
            value = flag_value(name, text)
            if value is None:
                raise _not_boolean(name, text)
        elif left and (found := flag_value(name, left[0])) is not None:
            value = found
            left.pop(0)
        written = flags[name][0 if value else 1]
        rest += [] if written is None else [written]
    return rest
