"""Work of the steps between counting and training: what is counted where, and the sums.

A merged table holds a range of hashes over all files: columns `hash`, `word`, `language` (the
number of its tag in the plan) and `count`, sorted by the first three.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.core.attempt import Attempt
from pipelines.core.config import Config
from pipelines.core.manifest import FileRef, Output, read_json
from pipelines.core.shards import Unit
from pipelines.core.store import Store, local_file, parquet_writer
from pipelines.train_vocabulary.word_tables import (
    HASHES,
    ROWS_PER_GROUP,
    order_of,
    ranges,
    read_range_of,
    summed,
)

ROWS_AT_ONCE = 1 << 23
"""Rows of all files that a unit of the merge holds in memory, on average: 0.3 to 0.5 GB."""

MERGED_SCHEMA = pa.schema(
    [
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("word", pa.string(), nullable=False),
        pa.field("language", pa.int32(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
CHARACTERS_SCHEMA = pa.schema(
    [
        pa.field("language", pa.int32(), nullable=False),
        pa.field("code_point", pa.int32(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)


class CountedFile(Config):
    """The words of one file of documents."""

    ref: FileRef
    language: str
    rows: int


class WordPlan(Config):
    """The tables of words of a corpus, sorted by language and path."""

    files: list[CountedFile]

    @property
    def languages(self) -> list[str]:
        """Their tags, sorted; tables name a language by its number here."""
        return sorted({file.language for file in self.files})

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(file.rows for file in self.files)


def plan_of(outputs: Sequence[Output]) -> WordPlan:
    """The plan of the counting step's outputs with part="words"."""
    files = [
        CountedFile(ref=o.ref, language=o.labels["language"], rows=int(o.labels["rows"]))
        for o in outputs
    ]
    return WordPlan(files=sorted(files, key=lambda file: (file.language, file.ref.path)))


def read_plan(store: Store, ref: FileRef) -> WordPlan:
    """Read a plan back.

    Raises:
        DamagedObject: its bytes are not those that were written.
    """
    return WordPlan.model_validate(read_json(store, ref))


def write_plan(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the plan; it is a function of the unit's inputs."""
    plan = WordPlan.model_validate(unit.arguments["plan"])
    content = (plan.model_dump_json(indent=1) + "\n").encode("utf-8")
    attempt.write_bytes(f"plan-{attempt.unit_id}.json", content, part="plan")
    attempt.counters["files"] = len(plan.files)
    attempt.counters["rows"] = plan.rows


def merge_units(plan: FileRef, parts: int) -> list[Unit]:
    """One unit for each of `parts` equal ranges of hashes; a power of two."""
    return [
        Unit(f"{number + 1:05d}-of-{parts:05d}", (plan,), {"low": low, "high": high})
        for number, (low, high) in enumerate(ranges(parts))
    ]


def merge_range(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Sum the words of one range of hashes over all files, language by language."""
    low, high = unit.arguments["low"], unit.arguments["high"]
    assert 0 <= low < high <= HASHES
    plan = read_plan(attempt.store, unit.inputs[0])
    files: dict[str, list[str]] = defaultdict(list)
    for file in plan.files:
        files[file.language].append(file.ref.path)
    parts, characters = [], []
    for number, language in enumerate(plan.languages):
        tables = [read_range_of(attempt.store, key, low, high) for key in files[language]]
        table = summed(tables)
        attempt.counters[f"distinct_words/{language}"] += table.num_rows
        points, counts = count_characters(table["word"], table["count"].to_numpy())
        characters.append(_labelled(number, {"code_point": points, "count": counts}))
        place = pa.array(np.full(table.num_rows, number, dtype=np.int32))
        parts.append(table.add_column(2, MERGED_SCHEMA.field("language"), place))
    whole = pa.concat_tables([MERGED_SCHEMA.empty_table(), *parts]).combine_chunks()
    # Languages follow one another in order, and sorting leaves equal words as they are.
    whole = whole.take(order_of(whole))
    with local_file(".parquet") as path:
        with parquet_writer(path, MERGED_SCHEMA) as writer:
            writer.write_table(whole, row_group_size=ROWS_PER_GROUP)
        attempt.write_file(f"words-{attempt.unit_id}.parquet", path, part="merged")
    attempt.write_table(
        f"characters-{attempt.unit_id}",
        pa.concat_tables([CHARACTERS_SCHEMA.empty_table(), *characters]).combine_chunks(),
        part="characters",
    )


def _labelled(language: int, columns: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    size = len(columns["count"])
    arrays = {"language": np.full(size, language, dtype=np.int32), **columns}
    return pa.table(arrays, schema=CHARACTERS_SCHEMA)


def count_characters(
    words: pa.ChunkedArray, counts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Code points of words, rising, and how often each stands in the text.

    Args:
        counts: how often each word stands in the text, shape (words,).
    """
    total = np.zeros(0x110000, dtype=np.int64)
    for start in range(0, len(words), ROWS_PER_GROUP):
        texts = words.slice(start, ROWS_PER_GROUP).to_pylist()
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype="<i4")
        times = np.repeat(counts[start : start + len(texts)], [len(text) for text in texts])
        found, places = np.unique(codes, return_inverse=True)
        sums = np.zeros(len(found), dtype=np.int64)
        np.add.at(sums, places, times)
        total[found] += sums
    points = np.flatnonzero(total)
    return points.astype(np.int32), total[points]
