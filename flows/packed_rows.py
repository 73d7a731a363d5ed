"""Packed sequences held against their contract, row by row, before they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pipelines.core.records import PackedFormat


def check_row(row: dict[str, Any], stored: PackedFormat, where: str) -> None:
    """Hold one row against what a pack stage writes (see `records.sequence_schema`).

    Args:
        row: as Python has it, with the columns of the file's mode.
        stored: what the file says of itself.
        where: file and row, named in the error.

    Raises:
        ValueError: the first thing that is wrong, with its value.
    """
    wrong = next(_wrong(row, stored), None)
    if wrong is not None:
        raise ValueError(
            f"{where}: {wrong}; the file is damaged: delete it and run the pack stage again"
        )


def _wrong(row: dict[str, Any], stored: PackedFormat) -> Iterator[str]:
    for name in stored.schema.names:
        if _holds_null(row[name]):
            yield f"{name} has a null"
            return  # the rest compares numbers
    tokens, starts, documents = row["tokens"], row["document_starts"], row["document_ids"]
    size = len(tokens)
    if not 0 < size <= stored.length:
        yield f"{size} tokens; need 1 to {stored.length}"
    yield from _ids("tokens", tokens, stored.rows)
    if not starts:
        yield "document_starts is empty; need one at least"
    yield from _places("document_starts", starts, size)
    if len(starts) != len(documents):
        yield f"{len(starts)} document_starts and {len(documents)} document_ids; need as many"
    yield from _masks(row, size, stored.rows)
    if stored.mode == "pairs":
        if len(starts) != 2:
            yield f"{len(starts)} document_starts; a pair has 2"
        segments = row["segments"]
        if len(segments) != size or not set(segments) <= {0, 1}:
            yield f"segments are {len(segments)} of {sorted(set(segments))}; need {size} of 0 and 1"


def _masks(row: dict[str, Any], size: int, rows: int) -> Iterator[str]:
    views, replacements = row["mask_positions"], row["mask_tokens"]
    if len(views) != len(replacements):
        yield (
            f"{len(views)} views in mask_positions and {len(replacements)} in mask_tokens; "
            "need as many"
        )
    for view, (places, ids) in enumerate(zip(views, replacements, strict=False)):
        if len(places) != len(ids):
            yield f"view {view}: {len(places)} mask_positions and {len(ids)} mask_tokens"
        yield from _places(f"mask_positions, view {view}", places, size)
        yield from _ids(f"mask_tokens, view {view}", ids, rows)


def _holds_null(value: Any) -> bool:
    return any(map(_holds_null, value)) if isinstance(value, list) else value is None


def _ids(name: str, ids: list[int], rows: int) -> Iterator[str]:
    if ids and max(ids) >= rows:
        yield f"{name} has id {max(ids)}; the vocabulary has 0 to {rows - 1}"


def _places(name: str, places: list[int], size: int) -> Iterator[str]:
    """Places in a sequence rise and lie inside it."""
    if outside := [place for place in places if not 0 <= place < size]:
        yield f"{name} has {outside[0]}; the sequence has 0 to {size - 1}"
    if any(a >= b for a, b in pairwise(places)):
        yield f"{name} does not rise"
