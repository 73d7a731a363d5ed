"""Sentences that have a hole: they are taken out of their paragraph.

Borders of sentences are found by simple rules that fit every script: a border set too seldom costs
a sentence more, one too many leaves half a sentence. So a full stop after an initial, a number of
two digits or a known abbreviation is none.
"""

from __future__ import annotations

import re

from pipelines.sources.wikitext.template_arguments import HOLE

BRACKET = re.compile(rf"\s?[(（][^()（）{HOLE}]*{HOLE}[^()（）]*[)）]")
END = re.compile(
    r"(?P<stop>\.)[\"'»”’)\]]*\s+|[!?…][\"'»”’)\]]*\s+|[。！？][」』）”]*|[।॥؟۔։።၊။][\"'»”’)\]]*\s*"
)
SHORT = re.compile(
    r"(?:^|[\s(\[«„“\"'’.-])(?:\d{1,2}|[^\W\d_]|[^\W\d_a-zà-ÿа-я][^\W\d_]|[^\W\d_]\.[^\W\d_]"
    r"|ca|cf|vs|al|bl|bv|zw|ed|pp|st|dr|nr|př|tj|kl|ul|pl|av|bd|ev|гг|вв|им|св|ст)$"
)
"""A number, an initial, or a word of two letters that is capitalised or a known abbreviation."""
LONGEST_SHORT = 6


def without_holes(paragraph: str) -> tuple[str, int]:
    """Take out brackets that hold a hole, then sentences that do.

    Returns:
        (what is left, number of sentences that went and had more in them than the hole).
    """
    kept: list[str] = []
    count = 0
    for sentence in sentences(BRACKET.sub("", paragraph)):
        if HOLE not in sentence:
            kept.append(sentence)
        elif any(map(str.isalnum, sentence)):
            count += 1
    return "".join(kept).strip(), count


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph with the blanks behind them; joined they are the paragraph."""
    found: list[str] = []
    begin = 0
    for match in END.finditer(paragraph):
        end = match.end()
        if match["stop"]:
            before = paragraph[max(0, match.start() - LONGEST_SHORT) : match.start()]
            if SHORT.search(before):
                continue
        if paragraph[end : end + 1].islower():
            continue
        found.append(paragraph[begin:end])
        begin = end
    found.append(paragraph[begin:])
    return found
