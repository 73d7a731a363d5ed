"""Tables that grow batch by batch: whole at the end, nothing after an error, memory bounded."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core import attempt as attempts
from pipelines.core.attempt import Attempt
from pipelines.core.store import ROWS_PER_GROUP, Store

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.large_string())])


def rows(start: int, count: int, width: int = 3) -> pa.Table:
    numbers = list(range(start, start + count))
    return pa.table({"n": numbers, "text": ["x" * width] * count}, schema=SCHEMA)


def test_batches_of_one_name_become_one_table_in_their_order(store: Store) -> None:
    attempt = Attempt(store, "out", "id")
    with attempt.tables(SCHEMA) as out:
        for start in range(0, 5000, 500):
            out.write("sw/part", rows(start, 500), part="documents", language="sw")
            out.write("de/part", rows(start, 1), part="documents", language="de")
        assert store.keys("out") == []

    assert [(o.path, o.rows, o.labels["language"]) for o in attempt.outputs] == [
        ("out/de/part.parquet", 10, "de"),
        ("out/sw/part.parquet", 5000, "sw"),
    ]
    assert store.read_table("out/sw/part.parquet")["n"].to_pylist() == list(range(5000))
    with store.open("out/sw/part.parquet") as file:
        metadata = pq.read_metadata(file)
    assert all(
        metadata.row_group(i).num_rows <= ROWS_PER_GROUP for i in range(metadata.num_row_groups)
    )
    groups = list(store.iterate_tables("out/sw/part.parquet", ["n"]))
    assert pa.concat_tables(groups)["n"].to_pylist() == list(range(5000))


def test_after_an_error_no_table_is_published(store: Store) -> None:
    attempt = Attempt(store, "out", "id")
    with pytest.raises(OSError, match="record 3"), attempt.tables(SCHEMA) as out:
        out.write("part", rows(0, 3))
        raise OSError("record 3")
    assert (store.keys("out"), attempt.outputs) == ([], [])


def test_what_is_held_back_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "BUFFERED_BYTES", 100_000)
    attempt = Attempt(store, "out", "id")
    held = []
    with attempt.tables(SCHEMA) as out:
        for start in range(400):
            out.write(f"part-{start % 7}", rows(start, 1, width=2000))
            held.append(sum(part.waiting_bytes for part in out.parts.values()))
    assert max(held) <= 100_000
    assert any(later < earlier for earlier, later in pairwise(held)), "something was written out"
    assert sum(output.rows or 0 for output in attempt.outputs) == 400


def test_the_same_batches_give_the_same_bytes(store: Store) -> None:
    digests = []
    for folder in ("a", "b"):
        attempt = Attempt(store, folder, "id")
        with attempt.tables(SCHEMA) as out:
            for start in range(0, 9000, 900):
                out.write(f"part-{start % 2}", rows(start, 900))
        digests.append([output.sha256 for output in attempt.outputs])
    assert digests[0] == digests[1]


def test_an_unshared_step_says_so(store: Store) -> None:
    with pytest.raises(LookupError, match="shares nothing"):
        _ = Attempt(store, "out", "id").shared
