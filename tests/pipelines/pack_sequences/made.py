"""Documents for packing, and sequences looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from pipelines.core.vocabulary import BOS_ID, EOS_ID
from pipelines.pack_sequences.spans import Packed, Packer, Spans, offsets_of

DOCUMENTS = st.lists(st.lists(st.integers(1, 9), max_size=8), max_size=12)
"""Documents as lengths of their sentences."""


@dataclass
class Row:
    id: str
    tokens: list[int]
    starts: list[int]
    names: list[str]
    segments: list[int] | None = None
    is_next: bool | None = None

    @property
    def ordinary(self) -> list[int]:
        return [token for token in self.tokens if token not in (BOS_ID, EOS_ID)]


def spans_of(documents: Sequence[Sequence[int]], first_name: int = 0) -> Spans:
    """Documents whose tokens say where they stand: 1000 x document + place + 4."""
    lengths = [sum(sentences) for sentences in documents]
    texts = [1000 * (first_name + n) + np.arange(length) + 4 for n, length in enumerate(lengths)]
    offsets = offsets_of(lengths)
    units = [
        offsets[n] + begin
        for n, sentences in enumerate(documents)
        for begin in np.cumsum([0, *sentences])[:-1]
    ]
    return Spans(
        [f"d{first_name + n}" for n in range(len(documents))],
        np.zeros(len(documents), np.int64),
        np.concatenate([np.empty(0), *texts]).astype(np.uint32),
        offsets,
        np.array(units, dtype=np.int64),
    )


def rows_of(packed: Packed) -> list[Row]:
    rows = []
    for n, name in enumerate(packed.ids):
        begin, end = packed.offsets[n], packed.offsets[n + 1]
        head, tail = packed.start_offsets[n], packed.start_offsets[n + 1]
        rows.append(
            Row(
                name,
                packed.tokens[begin:end].tolist(),
                packed.starts[head:tail].tolist(),
                packed.names[head:tail],
                None if packed.segments is None else packed.segments[begin:end].tolist(),
                None if packed.is_next is None else bool(packed.is_next[n]),
            )
        )
    return rows


def pack(packer: Packer, documents: Sequence[Sequence[int]], at_once: int = 1000) -> list[Row]:
    """All rows, the documents fed in batches of `at_once`."""
    rows = []
    for begin in range(0, len(documents), at_once):
        rows += rows_of(packer.feed(spans_of(documents[begin : begin + at_once], begin)))
    return rows + rows_of(packer.finish())


def text_of(documents: Sequence[Sequence[int]]) -> list[int]:
    return spans_of(documents).tokens.tolist()
