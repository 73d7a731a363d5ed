from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.vocabulary import BOS_ID, EOS_ID
from pipelines.pack_sequences import StreamPacker
from tests.pipelines.pack_sequences.made import DOCUMENTS, Row, pack, text_of


@pytest.mark.parametrize(("tokens", "rows"), [(6, 1), (127, 2), (128, 2), (129, 2), (300, 3)])
def test_a_tiny_corpus_packs_to_short_rows_and_loses_nothing(tokens: int, rows: int) -> None:
    """C32."""
    found = pack(StreamPacker(128), [[tokens]])

    assert len(found) == rows
    assert sum(len(row.tokens) - 2 for row in found) == tokens
    assert all(len(row.tokens) == 128 for row in found[:-1])


def test_no_text_gives_no_row() -> None:
    assert pack(StreamPacker(128), []) == []
    assert pack(StreamPacker(128), [[], []]) == []


def test_documents_follow_each_other_with_one_separator() -> None:
    [first, second] = pack(StreamPacker(7), [[2], [3]])

    assert first == Row("d0:0", [BOS_ID, 4, 5, EOS_ID, 1004, 1005, EOS_ID], [1, 4], ["d0", "d1"])
    assert second == Row("d1:2", [BOS_ID, 1006, EOS_ID], [1], ["d1"])


def test_no_separator_at_the_edge_of_a_sequence() -> None:
    [first, second] = pack(StreamPacker(7), [[4], [1]])

    assert first.tokens == [BOS_ID, 4, 5, 6, 7, EOS_ID]
    assert second.tokens == [BOS_ID, 1004, EOS_ID]


def slowly(documents: list[list[int]], length: int) -> list[Row]:
    """The same token by token, as the docstring says it."""
    rows: list[Row] = []
    body: list[int] = []
    row = Row("", [], [], [])

    def close() -> None:
        nonlocal row, body
        row.tokens = [BOS_ID, *body, EOS_ID]
        rows.append(row)
        row, body = Row("", [], [], []), []

    for number, sentences in enumerate(documents):
        for place in range(sum(sentences)):
            if body and len(body) == length - 2:
                close()
            if place == 0 and body:
                if length - 2 - len(body) < 2:
                    close()
                else:
                    body.append(EOS_ID)
            if not body:
                row.id = f"d{number}:{place}"
            if not body or place == 0:
                row.starts.append(len(body) + 1)
                row.names.append(f"d{number}")
            body.append(1000 * number + place + 4)
    if body:
        close()
    return rows


@given(DOCUMENTS, st.integers(3, 20), st.integers(1, 5))
def test_it_is_what_cutting_token_by_token_gives_in_any_batches(
    documents: list[list[int]], length: int, at_once: int
) -> None:
    assert pack(StreamPacker(length), documents, at_once) == slowly(documents, length)


@given(DOCUMENTS, st.integers(3, 20))
def test_ordinary_tokens_in_are_ordinary_tokens_out_in_order(
    documents: list[list[int]], length: int
) -> None:
    packer = StreamPacker(length)
    rows = pack(packer, documents)

    assert [token for row in rows for token in row.ordinary] == text_of(documents)
    assert all(3 <= len(row.tokens) <= length for row in rows)
    assert all(row.tokens[0] == BOS_ID and row.tokens[-1] == EOS_ID for row in rows)
    assert len({row.id for row in rows}) == len(rows)
    for row in rows:
        assert len(row.starts) == len(row.names) >= 1
        assert all(row.tokens[start] not in (BOS_ID, EOS_ID) for start in row.starts)
        assert row.tokens[1:-1].count(EOS_ID) == len(row.starts) - 1
    assert not packer.counters
