from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import pytest

from pipelines.core.manifest import StageRecord, read_stage
from pipelines.core.records import Document
from pipelines.core.shards import Step, Unit
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.deduplicate import groups
from pipelines.deduplicate.stage import deduplicate
from tests.pipelines.deduplicate.corpus import (
    NEAR,
    config,
    document,
    left,
    random_corpus,
    reference,
    run,
    survivors,
    word,
    write_kept,
)


def shown(documents: Sequence[Document]) -> list[tuple[str, str, dict[str, str]]]:
    return sorted((d.id, d.text, d.metadata) for d in documents)


def dropped(record: StageRecord) -> dict[str, int]:
    return {k: n for k, n in record.counters.items() if k.startswith("dropped") and "/" not in k}


SHORT = ["cat", "dog", "cat", "a sentence like this", "un deux trois", "天地人", "春夏秋"]


@pytest.mark.parametrize("paragraphs", [True, False])
def test_short_texts_are_only_duplicates_of_themselves(store: Store, paragraphs: bool) -> None:
    """Case C15, under the default settings."""
    kept, record = survivors(store, SHORT, paragraphs=paragraphs)

    assert kept == ["cat", "dog", "a sentence like this", "un deux trois", "天地人", "春夏秋"]
    assert dropped(record) == {"dropped.duplicate_documents": 1}
    assert read_stage(store, "r", "deduplicate-keys").counters["too_short_to_compare"] == 7


FACTS = [
    "Room 12",
    "Room 13",
    "Born 1901",
    "Born 1902",
    "The census of 1990 counted 4312 people in 877 houses on 31 December 1990.",
    "The census of 2011 counted 9788 people in 1203 houses on 15 November 2011.",
]


@pytest.mark.parametrize("paragraphs", [True, False])
def test_texts_that_differ_in_digits_are_not_the_same(store: Store, paragraphs: bool) -> None:
    """Case C15, its kind: short texts are only duplicates of themselves."""
    assert survivors(store, FACTS, paragraphs=paragraphs)[0] == FACTS


def test_digits_are_ignored_when_a_person_says_so(store: Store) -> None:
    texts = [f"Posted on {day} May 2019, page {day}\n\n{word(day)} text" for day in (10, 11, 12)]
    kept, record = survivors(store, texts, min_characters=1, ignore_digits=True)
    assert kept == [texts[0], *(f"{word(day)} text" for day in (11, 12))]
    assert dropped(record) == {"dropped_paragraphs.duplicate": 2}


def test_texts_as_long_as_a_shingle_are_compared_and_do_not_collapse(store: Store) -> None:
    texts = [
        "a b c d e",
        "a b c d f",
        "天地玄黃宇",
        "宙洪荒日月",
        "ab cd, ef? gh ij",
        "ab cd ef gh ij!",
    ]

    kept, record = survivors(store, texts)

    assert kept == texts[:5]
    assert dropped(record) == {"dropped.near_duplicates": 1}


def test_empty_documents_are_counted_and_go(store: Store) -> None:
    kept, record = survivors(store, ["", " \n\n\t", "text"])

    assert kept == ["text"]
    assert record.counters["dropped.empty_documents/en"] == 2


def test_a_seen_paragraph_is_taken_out_and_the_rest_stays(store: Store) -> None:
    texts = ["menu\n\nfirst text", "menu\n\nsecond text\n\nsecond text"]

    kept, record = survivors(store, texts, min_characters=1)

    assert kept == ["menu\n\nfirst text", "second text"]
    assert dropped(record) == {"dropped_paragraphs.duplicate": 2}


def test_a_document_with_nothing_new_is_dropped_and_counted(store: Store) -> None:
    kept, record = survivors(store, ["a b\n\nc d", "c d\n\na b\n\nx"], min_characters=2)

    assert kept == ["a b\n\nc d"]
    assert record.counters["dropped.nothing_new"] == 1
    assert record.counters["dropped_characters.nothing_new"] == 1


def test_without_paragraphs_only_whole_documents_count(store: Store) -> None:
    texts = ["menu\n\nfirst", "menu\n\nsecond", "menu \n\n\tfirst"]

    kept, _ = survivors(store, texts, paragraphs=False)

    assert kept == ["menu\n\nfirst", "menu\n\nsecond"]


def test_a_paragraph_of_a_dropped_near_duplicate_is_not_lost(store: Store) -> None:
    shared = "this paragraph stands in a document that goes and in one that stays"
    texts = [NEAR, f"{NEAR}\n\n{shared}", f"quite another text about other things\n\n{shared}"]

    kept, record = survivors(store, texts)

    assert kept == [texts[0], texts[2]]
    assert dropped(record) == {"dropped.near_duplicates": 1}


@pytest.mark.parametrize(
    ("keep", "expected"), [("first", "1"), ("longest", "2"), ("highest_score", "3")]
)
def test_the_rule_chooses_the_survivor_and_the_size_is_stored(
    store: Store, keep: str, expected: str
) -> None:
    corpus = {
        "a": [document(NEAR, id="1"), document(NEAR + " and a bit", "en", 0.4, id="2")],
        "b": [document(NEAR + " end", "sw", 0.9, id="3"), document("other", "sw", id="4")],
    }

    for documents in corpus.values():
        documents[0].metadata["license"] = documents[-1].metadata["license"] = "CC0"

    record = run(store, write_kept(store, corpus), config(keep=keep))

    found = left(store, record)
    assert [(d.id, d.metadata) for d in found] == sorted(
        [(expected, {"cluster_size": "3", "license": "CC0"}), ("4", {"license": "CC0"})]
    )
    assert (
        sum(n for k, n in record.counters.items() if k.startswith("dropped.near_duplicates/")) == 2
    )


def test_equal_documents_tie_on_the_first_in_the_corpus(store: Store) -> None:
    corpus = {"b": [document(NEAR, id="later")], "a": [document(NEAR, "sw", id="earlier")]}

    record = run(store, write_kept(store, corpus), config(keep="longest"))

    assert [d.id for d in left(store, record)] == ["earlier"]
    assert record.counters["dropped.duplicate_documents/en"] == 1


@pytest.mark.parametrize("keep", ["first", "longest", "highest_score"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equals_a_single_loop_over_everything(store: Store, seed: int, keep: Any) -> None:
    corpus = random_corpus(seed)
    settings = config(keep=keep)

    record = run(store, write_kept(store, corpus), settings)

    expected, count = reference(copy.deepcopy(corpus), settings.deduplication)
    assert shown(left(store, record)) == shown(expected)
    assert dropped(record) == dict(count)
    assert {name for name, n in count.items() if n} == {
        "dropped.duplicate_documents",
        "dropped_paragraphs.duplicate",
        "dropped.empty_documents",
        "dropped.near_duplicates",
        "dropped.nothing_new",
        "dropped_characters.nothing_new",
    }


def test_without_near_duplicates_equals_a_single_loop(store: Store) -> None:
    corpus = random_corpus(4)
    settings = config(near={"enabled": False})

    record = run(store, write_kept(store, corpus), settings)

    expected, count = reference(copy.deepcopy(corpus), settings.deduplication)
    assert shown(left(store, record)) == shown(expected)
    assert dropped(record) == dict(count)


class Shuffled(StageRun):
    """Does the units of every step in another order, then records them in their own."""

    def run(self, step: Step, units: Sequence[Unit]) -> StageRecord:
        mixed = list(units)
        random.Random(len(mixed)).shuffle(mixed)
        super().run(step, mixed)
        return super().run(step, units)


def contents(store: Store, record: StageRecord) -> list[str]:
    return [output.sha256 for output in record.outputs]


def test_partitions_and_order_of_work_change_no_byte(store: Store) -> None:
    corpus = random_corpus(5)
    kept = write_kept(store, corpus)
    total = 0
    results, rounds = [], {}
    for run_name, partitions in (("one", 1), ("four", 4), ("sixteen", 16)):
        per = 10**9 if partitions == 1 else -(-total // partitions)
        settings = config(run_name, keys_per_partition=per)
        record = deduplicate(Shuffled(store, run_name, True, True), settings, kept)
        total = read_stage(store, run_name, "deduplicate-keys").counters["keys"]
        assert read_stage(store, run_name, "deduplicate-groups").units == partitions
        rounds[partitions] = read_stage(store, run_name, "deduplicate-clusters").units
        results.append((contents(store, record), record.counters, shown(left(store, record))))

    assert results[0] == results[1] == results[2]
    assert rounds[1] == 1 < rounds[16]


def test_runs_on_disk_change_no_byte(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.core.store.ROWS_PER_GROUP", 5)
    kept = write_kept(store, random_corpus(13, documents=100))
    whole = run(store, kept, config())
    before = {output.path: store.read_bytes(output.path) for output in whole.outputs}
    store.delete("corpus/duplicates")
    store.delete("corpus/unique")
    monkeypatch.setattr("pipelines.deduplicate.sorted_output.RECORDS_IN_MEMORY", 50)
    monkeypatch.setattr("pipelines.deduplicate.unique.DECIDED_AT_ONCE", 3)

    again = run(store, kept, config())

    assert again.outputs == whole.outputs
    assert {path: store.read_bytes(path) for path in before} == before


def test_of_what_stands_everywhere_a_shard_brings_one_key(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text in all documents would otherwise fill the one worker that has its key."""
    corpus = {
        f"{n}": [document(f"read more\n\n{word(50 * n + m)} {NEAR}"[:60]) for m in range(50)]
        for n in range(4)
    }
    held: list[int] = []
    joined = groups.joined

    def counted(members: list[groups.Keys]) -> groups.Keys:
        keys = joined(members)
        held.append(len(keys.key))
        return keys

    monkeypatch.setattr(groups, "joined", counted)
    record = run(store, write_kept(store, corpus), config(near={"enabled": False}))

    assert held == [200, 0, 200 + 4]  # documents, bands, paragraphs
    assert record.counters["dropped_paragraphs.duplicate"] == 199


def test_a_second_run_does_nothing(store: Store) -> None:
    kept = write_kept(store, random_corpus(6, documents=60))
    first = run(store, kept, config())

    second = run(store, kept, config())

    assert (second.reused, second.outputs) == (second.units, first.outputs)


def test_files_hold_so_many_documents_and_counts_are_those_of_the_files(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.deduplicate.unique.DOCUMENTS_PER_PART", 7)
    corpus = {
        f"{n}": [document(f"text number {chr(97 + n)}{chr(97 + m)} it is") for m in range(20)]
        for n in range(2)
    }

    record = run(store, write_kept(store, corpus), config())

    assert [output.rows for output in record.outputs] == [7, 7, 6] * 2
    assert record.counters["documents/en"] == 40
    assert record.counters["sentences/en"] == 40
    assert record.counters["bytes/en"] == sum(len(d.text) for d in left(store, record))


def test_one_file_of_many_small_ones(store: Store) -> None:
    corpus = {f"{n}": [document(f"text of {chr(97 + n)}")] for n in range(20)}

    record = run(store, write_kept(store, corpus), config())

    assert [output.rows for output in record.outputs] == [20]


@pytest.mark.ray
def test_workers_on_ray_write_the_same_bytes(store: Store, local_ray: None) -> None:
    kept = write_kept(store, random_corpus(12, documents=80))
    alone = run(store, kept, config("alone"))
    before = {output.path: store.read_bytes(output.path) for output in alone.outputs}
    store.delete("corpus/duplicates")
    store.delete("corpus/unique")

    record = deduplicate(StageRun(store, "ray", quiet=True), config("ray"), kept)

    assert (record.reused, record.outputs) == (0, alone.outputs)
    assert {path: store.read_bytes(path) for path in before} == before


def test_sections_still_begin_at_their_paragraphs(store: Store) -> None:
    first = document("menu\n\nfirst text")
    second = document("intro of the second\n\nmenu\n\nsecond text")
    second.metadata["sections"] = '[[1,2,"Menu"],[2,2,"Text"]]'
    settings = config(min_characters=1)

    record = run(store, write_kept(store, {"a": [first], "b": [second]}), settings)

    [kept] = [d for d in left(store, record) if d.text.startswith("intro")]
    assert kept.text == "intro of the second\n\nsecond text"
    assert kept.metadata["sections"] == '[[1,2,"Menu"],[1,2,"Text"]]'
