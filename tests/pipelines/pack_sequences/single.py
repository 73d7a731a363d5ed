"""Single sequences as the arrays and tables that packing works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.core.masking import Ids, Masks
from pipelines.core.records import PackedFormat
from pipelines.pack_sequences.spans import Packed, offsets_of
from pipelines.pack_sequences.table import packed_to_table


@dataclass(slots=True)
class PackedSequence:
    """One packed sequence by itself."""

    id: str
    tokens: Ids
    document_starts: list[int]
    document_ids: list[str]


def to_packed(sequences: Sequence[PackedSequence]) -> Packed:
    """Lay single sequences out one after the other."""
    return Packed(
        [sequence.id for sequence in sequences],
        np.concatenate([np.empty(0, np.uint32), *(s.tokens for s in sequences)]).astype(np.uint32),
        offsets_of([len(sequence.tokens) for sequence in sequences]),
        np.array([start for s in sequences for start in s.document_starts], dtype=np.int32),
        [name for sequence in sequences for name in sequence.document_ids],
        offsets_of([len(sequence.document_starts) for sequence in sequences]),
    )


def sequences_to_table(
    sequences: Sequence[PackedSequence],
    language: str,
    masks: Sequence[list[tuple[Any, Any]]],
    rows: int,
    *,
    length: int = 65_535,
    vocabulary: str = "",
) -> pa.Table:
    """The table of single sequences; masks[i] holds one pair (positions, ids) a view.

    Raises:
        ValueError: an id is not below `rows`.
    """
    views = [
        _masks([of_sequence[view] for of_sequence in masks])
        for view in range(len(masks[0]) if masks else 0)
    ]
    stored = PackedFormat(rows, "stream", length, vocabulary)
    return packed_to_table(to_packed(sequences), language, views, stored)


def _masks(pairs: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]]) -> Masks:
    return Masks(
        np.concatenate([positions for positions, _ in pairs]).astype(np.uint16),
        np.concatenate([ids for _, ids in pairs]).astype(np.uint32),
        offsets_of([len(positions) for positions, _ in pairs]),
    )
