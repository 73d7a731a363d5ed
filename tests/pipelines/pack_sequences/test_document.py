from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.hashing import generator
from pipelines.core.vocabulary import BOS_ID, EOS_ID
from pipelines.pack_sequences import DocumentPacker
from pipelines.pack_sequences.document import best_fit
from tests.pipelines.pack_sequences.made import (
    DOCUMENTS,
    Row,
    pack,
    rows_of,
    spans_of,
    text_of,
)


@pytest.mark.parametrize(("tokens", "rows"), [(6, 1), (127, 2), (128, 2), (129, 2), (300, 3)])
def test_a_tiny_corpus_packs_to_short_rows_and_loses_nothing(tokens: int, rows: int) -> None:
    """C32."""
    found = pack(DocumentPacker(128), [[tokens]])

    assert len(found) == rows
    assert sorted(token for row in found for token in row.ordinary) == text_of([[tokens]])
    assert sorted(len(row.tokens) for row in found)[1:] == [128] * (rows - 1)


def test_documents_lie_side_by_side_each_in_its_own_marks() -> None:
    """12 places: 8 + 4, 7 + 5, and the 2 that fit nowhere else."""
    rows = pack(DocumentPacker(12), [[6], [5], [], [3], [2], [1]])

    assert rows == [
        Row("d0:0", [0, 4, 5, 6, 7, 8, 9, 2, 0, 4004, 4005, 2], [0, 8], ["d0", "d4"]),
        Row(
            "d1:0",
            [0, 1004, 1005, 1006, 1007, 1008, 2, 0, 3004, 3005, 3006, 2],
            [0, 7],
            ["d1", "d3"],
        ),
        Row("d5:0", [0, 5004, 2], [0], ["d5"]),
    ]


@given(DOCUMENTS, st.integers(3, 40), st.integers(1, 5), st.sampled_from([10, 50, 10_000]))
def test_every_token_is_in_one_chunk_and_no_two_chunks_overlap(
    documents: list[list[int]], length: int, at_once: int, window: int
) -> None:
    packer = DocumentPacker(length, window_tokens=window)
    rows = pack(packer, documents, at_once)

    chunks: dict[str, list[list[int]]] = {}
    for row in rows:
        assert len(row.tokens) <= length
        assert row.starts[0] == 0
        assert row.starts == [n for n, token in enumerate(row.tokens) if token == BOS_ID]
        for name, begin, end in zip(
            row.names, row.starts, [*row.starts[1:], len(row.tokens)], strict=True
        ):
            assert row.tokens[end - 1] == EOS_ID
            chunk = row.tokens[begin + 1 : end - 1]
            assert BOS_ID not in chunk and EOS_ID not in chunk
            assert chunk == list(range(chunk[0], chunk[0] + len(chunk)))
            chunks.setdefault(name, []).append(chunk)
        assert row.id == f"{row.names[0]}:{(row.tokens[1] - 4) % 1000}"
    assert len({row.id for row in rows}) == len(rows)
    for number, sentences in enumerate(documents):
        own = sorted(chunks.pop(f"d{number}", []))
        assert [token for chunk in own for token in chunk] == text_of(documents)[
            sum(map(sum, documents[:number])) : sum(map(sum, documents[: number + 1]))
        ]
        # Only what is longer than a sequence is cut, and into as few chunks as can be.
        assert len(own) == -(-sum(sentences) // (length - 2))
    assert not chunks and not packer.counters


@given(st.lists(st.integers(1, 40), max_size=60))
def test_bins_hold_what_fits_and_no_part_fits_into_an_earlier_bin(needs: list[int]) -> None:
    bins = best_fit(np.array(needs, dtype=np.int64), 40).tolist()

    filled = [
        sum(need for need, bin_ in zip(needs, bins, strict=True) if bin_ == number)
        for number in range(max(bins, default=-1) + 1)
    ]
    assert all(0 < size <= 40 for size in filled)
    # Any-fit: two bins that are both half empty would have been one.
    assert sum(size <= 20 for size in filled) <= 1
    # First-fit- and best-fit-decreasing need at most 11/9 of the best, and 6/9 bins more.
    assert len(filled) <= 11 / 9 * max(-(-sum(needs) // 40), sum(n > 20 for n in needs)) * 1.5 + 1


@given(st.lists(st.integers(1, 12), max_size=40))
def test_bins_are_filled_as_by_looking_at_every_bin(needs: list[int]) -> None:
    rooms: list[int] = []
    for need in sorted(needs, reverse=True):
        fitting = [room for room in rooms if room >= need]
        if fitting:
            rooms[rooms.index(min(fitting))] -= need
        else:
            rooms.append(12 - need)
    bins = best_fit(np.array(needs, dtype=np.int64), 12)
    filled = np.bincount(bins, weights=needs) if needs else np.empty(0)
    assert sorted(filled) == sorted(12 - room for room in rooms)


def test_the_least_room_that_is_enough_is_taken() -> None:
    assert best_fit(np.array([7, 5, 3]), 10).tolist() == [0, 1, 0]
    assert best_fit(np.array([3, 5, 7]), 10).tolist() == [0, 1, 0]


def test_natural_lengths_fill_more_than_99_percent_with_little_look_ahead() -> None:
    """Lengths as of web pages: lognormal, median 300 tokens, of which a third pass 510."""
    lengths = np.maximum(1, generator("lengths").lognormal(5.7, 1.1, 6000)).astype(int).tolist()
    rows = pack(
        DocumentPacker(512, window_tokens=2**19), [[length] for length in lengths], at_once=500
    )

    used = sum(len(row.tokens) for row in rows)
    assert used / (512 * len(rows)) > 0.99
    assert sum(len(row.ordinary) for row in rows) == sum(lengths)


def test_what_waits_does_not_grow_with_the_file() -> None:
    """500 documents of 0.6 of a sequence, of which no two fit together, wait no longer than many
    others would."""
    packer = DocumentPacker(100, window_tokens=5000)
    given, gone = 0, 0
    for number in range(500):
        rows = rows_of(packer.feed(spans_of([[60]], number)))
        given, gone = given + 60, gone + sum(len(row.ordinary) for row in rows)
        assert given - gone <= 5000
    assert gone > 20_000
