from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as scipy_components

from pipelines.config import DeduplicationSection
from pipelines.core.manifest import FileRef, Output, StageRecord
from pipelines.core.shards import Attempt
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.deduplicate import stars as module
from pipelines.deduplicate.plan import KeptFile, Plan, PlanShard
from pipelines.deduplicate.sorted_output import sorted_output
from pipelines.deduplicate.sorted_records import RECORD, Records, RecordsFile
from pipelines.deduplicate.stage import Steps, cluster
from pipelines.deduplicate.stars import TooManyRounds, both_ways, connected_components, elect

Pairs = list[tuple[int, int]]


def edges(pairs: Pairs, preference: list[int] | None = None) -> Records:
    found = np.zeros(len(pairs), RECORD)
    for place, (a, b) in enumerate(pairs):
        value = (preference[a], preference[b]) if preference else (0, 0)
        found[place] = (a, b, *value)
    return found


def expected_labels(pairs: Pairs, nodes: int) -> dict[int, int]:
    """Smallest node of the component of every node that has an edge, by scipy."""
    ends = np.array(pairs, dtype=int).reshape(-1, 2)
    graph = coo_matrix((np.ones(len(ends)), ends.T), shape=(nodes, nodes))
    _, label = scipy_components(graph, directed=False)
    least: dict[int, int] = {}
    for node, number in enumerate(label):
        least.setdefault(int(number), node)
    return {node: least[int(label[node])] for pair in pairs for node in pair}


def chain(length: int) -> Pairs:
    return [(n, n + 1) for n in range(length)]


def shuffled_chain(length: int) -> Pairs:
    order = np.random.default_rng(1).permutation(length + 1)
    return [(int(a), int(b)) for a, b in zip(order, order[1:], strict=False)]


GRAPHS = {
    "chain": chain(1000),
    "shuffled chain": shuffled_chain(1000),
    "star around the last": [(500, n) for n in range(500)],
    "star around the first": [(0, n) for n in range(1, 500)],
    "two stars and a bridge": [(500, n) for n in range(400)]
    + [(600, n) for n in range(400, 500)]
    + [(500, 600)],
    "random": [
        (int(a), int(b)) for a, b in np.random.default_rng(2).integers(0, 900, (600, 2)) if a != b
    ],
    "pairs": [(2 * n, 2 * n + 1) for n in range(300)],
    "nothing": [],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_components_in_memory_equal_scipy_s(name: str) -> None:
    stars = connected_components(both_ways(edges(GRAPHS[name])))

    labels = {int(e["key"]): min(int(e["key"]), int(e["low"])) for e in stars}
    assert labels == expected_labels(GRAPHS[name], 1001)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda p: p[0] != p[1])),
    st.lists(st.integers(0, 3), min_size=31, max_size=31),
)
@settings(max_examples=200, deadline=None)
def test_the_most_preferred_of_a_component_survives(pairs: Pairs, preference: list[int]) -> None:
    stars = connected_components(both_ways(edges(pairs, preference)))

    decided = elect(stars[stars["key"] < stars["low"]])

    label = expected_labels(pairs, 31)
    assert decided["key"].tolist() == sorted(label)
    for found in decided:
        members = [node for node in label if label[node] == label[int(found["key"])]]
        assert found["low"] == min(members, key=lambda node: (-preference[node], node))
        assert found["row"] == len(members)


def in_partitions(store: Store, pairs: Pairs, per_partition: int) -> tuple[Records, int]:
    """Run the stage's own rounds over a graph of 1,001 documents in 7 shards."""
    ref = FileRef(path="none")
    shards = [
        PlanShard(
            name=str(n), kept=[KeptFile(ref=ref, language="en", rows=143)], keys=ref, key_count=0
        )
        for n in range(7)
    ]
    plan = Plan(settings={}, base_shards=0, shards=shards, base_clusters=[])
    store.publish_bytes("plan.json", plan.model_dump_json().encode())
    attempt = Attempt(store, "edges", "0" * 16)
    numbers = [(number(a), number(b)) for a, b in pairs]
    found = both_ways(edges(numbers))
    with sorted_output(attempt, "edges", part="edges") as output:
        output.add(found)
    groups = record_of(attempt.outputs, len(found))
    stage = StageRun(store, "r", inline=True, quiet=True)
    steps = Steps(DeduplicationSection(keys_per_partition=per_partition))
    record = cluster(stage, steps, FileRef(path="plan.json"), groups)
    parts = [RecordsFile(store, output.path).all() for output in record.outputs]
    return np.concatenate(parts), len(parts)


def number(node: int) -> int:
    """Document number of a node."""
    return (node // 143 << 32) + node % 143


def record_of(outputs: list[Output], found: int) -> StageRecord:
    return StageRecord(
        stage="deduplicate-groups",
        binding_id="0",
        manifests=[],
        outputs=outputs,
        counters={"edges": found},
        seconds=0,
        units=1,
        reused=0,
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_rounds_over_partitions_give_the_same_labels(store: Store, name: str) -> None:
    pairs = GRAPHS[name]

    decided, partitions = in_partitions(store, pairs, per_partition=max(len(pairs) // 3, 1))

    assert partitions == (8 if pairs else 1)
    label = expected_labels(pairs, 1001)
    assert dict(zip(decided["key"].tolist(), decided["low"].tolist(), strict=True)) == {
        number(node): number(least) for node, least in label.items()
    }


def test_a_graph_that_does_not_settle_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROUNDS", 2)

    with pytest.raises(TooManyRounds, match="did not settle in 2 rounds"):
        connected_components(both_ways(edges(chain(1000))))


def test_partitions_hold_equal_shares_of_the_documents() -> None:
    ref = FileRef(path="none")
    sizes = [3, 0, 10, 1, 2]
    shards = [
        PlanShard(
            name=str(n), kept=[KeptFile(ref=ref, language="en", rows=size)], keys=ref, key_count=0
        )
        for n, size in enumerate(sizes)
    ]
    plan = Plan(settings={}, base_shards=0, shards=shards, base_clusters=[])
    numbers = [(n << 32) + row for n, size in enumerate(sizes) for row in range(size)]
    for partitions in (1, 2, 4, 8, 16, 32):
        cuts = plan.boundaries(partitions)
        assert len(cuts) == partitions + 1
        assert (cuts[0], cuts[-1]) == (0, 2**64)
        shares = [sum(a <= n < b for n in numbers) for a, b in zip(cuts, cuts[1:], strict=False)]
        assert sum(shares) == 16
        assert max(shares) == -(-16 // partitions)
