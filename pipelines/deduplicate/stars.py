"""Connected components by alternating large-star and small-star operations.

Source: Kiveris, Lattanzi, Mirrokni, Rastogi and Vassilvitskii 2014, Connected Components in
MapReduce and Beyond. It is union-find for a graph that no machine holds: each operation hangs a
node's neighbours under the smallest of them, and needs only the edges of the nodes at hand. When
nothing changes any more, every node hangs under the smallest of its component.

An edge is a RECORD: key and low are the two nodes, row and value their preferences.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipelines.deduplicate.sorted_records import RECORD, Records, sort_records

MAX_ROUNDS = 40
"""The paper proves O(log^2 n) rounds and sees about log n; a chain of a million nodes takes 20."""

Integers = npt.NDArray[np.int64]


def both_ways(edges: Records) -> Records:
    """Every edge seen from both of its nodes, once, sorted."""
    turned = np.empty(len(edges), RECORD)
    turned["key"], turned["low"] = edges["low"], edges["key"]
    turned["row"], turned["value"] = edges["value"], edges["row"]
    return once(np.concatenate([edges, turned]))


def once(edges: Records) -> Records:
    """Edges sorted, each once."""
    edges = sort_records(edges)
    new = np.ones(len(edges), dtype=bool)
    new[1:] = (edges["key"][1:] != edges["key"][:-1]) | (edges["low"][1:] != edges["low"][:-1])
    return edges[new]


def group_starts(edges: Records) -> tuple[Integers, Integers]:
    """Of sorted edges: where each node's begin, and for every edge which of those is its own."""
    begins = np.ones(len(edges), dtype=bool)
    begins[1:] = edges["key"][1:] != edges["key"][:-1]
    return np.flatnonzero(begins), np.cumsum(begins) - 1


def large_star(edges: Records) -> tuple[Records, int]:
    """Hang every larger neighbour of a node under the smallest of the node and its neighbours.

    Args:
        edges: all edges of the nodes at hand, seen from them, sorted (key, low).

    Returns:
        the new edges (larger, smaller), and how many of them are new.
    """
    starts, group = group_starts(edges)
    least = edges[starts]
    own = least["low"] > least["key"]
    smallest = np.where(own, least["key"], least["low"])
    preference = np.where(own, least["row"], least["value"])
    larger = edges["low"] > edges["key"]
    changed = int((larger & ~own[group]).sum())
    return _edges(
        edges["low"][larger],
        smallest[group][larger],
        edges["value"][larger],
        preference[group][larger],
    ), changed


def small_star(edges: Records) -> tuple[Records, int]:
    """Hang a node and its smaller neighbours under the smallest of them; see `large_star`."""
    edges = edges[edges["low"] < edges["key"]]
    starts, group = group_starts(edges)
    least = edges[starts]
    moved = edges["low"] != least["low"][group]
    hung = _edges(
        edges["low"][moved],
        least["low"][group][moved],
        edges["value"][moved],
        least["value"][group][moved],
    )
    return np.concatenate([least, hung]), int(moved.sum())


def _edges(node: npt.NDArray, other: npt.NDArray, row: npt.NDArray, value: npt.NDArray) -> Records:  # type: ignore[type-arg]
    edges = np.empty(len(node), RECORD)
    edges["key"], edges["low"], edges["row"], edges["value"] = node, other, row, value
    return edges


class TooManyRounds(RuntimeError):
    """The components did not settle."""

    def __init__(self) -> None:
        super().__init__(
            f"connected components did not settle in {MAX_ROUNDS} rounds of large-star and "
            "small-star; that many are never needed, so this is a fault: please report it"
        )


def connected_components(edges: Records) -> Records:
    """Alternate both operations in memory until nothing changes.

    Args:
        edges: both ways, sorted; see `both_ways`.

    Returns:
        stars, both ways: the smallest node of each component joined to all of its others.

    Raises:
        TooManyRounds: MAX_ROUNDS did not suffice.
    """
    for _ in range(MAX_ROUNDS):
        found, by_large = large_star(edges)
        found, by_small = small_star(both_ways(found))
        edges = both_ways(found)
        if not by_large and not by_small:
            return edges
    raise TooManyRounds


def elect(stars: Records) -> Records:
    """Choose of each star the document that survives: the largest preference, then the first.

    Args:
        stars: the edges seen from the smallest nodes (key < low), sorted.

    Returns:
        one RECORD for each document of each star: key = the document, low = the survivor,
        row = documents in the cluster, value = 0; sorted.
    """
    starts, _ = group_starts(stars)
    roots = stars[starts]
    members = np.zeros(len(stars) + len(starts), RECORD)  # key = root, low = member, row = value
    members["key"] = np.concatenate([stars["key"], roots["key"]])
    members["low"] = np.concatenate([stars["low"], roots["key"]])
    members["row"] = np.concatenate([stars["value"], roots["row"]])
    members = members[np.lexsort((members["low"], ~members["row"], members["key"]))]
    starts, group = group_starts(members)
    sizes = np.diff(np.append(starts, len(members)))
    decided = np.zeros(len(members), RECORD)
    decided["key"] = members["low"]
    decided["low"] = members["low"][starts][group]
    decided["row"] = sizes[group]
    return sort_records(decided)
