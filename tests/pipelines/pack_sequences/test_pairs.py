from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.hashing import generator
from pipelines.core.vocabulary import BOS_ID, EOS_ID
from pipelines.pack_sequences import PairPacker
from tests.pipelines.pack_sequences.made import (
    DOCUMENTS,
    Row,
    pack,
    rows_of,
    spans_of,
    text_of,
)


def segments_of(row: Row) -> tuple[list[int], list[int]]:
    """A and B, from a row whose marks and segments are right."""
    assert row.segments is not None
    size = row.segments.index(1) - 2
    first, second = row.tokens[1 : 1 + size], row.tokens[2 + size : -1]
    assert row.tokens == [BOS_ID, *first, EOS_ID, *second, EOS_ID]
    assert row.segments == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert row.starts == [1, 2 + len(first)]
    return first, second


@given(DOCUMENTS, st.integers(8, 40), st.integers(1, 5), st.sampled_from([10, 60, 10_000]))
def test_every_token_is_in_one_segment_of_its_own_and_the_rest_is_counted(
    documents: list[list[int]], length: int, at_once: int, window: int
) -> None:
    packer = PairPacker(length, 7, window_tokens=window)
    rows = pack(packer, documents, at_once)

    own: list[int] = []
    borrowed = 0
    for row in rows:
        assert len(row.tokens) <= length
        first, second = segments_of(row)
        assert first and second
        assert first == list(range(first[0], first[0] + len(first)))
        assert second == list(range(second[0], second[0] + len(second)))
        own += first
        assert row.id == f"{row.names[0]}:{(first[0] - 4) % 1000}"
        assert [f"d{part[0] // 1000}" for part in (first, second)] == row.names
        if row.is_next:
            assert second[0] == first[-1] + 1
            own += second
        else:
            assert row.names[0] != row.names[1]
            borrowed += len(second)
    whole, dropped = text_of(documents), packer.counters["dropped.lone_tokens"]
    assert len(own) + dropped == len(whole)
    assert len(set(own)) == len(own) and set(own) <= set(whole)
    assert borrowed == packer.counters["borrowed_tokens"]
    assert len({row.id for row in rows}) == len(rows)
    assert packer.counters["pairs_next"] == sum(bool(row.is_next) for row in rows)
    assert packer.counters["pairs_other"] == sum(not row.is_next for row in rows)
    if sum(bool(sum(sentences)) for sentences in documents) > 1:
        assert not dropped


@pytest.mark.parametrize("tokens", [6, 127, 128, 129, 300])
def test_a_tiny_corpus_of_one_document_has_only_true_pairs_and_loses_nothing(tokens: int) -> None:
    """C32."""
    packer = PairPacker(128, 7)
    rows = pack(packer, [[tokens]])

    assert rows and all(row.is_next for row in rows)
    assert sorted(token for row in rows for token in row.ordinary) == text_of([[tokens]])
    assert packer.counters["pairs_next_for_want_of_documents"] <= packer.counters["pairs_next"]
    assert packer.counters["dropped.lone_tokens"] == 0


def test_a_lone_token_is_dropped_and_counted_and_no_text_gives_no_row() -> None:
    packer = PairPacker(16, 7)
    assert pack(packer, [[1]]) == []
    assert packer.counters["dropped.lone_tokens"] == 1
    assert pack(PairPacker(16, 7), [[], []]) == []


def natural(count: int) -> list[list[int]]:
    rng = generator("sentences")
    return [(1 + rng.poisson(18, size=1 + rng.poisson(12))).tolist() for _ in range(count)]


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_share_of_true_pairs_is_what_was_asked_for(share: float) -> None:
    rows = pack(PairPacker(128, 7, true_next_share=share), natural(900))

    found = sum(bool(row.is_next) for row in rows)
    deviation = (len(rows) * share * (1 - share)) ** 0.5
    assert len(rows) > 2000
    assert abs(found - share * len(rows)) < 4 * deviation


def test_lengths_do_not_tell_true_pairs_from_others_and_some_are_short() -> None:
    rows = pack(PairPacker(128, 7), natural(900))
    sizes = {
        kind: [len(row.tokens) for row in rows if row.is_next is kind] for kind in (True, False)
    }
    means = {kind: sum(found) / len(found) for kind, found in sizes.items()}
    assert abs(means[True] - means[False]) < 8

    everything = sizes[True] + sizes[False]
    none_short = [
        len(row.tokens) for row in pack(PairPacker(128, 7, short_share=0.0), natural(900))
    ]
    assert sum(n < 64 for n in everything) > sum(n < 64 for n in none_short) + 50


def test_sentences_stay_whole_and_other_documents_are_drawn_evenly() -> None:
    documents = natural(40)
    bounds = {
        1000 * n + 4 + sum(sentences[:i])
        for n, sentences in enumerate(documents)
        for i in range(len(sentences) + 1)
    }
    drawn: Counter[str] = Counter()
    for seed in range(30):
        for row in pack(PairPacker(512, seed), documents):
            first, second = segments_of(row)
            assert first[0] in bounds and second[0] in bounds
            assert first[-1] + 1 in bounds
            if not row.is_next:
                drawn[row.names[1]] += 1
    expected = drawn.total() / 40
    chi_square = sum((drawn[f"d{n}"] - expected) ** 2 / expected for n in range(40))
    assert chi_square < 72  # 39 degrees of freedom: passed by chance once in a thousand


def test_a_pair_depends_on_the_seed_and_the_documents_of_its_file() -> None:
    documents = natural(60)
    rows = pack(PairPacker(128, 7), documents)
    assert rows == pack(PairPacker(128, 7), documents, at_once=7)
    assert rows != pack(PairPacker(128, 8), documents)


def test_only_a_borrowed_sentence_is_cut_and_what_is_cut_is_counted() -> None:
    """Sentences of 6 tokens in rows with room for 13: where A has two, one of B has place for 1."""
    packer = PairPacker(16, 7, true_next_share=0.01, short_share=0.0)
    rows = pack(packer, [[6, 6]] * 40)
    cut = 0
    for row in rows:
        first, second = segments_of(row)
        if not row.is_next:
            cut += 6 - len(second) if len(second) < 6 else 0
        assert len(first) in (6, 12) or row.is_next
    assert packer.counters["borrowed_tokens_cut"] == cut > 0


def test_what_waits_does_not_grow_with_the_file() -> None:
    packer = PairPacker(100, 7, window_tokens=3000)
    given, gone = 0, 0
    for number in range(300):
        rows = rows_of(packer.feed(spans_of([[30, 20, 10]], number)))
        own = sum(len(row.ordinary) for row in rows)
        given, gone = given + 60, gone + own
        assert given - (gone - packer.counters["borrowed_tokens"]) <= 3000
    assert gone > 14_000
