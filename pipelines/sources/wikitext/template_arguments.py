"""Arguments of a template, and the marks that stand for what a template could not show."""

from __future__ import annotations

import re

HOLE = "\x05"
"""Stands where a sentence has a word that the dump does not hold: a number that lives elsewhere, or
a formula that cannot be read as text. The sentence is taken out later."""
EMPTY = "\x06"
"""Stands between two marks of italic or bold that hold nothing any more, so that they do not join
to another mark."""

NAMED = re.compile(r"\s*([^\W_][\w -]{0,39}?)\s*=(?!=)")


class Arguments(list[str]):
    """Arguments without a name, in order; `1=` and its like count as such."""

    def __init__(self, content: str = "") -> None:
        super().__init__()
        self.named: dict[str, str] = {}
        """The other ones, by name in lower case, in order; empty ones too."""
        for part in _split(content):
            named = NAMED.match(part)
            if named is None:
                self.append(part.strip())
            elif named[1].isdigit() and int(named[1][:9]) == len(self) + 1:
                self.append(part[named.end() :].strip())
            else:
                self.named[named[1].lower()] = part[named.end() :].strip()

    def get(self, *names: str) -> str:
        """The first of the named arguments that is there and not empty, or nothing."""
        return next((self.named[name] for name in names if self.named.get(name)), "")


def _split(content: str) -> list[str]:
    """Split at the bars that stand outside of links."""
    if "[[" not in content:
        return content.split("|")
    pieces: list[str] = []
    current: list[str] = []
    depth = 0
    for token in re.split(r"(\[\[|\]\]|\|)", content):
        depth += (token == "[[") - (token == "]]" and depth > 0)
        if token == "|" and depth == 0:
            pieces.append("".join(current))
            current = []
        else:
            current.append(token)
    return [*pieces, "".join(current)]
