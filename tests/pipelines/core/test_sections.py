"""Sections point at the same paragraphs after others went."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.sections import kept_of, renumbered


def test_sections_move_with_their_paragraphs() -> None:
    metadata = {"sections": json.dumps([[0, 2, "A"], [2, 2, "B"], [3, 3, "C"], [4, 2, "D"]])}
    moved = renumbered(metadata, [0, 3])
    assert json.loads(moved["sections"]) == [[0, 2, "A"], [1, 2, "B"], [1, 3, "C"], [2, 2, "D"]]


def test_a_document_without_sections_stays_without() -> None:
    assert renumbered({"page_id": "1"}, []) == {"page_id": "1"}


@given(st.lists(st.tuples(st.text(max_size=1), st.booleans())))
def test_what_is_left_is_found_again(paragraphs: list[tuple[str, bool]]) -> None:
    before = [f"{number}{text}" for number, (text, _) in enumerate(paragraphs)]
    kept = [number for number, (_, stays) in enumerate(paragraphs) if stays]
    assert kept_of(before, [before[number] for number in kept]) == kept
