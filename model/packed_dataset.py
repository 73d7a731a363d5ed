"""Random access to packed sequences: row number in, masked sequence out.

The store's Parquet files are turned once into Arrow IPC files on the node's disk, which all its
workers map into memory: a random row costs no RAM and no decompression.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from pipelines.core.hashing import digest
from pipelines.core.masking import Ids, MaskingRule, UnigramSampler, choose_and_replace
from pipelines.core.store import ROWS_PER_GROUP, Store, damage_named
from pipelines.core.vocabulary import PAD_ID, check_ids

COLUMNS = ["sequence_id", "tokens", "mask_positions", "mask_tokens"]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MaskedSequence:
    """One sequence as the model sees it."""

    id: str
    inputs: Ids
    """Ids with masks applied, shape (tokens,)."""
    positions: Positions
    """Where something is to be predicted, shape (masked,)."""
    labels: Ids
    """The original ids there, shape (masked,)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of a micro-batch, padded to its longest sequence."""

    tokens: torch.Tensor
    """Masked ids, int64, shape (batch, tokens)."""
    masked: torch.Tensor
    """Positions in the flattened batch, int64, shape (masked,)."""
    labels: torch.Tensor
    """Original ids there, int64, shape (masked,)."""
    real_tokens: int
    """Tokens that are not padding."""


@dataclass(frozen=True)
class Masker:
    """How masks beyond the stored views are computed: as the packing stage computes its own."""

    rule: MaskingRule
    sampler: UnigramSampler
    seed: int


class PackedSequences:
    """The packed sequences of one language and part, over several files.

    Args:
        files: Arrow IPC files made by `cache_file`, in the record's order.
        masker: for passes beyond the stored views; None where only stored views are read.
    """

    def __init__(self, files: Sequence[Path], masker: Masker | None = None) -> None:
        self._batches: list[pa.RecordBatch] = []
        for path in files:
            reader = pa.ipc.open_file(pa.memory_map(str(path), "r"))
            self._batches += [reader.get_batch(i) for i in range(reader.num_record_batches)]
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._masker = masker

    def __len__(self) -> int:
        return int(self._starts[-1])

    def masked(self, row: int, pass_index: int = 0) -> MaskedSequence:
        """The sequence of a row under the masks of a pass.

        Pass p uses stored view p where there is one, else the same pure function of (seed, p,
        sequence id) that wrote the views.

        Raises:
            IndexError: there is no such row.
            ValueError: the view is not stored and there is no masker to compute it.
        """
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} is outside 0 ... {len(self) - 1}")
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        batch, inside = self._batches[number], row - int(self._starts[number])
        name = batch.column(0)[inside].as_py()
        tokens = _numbers(batch.column(1)[inside])
        views = batch.column(2)[inside].values
        if pass_index < len(views):
            positions = _numbers(views[pass_index])
            replacements: npt.NDArray[Any] = _numbers(batch.column(3)[inside].values[pass_index])
        elif self._masker is None:
            raise ValueError(f"sequence {name}: view {pass_index} is not among {len(views)} stored")
        else:
            chosen, replacements = choose_and_replace(
                tokens.astype(np.uint32),
                self._masker.rule,
                self._masker.sampler,
                self._masker.seed,
                pass_index,
                name,
            )
            positions = chosen.astype(np.int64)
        inputs = tokens.copy()
        inputs[positions] = replacements
        return MaskedSequence(
            name,
            inputs.astype(np.uint32),
            positions.astype(np.int64),
            tokens[positions].astype(np.uint32),
        )


def _numbers(scalar: pa.ListScalar) -> npt.NDArray[np.int64]:
    """The values of a list of integers, shape (length,)."""
    return scalar.values.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def collate(sequences: Sequence[MaskedSequence]) -> Batch:
    """Lay sequences out as a micro-batch; padding stands at the end."""
    longest = max(len(sequence.inputs) for sequence in sequences)
    tokens = np.full((len(sequences), longest), PAD_ID, dtype=np.int64)
    for i, sequence in enumerate(sequences):
        tokens[i, : len(sequence.inputs)] = sequence.inputs
    masked = [sequence.positions + i * longest for i, sequence in enumerate(sequences)]
    labels = [sequence.labels.astype(np.int64) for sequence in sequences]
    return Batch(
        torch.from_numpy(tokens),
        torch.from_numpy(np.concatenate(masked)),
        torch.from_numpy(np.concatenate(labels)),
        sum(len(sequence.inputs) for sequence in sequences),
    )


def cache_file(store: Store, key: str, folder: Path, rows: int) -> Path:
    """Bring one packed file to the node's disk as Arrow IPC; a file that is there is reused.

    Workers of a node agree through a lock, so one of them does the work.

    Args:
        key: Parquet file on the store; keys of packed files never change their content.
        folder: on the local disk.
        rows: rows of the vocabulary.

    Raises:
        ValueError: the file holds an id that is not below `rows`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{digest(store.url, key, rows)}.arrow"
    with (folder / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            attempt = target.with_suffix(".attempt")
            _convert(store, key, attempt, rows)
            os.replace(attempt, target)
    return target


def _convert(store: Store, key: str, target: Path, rows: int) -> None:
    with store.open(key) as file, damage_named(key):
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        schema = pa.schema([parquet.schema_arrow.field(name) for name in COLUMNS])
        with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in parquet.iter_batches(ROWS_PER_GROUP, columns=COLUMNS):
                for name in ("tokens", "mask_tokens"):
                    values = batch.column(name).flatten()
                    if pa.types.is_list(values.type):
                        values = values.flatten()
                    check_ids(values.to_numpy().astype(np.uint32), rows, f"{key}, column {name}")
                writer.write_batch(batch.select(COLUMNS))


def open_packed(
    store: Store,
    files: Mapping[str, Sequence[str]],
    folder: Path,
    rows: int,
    masker: Masker | None = None,
) -> dict[str, PackedSequences]:
    """Open the packed files of several languages.

    Args:
        files: keys by language.
        folder: where the node's cache lies.
    """
    return {
        language: PackedSequences([cache_file(store, key, folder, rows) for key in keys], masker)
        for language, keys in sorted(files.items())
    }
