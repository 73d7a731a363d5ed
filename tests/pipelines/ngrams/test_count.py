from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ngrams import runs
from pipelines.ngrams.count import Counts, count_ngrams, with_rare_words_unknown
from pipelines.ngrams.runs import (
    blocks_of,
    counts_from,
    local_run,
    merge_in_rounds,
    merge_runs,
    write_run,
)
from tests.pipelines.ngrams.reference import windows, zipf_sentences

sentences_of_few_words = st.lists(st.lists(st.sampled_from("abcdé天"), max_size=6), max_size=12)


def as_dictionary(counts: Counts) -> dict[tuple[str, ...], int]:
    found = {}
    for order in range(1, counts.tables.order + 1):
        rows = counts.tables.words(order).tolist()
        for row, count in zip(rows, counts.counts[order - 1].tolist(), strict=True):
            found[tuple(counts.tables.vocabulary[word] for word in row)] = count
    return found


def expected(sentences: list[list[str]], order: int) -> dict[tuple[str, ...], int]:
    every: Counter[tuple[str, ...]] = Counter()
    for size in range(1, order + 1):
        every.update(windows(sentences, size))
    return {("<unk>",): 0, ("<s>",): 0, ("</s>",): 0, **every}


@settings(deadline=None)
@given(sentences=sentences_of_few_words, order=st.integers(1, 5))
def test_counts_are_those_of_all_windows(sentences: list[list[str]], order: int) -> None:
    counts = count_ngrams(sentences, order)

    assert as_dictionary(counts) == expected(sentences, order)
    assert counts.sentences == len(sentences)


def test_special_words_in_a_text_are_unknown_words() -> None:
    counts = as_dictionary(count_ngrams([["a", "<s>", "</s>"]], 2))

    assert counts["<s>",] == counts["</s>",] == 1
    assert counts["<unk>",] == 2
    assert counts["<unk>", "<unk>"] == 1


@settings(deadline=None)
@given(sentences=sentences_of_few_words, order=st.integers(1, 4), least=st.integers(1, 4))
def test_rare_words_count_as_if_the_text_had_unknown_words_there(
    sentences: list[list[str]], order: int, least: int
) -> None:
    seen = Counter(word for sentence in sentences for word in sentence)
    replaced = [[w if seen[w] >= least else "<unk>" for w in s] for s in sentences]

    counts = with_rare_words_unknown(count_ngrams(sentences, order), least)

    assert as_dictionary(counts) == expected(replaced, order)


def run_files(folder: Path, sentences: list[list[str]], order: int, shards: int) -> list[Path]:
    paths = []
    for number in range(shards):
        counts = count_ngrams(sentences[number::shards], order)
        paths.append(folder / f"run-{shards}-{number}.parquet")
        write_run(paths[-1], counts.tables.vocabulary, order, blocks_of(counts))
    return paths


@settings(max_examples=30, deadline=None)
@given(
    sentences=sentences_of_few_words,
    order=st.integers(1, 7),
    shards=st.integers(1, 5),
    at_once=st.integers(1, 40),
)
def test_merged_files_hold_the_counts_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    sentences: list[list[str]],
    order: int,
    shards: int,
    at_once: int,
) -> None:
    paths = run_files(tmp_path_factory.mktemp("runs"), sentences, order, shards)

    vocabulary, blocks = merge_runs(paths, at_once)
    merged = counts_from(vocabulary, order, blocks)

    assert as_dictionary(merged) == expected(sentences, order)


def test_one_file_and_seven_and_several_rounds_merge_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "FAN_IN", 2)
    sentences = zipf_sentences(5, 400, 50)
    written = []
    for shards in (1, 7):
        with ExitStack() as stack:
            paths = run_files(tmp_path, sentences, 4, shards)
            vocabulary, blocks = merge_in_rounds([partial(local_run, p) for p in paths], 4, stack)
            counts = counts_from(vocabulary, 4, blocks)
        target = tmp_path / f"merged-{shards}.parquet"
        write_run(target, counts.tables.vocabulary, 4, blocks_of(counts))
        written.append(target.read_bytes())

    assert written[0] == written[1]


def test_a_merge_holds_no_more_rows_than_it_is_allowed(tmp_path: Path) -> None:
    paths = run_files(tmp_path, zipf_sentences(6, 2000, 300), 3, 4)

    _, blocks = merge_runs(paths, rows_at_once=400)
    sizes = [len(block.counts) for block in blocks]

    assert max(sizes) <= 400
    assert sum(sizes) > 5000


@pytest.mark.parametrize("words", [400, 3000])
def test_ngrams_that_need_several_numbers_are_merged_by_all_their_words(
    tmp_path: Path, words: int
) -> None:
    """400 words take 9 bits: seven of them would fill a number without room for the order."""
    many = [[f"v{n}", f"v{n + 1}", f"v{n + 2}"] for n in range(words)]
    sentences = [[*s, "x", s[0], "y", s[1]] for s in many]
    paths = run_files(tmp_path, sentences, 7, 3)

    vocabulary, blocks = merge_runs(paths, rows_at_once=words)
    merged = counts_from(vocabulary, 7, blocks)

    assert as_dictionary(merged) == expected(sentences, 7)
