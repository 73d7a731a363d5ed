"""Files of vectors, whole under their name or not there at all."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.output import write


class VectorFile(Protocol):
    """Something vectors are written to."""

    def write(self, texts: Sequence[str], vectors: np.ndarray[Any, Any]) -> None:
        """Add vectors, float32, shape (texts, size)."""


@contextmanager
def vector_file(target: Path | None, size: int) -> Iterator[VectorFile]:
    """A file by the ending of its name; it gets the name when the block ends well.

    Args:
        target: None is the standard output, JSON lines.
        size: numbers of a vector.
    """
    if target is None:
        yield _Terminal()
        return
    attempt = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    kind = target.suffix.lower()
    try:
        with attempt.open("w+b") as file:
            if kind == ".npy":
                yield (array := _Array(file, size))
                array.finish()
            elif kind == ".parquet":
                with vector_table(file, size) as table:
                    yield table
            else:
                yield _Lines(file)
        os.replace(attempt, target)
    finally:
        attempt.unlink(missing_ok=True)


class _Terminal:
    def write(self, texts: Sequence[str], vectors: np.ndarray[Any, Any]) -> None:
        for line in _json_lines(texts, vectors):
            write(line + "\n")


class _Lines:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, texts: Sequence[str], vectors: np.ndarray[Any, Any]) -> None:
        for line in _json_lines(texts, vectors):
            self._file.write(line.encode("utf-8") + b"\n")


def _json_lines(texts: Sequence[str], vectors: np.ndarray[Any, Any]) -> Iterator[str]:
    for text, vector in zip(texts, vectors, strict=True):
        # The shortest decimal that is this float32, so that nothing is lost or made up.
        numbers = ", ".join(np.format_float_positional(x, trim="0") for x in vector)
        yield f'{{"text": {json.dumps(text)}, "vector": [{numbers}]}}'


class _Array:
    """NumPy's format: a header with the number of rows, which is known at the end only."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size, self._rows = file, size, 0
        self._header()

    def _header(self) -> None:
        # NumPy leaves room for more rows in a header, so its size does not change.
        self._file.seek(0)
        shape = (self._rows, self._size)
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def write(self, texts: Sequence[str], vectors: np.ndarray[Any, Any]) -> None:
        self._rows += len(vectors)
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    def finish(self) -> None:
        self._header()


class _Table:
    def __init__(self, file: IO[bytes], size: int) -> None:
        vector = pa.list_(pa.float32(), size)
        self.schema = pa.schema([("text", pa.string()), ("vector", vector)])
        self.writer = pq.ParquetWriter(file, self.schema, compression="zstd")

    def write(self, texts: Sequence[str], vectors: np.ndarray[Any, Any]) -> None:
        numbers = pa.array(np.ascontiguousarray(vectors).reshape(-1), pa.float32())
        lists = pa.FixedSizeListArray.from_arrays(numbers, vectors.shape[1])
        self.writer.write_table(pa.table([pa.array(texts, pa.string()), lists], self.schema))


@contextmanager
def vector_table(file: IO[bytes], size: int) -> Iterator[_Table]:
    """A table whose writer is closed while its file is open.

    One that is still open when Python takes it away writes into a closed file, and says so.
    """
    table = _Table(file, size)
    try:
        yield table
        table.writer.close()
    except BaseException:
        with suppress(Exception):  # what went wrong before is what is said
            table.writer.close()
        raise
