"""Clusters of equal and nearly equal documents, in one partition or in rounds over many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.core.attempt import Attempt
from pipelines.core.manifest import FileRef, StageRecord
from pipelines.core.shards import Unit
from pipelines.core.store import Store
from pipelines.deduplicate.groups import CLUSTERS, partition_names, read_all
from pipelines.deduplicate.plan import read_plan
from pipelines.deduplicate.sorted_output import sorted_output
from pipelines.deduplicate.sorted_records import Records
from pipelines.deduplicate.stars import (
    both_ways,
    connected_components,
    elect,
    large_star,
    once,
    small_star,
)


def node_range(store: Store, unit: Unit) -> tuple[int, int]:
    """[low, high) of the document numbers of a partition: equal shares of all documents."""
    number, partitions = (int(part) for part in unit.key.split("-of-"))
    cuts = read_plan(store, unit.inputs[0]).boundaries(partitions)
    return cuts[number], cuts[number + 1]


def edges_at_hand(unit: Unit, attempt: Attempt) -> Records:
    """All edges of the partition's nodes, once, sorted."""
    low, high = node_range(attempt.store, unit)
    return once(read_all(attempt.store, unit.inputs[1:], low, high))


def do_large_star(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """The large-star operation on one partition's nodes."""
    _write_round(unit, attempt, *large_star(edges_at_hand(unit, attempt)))


def do_small_star(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """The small-star operation on one partition's nodes."""
    _write_round(unit, attempt, *small_star(edges_at_hand(unit, attempt)))


def _write_round(unit: Unit, attempt: Attempt, found: Records, changed: int) -> None:
    name = f"edges-{unit.key}-{attempt.unit_id}"
    with sorted_output(attempt, name, part="edges") as output:
        output.add(both_ways(found))
    attempt.counters["changed"] += changed


def find_clusters(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Decide which document of each cluster survives.

    With one partition the components are found here; with more, the edges are stars already.
    Writes part="clusters": see `elect`. A cluster belongs to the partition of its first document.
    """
    edges = edges_at_hand(unit, attempt)
    if unit.key == partition_names(1)[0]:
        edges = connected_components(edges)
    decided = elect(edges[edges["key"] < edges["low"]])
    attempt.counters["clustered_documents"] += len(decided)
    attempt.counters["clusters"] += int((decided["key"] == decided["low"]).sum())
    name = f"clusters-{unit.key}-{attempt.unit_id}{CLUSTERS}"
    with sorted_output(attempt, name, part="clusters") as output:
        output.add(decided)


def partition_units(partitions: int, plan: FileRef, refs: Sequence[FileRef]) -> list[Unit]:
    """One unit a partition, each with the plan and the same files."""
    return [Unit(name, (plan, *refs)) for name in partition_names(partitions)]


def refs_of(record: StageRecord, part: str) -> list[FileRef]:
    """A step's outputs of one kind, as inputs."""
    return [output.ref for output in record.outputs_of(part=part)]
