from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipelines.core.config import ConfigError
from pipelines.core.manifest import read_stage
from pipelines.core.records import Document
from pipelines.core.store import Store
from tests.pipelines.deduplicate.corpus import (
    NEAR,
    config,
    document,
    left,
    random_corpus,
    run,
    word,
    write_kept,
)


def split_corpus(seed: int) -> tuple[dict[str, list[Document]], dict[str, list[Document]]]:
    corpus = random_corpus(seed)
    return (
        {k: corpus[k] for k in ("shard-0", "shard-1", "shard-2")},
        {k: corpus[k] for k in ("shard-3", "shard-4")},
    )


@pytest.mark.parametrize("seed", [7, 8, 9])
@pytest.mark.parametrize("partitions", [1, 8])
def test_a_base_and_what_is_new_equal_one_run_over_both(
    store: Store, seed: int, partitions: int
) -> None:
    old, new = split_corpus(seed)
    kept_old, kept_new = write_kept(store, old), write_kept(store, new)
    whole = run(store, kept_old + kept_new, config("whole"))
    per = -(-read_stage(store, "whole", "deduplicate-keys").counters["keys"] // partitions)
    base = run(store, kept_old, config("base", keys_per_partition=per))
    before = {o.path: store.read_bytes(o.path) for o in base.outputs}

    record = run(
        store, kept_old + kept_new, config("more", base_run="base", keys_per_partition=per)
    )

    assert sizeless(left(store, record)) == sizeless(left(store, whole))
    assert record.outputs[: len(base.outputs)] == base.outputs
    assert {path: store.read_bytes(path) for path in before} == before
    assert (record.reused, record.units) == (base.units, base.units + 2)  # en and sw
    hashed = read_stage(store, "more", "deduplicate-keys")
    assert (hashed.units, hashed.counters["documents"]) == (2, sum(len(d) for d in new.values()))
    assert record.counters["dropped.duplicates_of_base"] > 0
    for name in ("documents/en", "documents/sw", "bytes/en", "characters/sw", "sentences/en"):
        assert record.counters[name] == whole.counters[name]


def sizeless(documents: Sequence[Document]) -> list[tuple[str, str]]:
    """Without the sizes of clusters: those of the base do not grow."""
    return sorted((d.id, d.text) for d in documents)


def test_a_base_on_a_base(store: Store) -> None:
    corpus = random_corpus(10)
    kept = {k: write_kept(store, {k: v}) for k, v in corpus.items()}
    everything = [output for outputs in kept.values() for output in outputs]
    whole = run(store, everything, config("whole"))
    run(store, kept["shard-0"], config("first"))
    run(store, kept["shard-1"] + kept["shard-2"], config("second", base_run="first"))

    third = run(store, kept["shard-3"] + kept["shard-4"], config("third", base_run="second"))

    assert sizeless(left(store, third)) == sizeless(left(store, whole))


def test_nothing_new_gives_the_base_again(store: Store) -> None:
    kept = write_kept(store, random_corpus(11, documents=40))
    base = run(store, kept, config("base"))

    again = run(store, kept, config("again", base_run="base"))

    assert (again.outputs, again.counters) == (base.outputs, base.counters)
    assert again.reused == again.units


def test_a_new_document_that_joins_two_of_the_base_goes_and_both_stay(store: Store) -> None:
    """Where an incremental run differs from a whole one, as documented: the base is not touched."""
    other = " ".join("x" + word(n) for n in range(60))
    settings: dict[str, Any] = {"near": {"hashes": 128, "bands": 128, "rows_per_band": 1}}
    old = {"a": [document(NEAR, id="1"), document(f"{other}\n\na short line", id="2")]}
    third = document(f"{NEAR} {other}", id="3")
    fourth = document("something else altogether\n\na short line", id="4")
    kept, kept_new = write_kept(store, old), write_kept(store, {"b": [third, fourth]})
    run(store, kept, config("base", **settings))

    record = run(store, kept_new, config("more", base_run="base", **settings))

    found = {d.id: d.text for d in left(store, record)}
    assert list(found) == ["1", "2", "4"]
    assert record.counters["dropped.duplicates_of_base"] == 1
    assert found["4"] == "something else altogether"  # the second still has the line
    whole = run(store, kept + kept_new, config("whole", **settings))
    assert {d.id: d.text for d in left(store, whole)} == {"1": NEAR, "4": fourth.text}


def test_a_base_that_is_not_finished_or_has_other_settings_is_refused(store: Store) -> None:
    kept = write_kept(store, {"a": [document(NEAR)]})
    with pytest.raises(ConfigError, match="base_run = 'base'.*has not finished"):
        run(store, kept, config("more", base_run="base"))
    run(store, kept, config("base"))

    with pytest.raises(ConfigError, match="min_characters is 5 here and 20 there"):
        run(store, kept, config("more", base_run="base", min_characters=5))

    assert run(store, kept, config("more", base_run="base")).counters["documents/en"] == 1


def test_an_object_store_gives_the_same(store: Store) -> None:
    remote = Store("memory://deduplicate")
    corpus = random_corpus(14, documents=60)
    here, there = (run(s, write_kept(s, corpus), config("base")) for s in (store, remote))
    assert here.outputs == there.outputs

    new = {"shard-9": [document(NEAR, id="new"), *corpus["shard-0"]]}
    more = run(remote, write_kept(remote, new), config("more", base_run="base"))

    assert sizeless(left(remote, more)) == sorted([*sizeless(left(store, here)), ("new", NEAR)])


def test_a_longer_new_document_does_not_displace_one_of_the_base(store: Store) -> None:
    run(store, write_kept(store, {"a": [document(NEAR, id="1")]}), config("base", keep="longest"))
    new = [document(f"{NEAR} and more", id="2"), document(f"{NEAR} and yet more", id="3")]

    record = run(
        store,
        write_kept(store, {"b": new}),
        config("more", base_run="base", keep="longest"),
    )

    assert [d.id for d in left(store, record)] == ["1"]
    assert record.counters["dropped.duplicates_of_base"] == 2
