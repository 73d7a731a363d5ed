"""Lines of the help pages, split by page into training text and held-out text."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.core.hashing import stable_fraction
from pipelines.core.unigram import lines_of
from tests.benchmarks.help_pages import help_pages

HELD_OUT_SHARE = 0.02


def help_lines() -> Iterator[tuple[bool, str, str]]:
    """(whether the page is held out, Debian's name of the language, line), by language and page.

    A page is held out in all languages or in none, for its translations share names and examples.

    Raises:
        Skipped: the packages cannot be had on this system.
    """
    for page in help_pages():
        body, name = page.body, page.url.split("/", 5)[-1]
        if body is None:
            continue
        held_out = stable_fraction(0, "vocabulary", name) < HELD_OUT_SHARE
        for paragraph in body.split("\n"):
            for line in lines_of(" ".join(paragraph.split())):
                yield held_out, page.language, line
