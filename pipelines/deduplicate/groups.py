"""Documents and paragraphs that share a key: one partition of the keys at a time.

A partition holds all keys of a range, from all shards, so it decides alone; its memory is bounded
by the keys in the range. `deduplicate-groups` looks at whole documents and at bands, and
`deduplicate-paragraphs`, once it is known which documents stay, at paragraphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.core.attempt import Attempt
from pipelines.core.manifest import FileRef
from pipelines.core.shards import Unit
from pipelines.core.store import Store
from pipelines.deduplicate.document_keys import BAND, DOCUMENT, LARGEST, PARAGRAPH, kind_of
from pipelines.deduplicate.plan import SHARD_BITS, Plan, read_plan
from pipelines.deduplicate.sorted_output import sorted_output
from pipelines.deduplicate.sorted_records import (
    RECORD,
    Records,
    RecordsFile,
    empty,
    read_between,
    sorted_order,
)
from pipelines.deduplicate.stars import both_ways, once

SHARDS_AT_ONCE = 64
CLUSTERS, EXACT, PARAGRAPHS = ".clusters", ".exact", ".paragraphs"
"""Last part of the names of these files, so that a reader tells its inputs apart."""

U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Keys:
    """Keys of one partition with the documents that have them; documents rise."""

    key: U64
    low: U64
    document: U64
    value: npt.NDArray[np.uint32]

    def take(self, which: npt.NDArray[Any]) -> Keys:
        """The same at these positions."""
        return Keys(self.key[which], self.low[which], self.document[which], self.value[which])


def key_range(unit_key: str) -> tuple[int, int]:
    """[low, high) of a partition named NUMBER-of-PARTITIONS, such as 00003-of-00016."""
    number, partitions = (int(part) for part in unit_key.split("-of-"))
    return number * 2**64 // partitions, (number + 1) * 2**64 // partitions


def partition_names(partitions: int) -> list[str]:
    """Unit keys of so many partitions."""
    return [f"{number:05d}-of-{partitions:05d}" for number in range(partitions)]


def begins_group(keys: Keys) -> Bools:
    """Whether each key differs from the one before it."""
    begins = np.ones(len(keys.key), dtype=bool)
    begins[1:] = (keys.key[1:] != keys.key[:-1]) | (keys.low[1:] != keys.low[:-1])
    return begins


def join_groups(keys: Keys, first_new: int) -> tuple[Records, Keys]:
    """Join every document of a group to the one that is to be kept most (ties: the first).

    Edges between two documents of the base are left out: both stay.

    Args:
        keys: sorted by key and low; equal ones in the order of their documents.

    Returns:
        the edges, as RECORDs: key = the other document, low = the best one, row and value = their
        preferences; and the keys with only the best document of each group.
    """
    begins = begins_group(keys)
    if begins.all():
        return empty(), keys
    keys = keys.take(np.lexsort((keys.document, ~keys.value, keys.low, keys.key)))
    best = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    edges = np.zeros(len(best), RECORD)
    edges["key"], edges["low"] = keys.document, keys.document[best]
    edges["row"], edges["value"] = keys.value, keys.value[best]
    new = (edges["key"] >= np.uint64(first_new)) | (edges["low"] >= np.uint64(first_new))
    return once(edges[new & (edges["key"] != edges["low"])]), keys.take(begins)


def find_groups(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Edges between documents that share their whole text or a band, in one range of keys.

    Of each shard only one document of a group is held, so a text that stands everywhere costs a
    key a shard. Writes part="edges", both ways, and part="exact": key = a document, low = an equal
    one that is to be kept more.
    """
    plan = read_plan(attempt.store, unit.inputs[0])
    name = f"{unit.key}-{attempt.unit_id}"
    held: dict[int, list[Keys]] = {DOCUMENT: [], BAND: []}
    with (
        sorted_output(attempt, f"edges-{name}", part="edges") as edges,
        sorted_output(attempt, f"exact-{name}{EXACT}", part="exact") as exact,
    ):

        def join(kind: int, keys: Keys) -> Keys:
            found, best = join_groups(keys, plan.first_new)
            edges.add(both_ways(found))
            if kind == DOCUMENT:
                exact.add(found)
            attempt.counters["edges.exact" if kind == DOCUMENT else "edges.near"] += len(found)
            return best

        for number, records in slices(attempt.store, plan, unit.key):
            kinds, base = kind_of(records), number < plan.base_shards
            for kind, members in held.items():
                members.append(join(kind, keys_of(number, records[kinds == kind], base=base)))
        for kind, members in held.items():
            join(kind, joined(members))
    attempt.counters["edges"] += edges.count


def find_paragraphs(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Paragraphs that an earlier place of a surviving document already had, in one range of keys.

    Of each shard only the first place is held. Writes part="paragraphs": key = the document, low =
    the paragraph's number inside it.
    """
    store = attempt.store
    plan = read_plan(store, unit.inputs[0])
    dropped = Clusters(store, plan, [ref for ref in unit.inputs if f"{CLUSTERS}." in ref.path])
    members: list[Keys] = []
    gone: U64 = np.empty(0, np.uint64)
    name = f"paragraphs-{unit.key}-{attempt.unit_id}{PARAGRAPHS}"
    with sorted_output(attempt, name, part="paragraphs") as output:

        def take_first(keys: Keys) -> Keys:
            begins = begins_group(keys)
            again = keys.take(~begins & (keys.document >= np.uint64(plan.first_new)))
            records = np.zeros(len(again.key), RECORD)
            records["key"], records["low"] = again.document, again.value
            output.add(records)
            return keys.take(begins)

        for number, records in slices(store, plan, unit.key):
            if number % SHARDS_AT_ONCE == 0:
                gone = dropped.dropped(number, number + SHARDS_AT_ONCE)
            keys = keys_of(number, records[kind_of(records) == PARAGRAPH], base=False)
            members.append(take_first(keys.take(~contains(gone, keys.document))))
        take_first(joined(members))
    attempt.counters["paragraphs"] += output.count


class Clusters:
    """Which documents each run's clusters take away; every file decides for its own documents."""

    def __init__(self, store: Store, plan: Plan, new: Sequence[FileRef]) -> None:
        self.files = [
            (RecordsFile(store, file.ref.path), file.first_shard) for file in plan.base_clusters
        ]
        self.files += [(RecordsFile(store, ref.path), plan.base_shards) for ref in new]

    def dropped(self, first: int, stop: int) -> U64:
        """Sorted numbers of the documents of shards [first, stop) that do not survive."""
        numbers = [
            records["key"][records["key"] != records["low"]]
            for file, decides_from in self.files
            for records in [
                file.between(max(first, decides_from) << SHARD_BITS, stop << SHARD_BITS)
            ]
        ]
        return np.unique(np.concatenate(numbers)) if numbers else np.empty(0, np.uint64)


def contains(sorted_numbers: U64, wanted: U64) -> Bools:
    """Whether each wanted number is among sorted ones."""
    if not len(sorted_numbers):
        return np.zeros(len(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(sorted_numbers, wanted), len(sorted_numbers) - 1)
    return np.asarray(sorted_numbers[at] == wanted)


def slices(store: Store, plan: Plan, unit_key: str) -> Iterator[tuple[int, Records]]:
    """(shard number, its records in the partition's range), in the corpus's order."""
    low, high = key_range(unit_key)
    for number, shard in enumerate(plan.shards):
        yield number, RecordsFile(store, shard.keys.path).between(low, high)


def keys_of(number: int, records: Records, *, base: bool) -> Keys:
    """Records of one shard with their documents' numbers; those of the base always stay."""
    document = records["row"].astype(np.uint64) + np.uint64(number << SHARD_BITS)
    value = np.full(len(records), LARGEST) if base else records["value"].copy()
    return Keys(records["key"].copy(), records["low"].copy(), document, value)


def joined(members: list[Keys]) -> Keys:
    """All of them, sorted; equal ones in their order. The list is emptied to spare memory."""
    members.append(keys_of(0, empty(), base=False))
    keys = Keys(
        np.concatenate([keys.key for keys in members]),
        np.concatenate([keys.low for keys in members]),
        np.concatenate([keys.document for keys in members]),
        np.concatenate([keys.value for keys in members]),
    )
    members.clear()
    return keys.take(sorted_order(keys.key, keys.low))


def read_all(store: Store, refs: Sequence[FileRef], low: int, high: int) -> Records:
    """The records of a range from many files."""
    return read_between((RecordsFile(store, ref.path) for ref in refs), low, high)
