from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.masking import Masks
from pipelines.core.records import PackedFormat, check_packed, check_widths, sequence_schema
from pipelines.core.shards import Attempt
from pipelines.core.store import Store, local_file, write_parquet
from pipelines.pack_sequences import packed_to_table
from pipelines.pack_sequences.parts import parts_of
from pipelines.pack_sequences.spans import offsets_of
from tests.pipelines.pack_sequences.single import PackedSequence, sequences_to_table, to_packed

SHA, OTHER = "ab" * 32, "cd" * 32


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint32)


def test_wide_ids_come_back_as_they_were(store: Store) -> None:
    """C34."""
    tokens = ids(0, 5, 65535, 65536, 65541, 250001, 2)
    table = sequences_to_table(
        [PackedSequence("s", tokens, [1], ["d"])],
        "en",
        [[(np.array([1], np.uint16), ids(250001))]],
        rows=250_002,
    )
    with local_file() as path:
        write_parquet(table, path)
        store.publish_file(path, "s.parquet")

    read = store.read_table("s.parquet")

    assert read["tokens"].to_pylist() == [tokens.tolist()]
    assert read["mask_tokens"].to_pylist() == [[[250001]]]
    assert read.schema == sequence_schema(pa.uint32())
    values = read["tokens"].chunk(0).values
    assert values.nbytes == len(tokens) * 4
    check_widths(read, check_packed(read.schema.metadata, 250_002, "s.parquet"), "s.parquet")


def test_a_small_vocabulary_is_stored_in_16_bits_and_no_id_may_pass_it() -> None:
    small = PackedSequence("s", ids(0, 5, 2), [1], ["d"])
    table = sequences_to_table([small], "en", [[]], rows=65_536)
    assert table.schema.field("tokens").type.value_type == "uint16"
    wide = sequences_to_table([small], "en", [[]], rows=65_537)
    assert wide.schema.field("tokens").type.value_type == "uint32"
    with pytest.raises(ValueError, match="id 5 is not below the vocabulary's 5 rows"):
        sequences_to_table([small], "en", [[]], rows=5)
    with pytest.raises(ValueError, match="id 9 is not below the vocabulary's 6 rows"):
        sequences_to_table([small], "en", [[(np.array([1], np.uint16), ids(9))]], rows=6)


def test_views_lie_row_by_row() -> None:
    sequences = [PackedSequence(f"s{n}", ids(0, *range(4, 8 + n), 2), [1], ["d"]) for n in range(3)]
    views = [
        Masks(np.arange(6, dtype=np.uint16) + v, ids(*range(10 * v, 10 * v + 6)), offsets_of(sizes))
        for v, sizes in enumerate([[1, 2, 3], [3, 0, 3]])
    ]
    stored = PackedFormat(100, "stream", 16, SHA)
    table = packed_to_table(to_packed(sequences), "sw", views, stored)
    assert table["mask_positions"].to_pylist() == [
        [[0], [1, 2, 3]],
        [[1, 2], []],
        [[3, 4, 5], [4, 5, 6]],
    ]
    assert table["mask_tokens"].to_pylist() == [
        [[0], [10, 11, 12]],
        [[1, 2], []],
        [[3, 4, 5], [13, 14, 15]],
    ]
    assert table["tokens"].to_pylist() == [sequence.tokens.tolist() for sequence in sequences]
    assert table["document_ids"].to_pylist() == [["d"]] * 3


def test_parts_of_many_sequences_are_the_sequences() -> None:
    sequences = [
        PackedSequence(f"s{n}", ids(0, *range(4, 5 + n), 2), [1] * (n % 3 + 1), ["d"] * (n % 3 + 1))
        for n in range(11)
    ]
    packed = to_packed(sequences)
    stored = PackedFormat(100, "stream", 16, SHA)
    whole = packed_to_table(packed, "sw", [], stored)
    parts = [packed_to_table(part, "sw", [], stored) for part in parts_of(packed, 4)]
    assert [part.num_rows for part in parts] == [4, 4, 3]
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()


@pytest.mark.parametrize(("mode", "rows"), [("stream", 250_002), ("pairs", 30_522)])
def test_a_file_says_what_it_is_and_foreign_vocabularies_are_refused(
    store: Store, mode: str, rows: int
) -> None:
    stored = PackedFormat(rows, mode, 512, SHA)
    attempt = Attempt(store, "packed", "unit")
    with attempt.tables(stored.schema):
        pass
    assert attempt.outputs == []
    with local_file() as path:
        pq.write_table(stored.schema.empty_table(), path)
        metadata = pq.ParquetFile(path).schema_arrow.metadata
    assert check_packed(metadata, rows, "f.parquet") == stored
    assert check_packed(metadata, rows, "f.parquet", SHA) == stored
    with pytest.raises(ValueError, match=rf"f\.parquet.*{rows} rows.*{SHA}.*with one of 100 rows"):
        check_packed(metadata, 100, "f.parquet")
    with pytest.raises(ValueError, match=f"f.parquet.*{SHA}, read with that of sha256 {OTHER}"):
        check_packed(metadata, rows, "f.parquet", OTHER)


def test_a_file_without_these_metadata_or_of_another_width_is_refused() -> None:
    good = PackedFormat(250_002, "stream", 512, SHA)
    metadata = {k.encode(): v.encode() for k, v in good.metadata.items()}
    with pytest.raises(ValueError, match=r"f\.parquet: its metadata are not those of packed"):
        check_packed(None, 250_002, "f.parquet")
    with pytest.raises(ValueError, match=r"not those of packed sequences \('babelmill.rows'\)"):
        check_packed({b"pandas": b"{}"}, 250_002, "f.parquet")
    with pytest.raises(ValueError, match="ids of 2 bytes, but a vocabulary of 250002 rows needs 4"):
        check_packed({**metadata, b"babelmill.id_bytes": b"2"}, 250_002, "f.parquet")
    narrow = sequence_schema(pa.uint16()).with_metadata(good.metadata).empty_table()
    with pytest.raises(ValueError, match="f.parquet, column tokens: ids of type uint16"):
        check_widths(narrow, good, "f.parquet")
