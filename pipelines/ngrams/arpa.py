"""Back-off models in logarithms, and their ARPA files.

The ARPA format, as SRILM's ngram-format(5) and kenlm have it: a header with the number of n-grams
of each order, then for each order its lines `log10 probability TAB words [TAB log10 backoff]`.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ngrams.smoothing import Model
from pipelines.ngrams.tables import Tables

NEVER = -99.0
"""What stands for the logarithm of 0: <s> is never predicted."""
DECIMALS = 10
"""Enough for a probability to come back within 2.4e-10 of itself."""
ROWS_AT_ONCE = 1 << 18

Logs = npt.NDArray[np.floating[Any]]


@dataclass
class LogModel:
    """A model in back-off form (see smoothing.py), in log10."""

    tables: Tables
    probabilities: list[Logs]
    backoffs: list[Logs]


def in_log10(model: Model) -> LogModel:
    """The logarithms of a model, rounded as ARPA files hold them."""
    return LogModel(
        model.tables,
        [_rounded(values) for values in model.probabilities],
        [_rounded(values) for values in model.backoffs],
    )


def _rounded(values: npt.NDArray[np.float64]) -> Logs:
    with np.errstate(divide="ignore"):
        logs = np.log10(values)
    # Adding 0 turns -0.0 into 0.0, which other readers write without a sign.
    return np.where(values > 0, np.round(logs, DECIMALS) + 0.0, NEVER)


def write_arpa(path: Path, model: LogModel) -> None:
    """Write a model as an ARPA file; with the ending `.gz`, compressed."""
    tables = model.tables
    tokens = pa.array(tables.vocabulary, pa.string())
    with path.open("wb") as raw, compressed(raw, path, "wb") as file:
        file.write(b"\\data\\\n")
        for order, keys in enumerate(tables.keys, start=1):
            file.write(f"ngram {order}={len(keys)}\n".encode())
        for order in range(1, tables.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            words = tables.words(order)
            for begin in range(0, len(words), ROWS_AT_ONCE):
                rows = slice(begin, begin + ROWS_AT_ONCE)
                grams = pc.binary_join_element_wise(
                    *(tokens.take(pa.array(column)) for column in words[rows].T), " "
                )
                columns = [_numbers(model.probabilities[order - 1][rows]), grams]
                if order < tables.order:
                    columns.append(_numbers(model.backoffs[order - 1][rows]))
                lines = pc.binary_join_element_wise(*columns, "\t")
                file.write("\n".join(lines.to_pylist()).encode() + b"\n")
        file.write(b"\n\\end\\\n")


def compressed(raw: Any, path: Path, mode: str) -> Any:
    """A file object as the ending of its name says: through gzip for `.gz`, else itself."""
    if path.suffix != ".gz":
        return raw
    return gzip.GzipFile("", mode, compresslevel=4, fileobj=raw, mtime=0)


def _numbers(values: Logs) -> Any:
    return pa.array(values.astype(np.float64)).cast(pa.string())
