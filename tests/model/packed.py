"""Packed files written row by row in plain Python: what the reader is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from model.data.packed_files import Packing
from pipelines.core.masking import (
    MaskingRule,
    UnigramSampler,
    choose_and_replace,
    mask_keys,
    mask_sequences,
)
from pipelines.core.records import PackedFormat
from pipelines.core.store import Store, write_parquet

ROWS, MASK, SEED = 60, 59, 7
SPECIAL = frozenset({0, 1, 2, 3, MASK})
RULE = MaskingRule(0.15, 0.8, 0.1, MASK, SPECIAL)
SAMPLER = UnigramSampler(np.arange(ROWS, dtype=np.int64), SPECIAL)
VOCABULARY = "a" * 64


@dataclass
class Row:
    """One packed sequence."""

    id: str
    tokens: list[int]
    starts: list[int]
    views: int
    segments: list[int] = field(default_factory=list)
    is_next: bool = False

    def mask(self, pass_index: int, rule: MaskingRule = RULE) -> tuple[list[int], list[int]]:
        """Positions and replacements of a pass."""
        ids = np.array(self.tokens, dtype=np.uint32)
        positions, tokens = choose_and_replace(ids, rule, SAMPLER, SEED, pass_index, self.id)
        return positions.tolist(), tokens.tolist()


def make_row(name: str, length: int, views: int = 2) -> Row:
    """A sequence of a length of its own, with `</s>` inside it where there is room."""
    body = [4 + (sum(name.encode()) * 7 + i * i) % (MASK - 4) for i in range(length - 2)]
    starts = [1]
    if len(body) > 6:
        body[3] = 2
        starts.append(5)
    segments = [0] * (length // 2) + [1] * (length - length // 2)
    return Row(name, [0, *body, 2], starts, views, segments, bool(length % 2))


def packing(length: int = 64, mode: str = "stream", rows: int = ROWS) -> Packing:
    return Packing(rows, length, mode, VOCABULARY)


def masks_of(rows: Sequence[Row]) -> list[list[tuple[list[int], list[int]]]]:
    """The stored views of rows, as `Row.mask` gives them one by one."""
    tokens = np.concatenate([np.array(row.tokens, dtype=np.uint32) for row in rows])
    offsets = np.cumsum([0, *(len(row.tokens) for row in rows)])
    found: list[list[tuple[list[int], list[int]]]] = [[] for _ in rows]
    for view in range(max(row.views for row in rows)):
        keys = mask_keys(SEED, view, [row.id for row in rows])
        masks = mask_sequences(tokens, offsets, keys, RULE, SAMPLER)
        for number, row in enumerate(rows):
            part = slice(int(masks.offsets[number]), int(masks.offsets[number + 1]))
            if view < row.views:
                found[number].append((masks.positions[part].tolist(), masks.tokens[part].tolist()))
    return found


def table_of(rows: Sequence[Row], language: str, made: Packing) -> pa.Table:
    """Rows in the schema of packed sequences."""
    schema = PackedFormat(made.rows, made.mode, made.length, made.vocabulary or "").schema
    masks = masks_of(rows)
    columns = {
        "sequence_id": [row.id for row in rows],
        "language": [language] * len(rows),
        "tokens": [row.tokens for row in rows],
        "document_starts": [row.starts for row in rows],
        "mask_positions": [[positions for positions, _ in views] for views in masks],
        "mask_tokens": [[tokens for _, tokens in views] for views in masks],
        "document_ids": [["x"] * len(row.starts) for row in rows],
        "segments": [row.segments for row in rows],
        "is_next": [row.is_next for row in rows],
    }
    return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def write(
    store: Store, key: str, rows: Sequence[Row], made: Packing, scratch: Path, language: str = "en"
) -> str:
    """Put rows on the store as a packed file; returns its key."""
    path = scratch / "packed.parquet"
    scratch.mkdir(parents=True, exist_ok=True)
    write_parquet(table_of(rows, language, made), path)
    store.publish_file(path, key)
    return key


def damage(path: Path) -> None:
    """Flip a bit in the last page of a packed file's ids."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    [ids] = [column for column in columns if column.path_in_schema.startswith("tokens.")]
    begin = ids.dictionary_page_offset if ids.has_dictionary_page else ids.data_page_offset
    content = bytearray(path.read_bytes())
    content[begin + ids.total_compressed_size - 9] ^= 1
    path.write_bytes(content)
