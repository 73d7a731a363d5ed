from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.train_vocabulary.merge import MERGED_SCHEMA
from pipelines.train_vocabulary.weigh import Selection, select, weigh, weights
from pipelines.train_vocabulary.word_tables import ranges, word_hashes

Counts = dict[str, dict[int, int]]
"""Word -> language number -> count."""


def merged_table(counts: Counts) -> pa.Table:
    words = pa.array(list(counts), pa.string())
    hashes = dict(zip(counts, word_hashes(words).tolist(), strict=True))
    rows = [
        (hashes[word], word, language, count)
        for word in sorted(counts, key=lambda word: (hashes[word], word))
        for language, count in sorted(counts[word].items())
    ]
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    return pa.table([list(column) for column in columns], schema=MERGED_SCHEMA)


def selected(counts: Counts, weight: list[float], most: int, parts: int = 1) -> Selection:
    whole = merged_table(counts)
    hashes = whole["hash"].to_numpy()
    tables = [
        whole.filter(pa.array((hashes >= np.uint64(low)) & (hashes <= np.uint64(high - 1))))
        for low, high in ranges(parts)
    ]
    reads = [partial(lambda table: table, table) for table in tables]
    return select(reads, np.array(weight), 7, most)


def test_weights_give_the_shares_in_characters_and_the_size_of_the_corpus() -> None:
    sizes, shares = {"en": 900, "sw": 100, "fi": 500}, {"en": 0.6, "sw": 0.2, "yo": 0.1}
    found = weights(sizes, shares)

    assert found == {
        "en": pytest.approx(0.75 * 1000 / 900),
        "sw": pytest.approx(0.25 * 1000 / 100),
    }
    assert sum(found[tag] * sizes[tag] for tag in found) == pytest.approx(1000)


def test_counts_of_several_languages_are_weighed_and_summed() -> None:
    counts: Counts = {"both": {0: 10, 1: 3}, "one": {0: 4}, "other": {1: 1}}
    found = weigh(merged_table(counts), np.array([2.0, 5.0]), 7)
    assert dict(zip(found.words.to_pylist(), found.counts.tolist(), strict=True)) == {
        "both": 35,
        "one": 8,
        "other": 5,
    }


def test_a_fraction_is_drawn_by_the_word_so_that_sums_stay() -> None:
    counts: Counts = {f"word{n}": {0: 1} for n in range(40_000)}
    for weight in (0.18, 2.25):
        found = weigh(merged_table(counts), np.array([weight]), 7).counts
        assert set(found.tolist()) == {int(weight), int(weight) + 1}
        assert found.mean() == pytest.approx(weight, abs=0.008)  # 3.5 sigma
    other = weigh(merged_table(counts), np.array([0.18]), 8).counts
    assert (other != weigh(merged_table(counts), np.array([0.18]), 7).counts).any()


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.dictionaries(st.integers(0, 2), st.integers(1, 4), min_size=1),
        max_size=30,
    ),
    st.integers(1, 12),
)
def test_the_most_frequent_words_are_taken_and_the_rest_is_said(counts: Counts, most: int) -> None:
    weight = [1.0, 2.0, 0.0]
    one, four = (selected(counts, weight, most, parts) for parts in (1, 4))

    total = {
        word: sum(int(weight[language]) * count for language, count in by.items())
        for word, by in counts.items()
    }
    best = sorted((count for count in total.values() if count), reverse=True)
    taken = dict(zip(one.table["word"].to_pylist(), one.table["count"].to_pylist(), strict=True))
    assert sorted(taken.values(), reverse=True) == best[:most]
    assert all(total[word] == count for word, count in taken.items())
    assert one.table["count"].to_pylist() == sorted(taken.values(), reverse=True)
    left: Counter[int] = Counter()
    for word in counts.keys() - taken.keys():
        for language, count in counts[word].items():
            left[language] += count * len(word)
    assert one.left_out == {0: left[0], 1: left[1]}
    assert one.distinct == len(counts)
    assert one.not_drawn == sum(not count for count in total.values())
    assert one.cut == max(0, len(best) - most)
    assert one.table.equals(four.table)
    assert (one.left_out, one.cut) == (four.left_out, four.cut)


def test_of_equal_words_the_same_are_taken_however_many_ranges_there_are() -> None:
    counts: Counts = {f"word{n}": {0: 1} for n in range(1000)}
    whole = selected(counts, [1.0], 100)
    assert len(whole.table) == 100
    for parts in (2, 8, 64):
        assert selected(counts, [1.0], 100, parts).table.equals(whole.table)
