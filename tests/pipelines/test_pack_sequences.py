from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.records import sequence_schema
from pipelines.core.store import Store, local_file, write_parquet
from pipelines.core.vocabulary import BOS_ID, EOS_ID
from pipelines.pack_sequences import PackedSequence, pack, sequences_to_table, split_held_out


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint32)


def of_length(length: int) -> np.ndarray:
    return np.arange(10, 10 + length, dtype=np.uint32)


def ordinary(sequence: PackedSequence) -> list[int]:
    return [int(i) for i in sequence.tokens if i not in (BOS_ID, EOS_ID)]


@pytest.mark.parametrize(("tokens", "rows"), [(6, 1), (127, 2), (128, 2), (129, 2), (300, 3)])
def test_a_tiny_corpus_packs_to_short_rows_and_loses_nothing(tokens: int, rows: int) -> None:
    sequences = list(pack([("d", of_length(tokens))], 128))

    assert len(sequences) == rows
    assert sum(len(s.tokens) - 2 for s in sequences) == tokens
    assert all(len(s.tokens) == 128 for s in sequences[:-1])


def test_documents_follow_each_other_with_one_separator() -> None:
    [first, second] = pack([("a", ids(10, 11)), ("b", ids(20, 21, 22))], 7)

    assert first.tokens.tolist() == [BOS_ID, 10, 11, EOS_ID, 20, 21, EOS_ID]
    assert (first.document_starts, first.document_ids) == ([1, 4], ["a", "b"])
    assert second.tokens.tolist() == [BOS_ID, 22, EOS_ID]
    assert (first.id, second.id) == ("a:0", "b:2")


def test_no_separator_at_the_edge_of_a_sequence() -> None:
    [first, second] = pack([("a", ids(10, 11, 12, 13)), ("b", ids(20))], 7)

    assert first.tokens.tolist() == [BOS_ID, 10, 11, 12, 13, EOS_ID]
    assert second.tokens.tolist() == [BOS_ID, 20, EOS_ID]


DOCUMENTS = st.lists(st.lists(st.integers(4, 99), max_size=30), max_size=12)


@given(DOCUMENTS, st.integers(3, 20))
def test_ordinary_tokens_in_are_ordinary_tokens_out_in_order(
    texts: list[list[int]], length: int
) -> None:
    named = [(f"d{n}", ids(*text)) for n, text in enumerate(texts)]

    sequences = list(pack(named, length))

    assert [i for s in sequences for i in ordinary(s)] == [i for text in texts for i in text]
    assert all(3 <= len(s.tokens) <= length for s in sequences)
    assert all(s.tokens[0] == BOS_ID and s.tokens[-1] == EOS_ID for s in sequences)
    assert len({s.id for s in sequences}) == len(sequences)
    for s in sequences:
        assert len(s.document_starts) == len(s.document_ids) >= 1
        assert all(s.tokens[start] not in (BOS_ID, EOS_ID) for start in s.document_starts)
        assert sum(s.tokens[1:-1] == EOS_ID) == len(s.document_starts) - 1


def test_wide_ids_come_back_as_they_were(store: Store) -> None:
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
    assert read.schema.field("tokens").type.value_type == "uint32"
    assert read.schema == sequence_schema(read.schema.field("tokens").type.value_type)


def test_a_small_vocabulary_is_stored_in_16_bits_and_no_id_may_pass_it() -> None:
    small = PackedSequence("s", ids(0, 5, 2), [1], ["d"])
    table = sequences_to_table([small], "en", [[]], rows=12_002)
    assert table.schema.field("tokens").type.value_type == "uint16"
    with pytest.raises(ValueError, match="id 5 is not below the vocabulary's 5 rows"):
        sequences_to_table([small], "en", [[]], rows=5)


def test_held_out_documents_depend_on_their_id_alone_and_some_are_left() -> None:
    names = [f"d{n}" for n in range(2000)]
    held_out = split_held_out(names, 0.1, seed=7)

    assert 150 < len(held_out) < 250
    assert held_out & set(names[:500]) == split_held_out(names[:500], 0.1, seed=7)
    assert split_held_out(["only"], 0.49999, seed=7) == set()
    assert split_held_out([n for n in names if n in held_out], 0.1, seed=7) == set()
