"""Where a document's sections begin: metadata `sections`, kept true when paragraphs go.

It is a JSON list of [paragraph, level, title]; `paragraph` is the index of the paragraph that the
section begins with, so that titles can be left out of the text and found again.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence

SECTIONS = "sections"
"""Name of the metadata field."""


def renumbered(metadata: dict[str, str], kept: Sequence[int]) -> dict[str, str]:
    """The metadata of a document after paragraphs went.

    Args:
        kept: indices, rising, of the paragraphs that stay. A section whose paragraphs are all gone
            keeps its title and begins where the next paragraph that stays does.
    """
    if SECTIONS not in metadata:
        return metadata
    places = [
        [bisect_left(kept, paragraph), level, title]
        for paragraph, level, title in json.loads(metadata[SECTIONS])
    ]
    return {
        **metadata,
        SECTIONS: json.dumps(places, ensure_ascii=False, separators=(",", ":")),
    }


def kept_of(before: Sequence[str], after: Sequence[str]) -> list[int]:
    """Indices in `before` of the paragraphs that are left in `after`, in the same order."""
    kept, place = [], 0
    for paragraph in after:
        while before[place] != paragraph:
            place += 1
        kept.append(place)
        place += 1
    return kept
