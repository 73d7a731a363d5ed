"""What a deduplication looks at, in the corpus's order, and how its documents are numbered.

A document's number is shard number x 2^32 + row, the row counted over all files of the shard. So
numbers rise in the corpus's order: older snapshots first, then by shard, then by row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from pipelines.core.attempt import Attempt
from pipelines.core.config import Config
from pipelines.core.manifest import FileRef, Output, read_json
from pipelines.core.shards import Unit
from pipelines.core.store import Store

SHARD_BITS = 32
_UNIT_ID = re.compile(r"[0-9a-f]{16}")


class KeptFile(Config):
    """One file of filtered documents."""

    ref: FileRef
    language: str
    rows: int


class PlanShard(Config):
    """One shard: its documents and the file of their keys."""

    name: str
    kept: list[KeptFile]
    keys: FileRef
    key_count: int

    @property
    def documents(self) -> int:
        """Documents in all its files."""
        return sum(file.rows for file in self.kept)


class DroppedFile(Config):
    """A file of clusters, and the first shard for whose documents it decides."""

    ref: FileRef
    first_shard: int


class Plan(Config):
    """The inputs of one deduplication."""

    settings: dict[str, Any]
    base_shards: int
    """So many shards belong to earlier runs; their documents stay as they are."""
    shards: list[PlanShard]
    base_clusters: list[DroppedFile]
    """What earlier runs decided on their own documents."""

    @property
    def first_new(self) -> int:
        """Number of the first document that is this run's to decide on."""
        return self.base_shards << SHARD_BITS

    def boundaries(self, partitions: int) -> list[int]:
        """Document numbers that cut the documents into equal parts; length partitions + 1."""
        total = sum(shard.documents for shard in self.shards)
        cuts, seen, part = [0], 0, 1
        for number, shard in enumerate(self.shards):
            while part < partitions and seen + shard.documents > part * total // partitions:
                cuts.append((number << SHARD_BITS) + part * total // partitions - seen)
                part += 1
            seen += shard.documents
        return [*cuts, *[2**64] * (partitions + 1 - len(cuts))]


def read_plan(store: Store, ref: FileRef) -> Plan:
    """Read a plan back.

    Raises:
        DamagedObject: its bytes are not those that were written.
    """
    return Plan.model_validate(read_json(store, ref))


def write_plan(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the plan; it is a function of the unit's inputs."""
    plan = Plan.model_validate(unit.arguments["plan"])
    content = (plan.model_dump_json(indent=1) + "\n").encode("utf-8")
    attempt.write_bytes(f"plan-{attempt.unit_id}.json", content, part="plan")
    attempt.counters["shards"] = len(plan.shards)
    attempt.counters["shards_of_base"] = plan.base_shards
    attempt.notes.extend(unit.arguments["notes"])


def shard_of(output: Output) -> str:
    """What the files of one shard have in common: the label, else the unit id in the name."""
    name = PurePosixPath(output.path).stem
    found = _UNIT_ID.search(name)
    return output.labels.get("shard") or (found.group() if found else name)


def by_shard(kept: Sequence[Output]) -> dict[str, list[KeptFile]]:
    """The files of each shard, sorted by path; shards in the corpus's order.

    The order is that of the labels `date` and `shard`; shards without them stay in the order in
    which they are given.
    """
    shards: dict[str, list[Output]] = {}
    for output in kept:
        shards.setdefault(shard_of(output), []).append(output)
    position = {name: place for place, name in enumerate(shards)}

    def order(name: str) -> tuple[str, str, int]:
        labels = shards[name][0].labels
        return labels.get("date", ""), labels.get("shard", ""), position[name]

    return {
        name: [
            KeptFile(ref=o.ref, language=o.labels["language"], rows=rows_of(o))
            for o in sorted(shards[name], key=lambda output: output.path)
        ]
        for name in sorted(shards, key=order)
    }


def rows_of(output: Output) -> int:
    """Documents in a file.

    Raises:
        ValueError: its record does not say.
    """
    if output.rows is None:
        raise ValueError(f"{output.path}: the record of the filter stage gives no number of rows")
    return output.rows
