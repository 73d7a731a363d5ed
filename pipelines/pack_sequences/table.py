"""Packed sequences and their masks as an Arrow table, without a Python object a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.masking import Masks
from pipelines.core.records import PackedFormat
from pipelines.core.vocabulary import check_ids
from pipelines.pack_sequences.spans import Offsets, Packed


def packed_to_table(
    packed: Packed, language: str, masks: Sequence[Masks], stored: PackedFormat
) -> pa.Table:
    """Lay sequences and their masks out in the sequence schema.

    Args:
        packed: n sequences.
        language: of all of them.
        masks: one entry a view, each over the same n sequences.
        stored: of the file that the table goes to.

    Raises:
        ValueError: an id is not below the vocabulary's rows.
    """
    rows, schema = len(packed), stored.schema
    for ids in (packed.tokens, *(view.tokens for view in masks)):
        check_ids(ids, stored.rows, f"sequences from {packed.ids[0] if rows else 'nowhere'}")
    id_type = schema.field("tokens").type.value_type
    columns: dict[str, pa.Array] = {
        "sequence_id": pa.array(packed.ids, pa.string()),
        "language": pa.array([language], pa.string()).take(pa.array(np.zeros(rows, np.int64))),
        "tokens": lists(packed.offsets, packed.tokens, id_type),
        "document_starts": lists(packed.start_offsets, packed.starts, pa.int32()),
        "mask_positions": _views(
            [lists(v.offsets, v.positions, pa.uint16()) for v in masks], rows, pa.uint16()
        ),
        "mask_tokens": _views([lists(v.offsets, v.tokens, id_type) for v in masks], rows, id_type),
        "document_ids": lists(packed.start_offsets, packed.names, pa.string()),
    }
    if packed.segments is not None:
        columns["segments"] = lists(packed.offsets, packed.segments, pa.uint8())
        columns["is_next"] = pa.array(packed.is_next, pa.bool_())
    return pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)


def lists(offsets: Offsets, values: Any, value_type: pa.DataType) -> pa.ListArray:
    """A list column from flat values: entry i is values[offsets[i] : offsets[i + 1]]."""
    if isinstance(values, np.ndarray):
        values = values.astype(value_type.to_pandas_dtype(), copy=False)
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(values, value_type)
    )


def _views(views: list[pa.ListArray], rows: int, value_type: pa.DataType) -> pa.ListArray:
    """Row by row all views of it: a list of lists."""
    outer = np.arange(rows + 1, dtype=np.int32) * len(views)
    if not views:
        inner = pa.array([], pa.list_(value_type))
    elif len(views) == 1:
        inner = views[0]
    else:
        order = np.arange(rows)[:, None] + rows * np.arange(len(views))[None, :]
        inner = pa.concat_arrays(views).take(pa.array(order.ravel()))
    return pa.ListArray.from_arrays(pa.array(outer), inner)
