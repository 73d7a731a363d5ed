"""The deduplication stage: its steps, one after the other.

    deduplicate-keys        a shard       hashes of documents, paragraphs and MinHash bands, sorted
    deduplicate-plan        once          the corpus's order, and what the base run holds
    deduplicate-groups      a key range   documents that share a key are joined by an edge
    deduplicate-large-star, deduplicate-small-star   (only when the edges need many partitions)
    deduplicate-clusters    a node range  connected components; who survives
    deduplicate-paragraphs  a key range   paragraphs that a surviving document had before
    deduplicate             a language's files   what is left

No step holds more in memory than about `keys_per_partition` keys or edges; what does not fit is
sorted on the local disk. One node's edges stay together, so a cluster of ten million documents
takes about 1 GB. The number of partitions changes no byte of the documents, only the names of
their files.

With `base_run` the earlier run's keys are compared with, not made again, and its documents stay as
they are. A run over everything at once would leave the same documents, with `keep` = "first" and
the base's documents older, except where a new document joins two clusters of the base (both stay).
The base's `cluster_size` does not grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.config import DataConfig, DeduplicationSection
from pipelines.core.config import ConfigError
from pipelines.core.hashing import digest
from pipelines.core.manifest import FileRef, Output, StageRecord, read_manifests, read_stage
from pipelines.core.shards import Step, Unit
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.deduplicate.clusters import (
    do_large_star,
    do_small_star,
    find_clusters,
    partition_units,
    refs_of,
)
from pipelines.deduplicate.document_keys import write_keys
from pipelines.deduplicate.groups import find_groups, find_paragraphs
from pipelines.deduplicate.minhash import SIGNATURE, bands_of, detection_curve
from pipelines.deduplicate.plan import (
    DroppedFile,
    Plan,
    PlanShard,
    by_shard,
    read_plan,
    write_plan,
)
from pipelines.deduplicate.stars import MAX_ROUNDS, TooManyRounds
from pipelines.deduplicate.unique import unique_units, write_unique

VERSION = 3


def settings_of(section: DeduplicationSection) -> dict[str, Any]:
    """The settings that decide what is a duplicate; the others only say where work is done."""
    settings = section.model_dump(mode="json", exclude={"base_run", "keys_per_partition"})
    if section.near.enabled:
        bands, rows = bands_of(section.near)
        settings["near"] |= {"bands": bands, "rows_per_band": rows, "signature": SIGNATURE}
        del settings["near"]["jaccard_threshold"]  # all it does is to choose the bands
    else:
        settings["near"] = {"enabled": False}
    return settings


def partitions_for(items: int, per_partition: int) -> int:
    """The smallest power of two of partitions that hold at most so many items, on average."""
    partitions = 1
    while items > partitions * per_partition:
        partitions *= 2
    return partitions


@dataclass(frozen=True)
class Base:
    """What an earlier run brings: its plan, its decisions, and its finished units."""

    plan: Plan | None = None
    plan_refs: tuple[FileRef, ...] = ()
    clusters: tuple[FileRef, ...] = ()
    units: tuple[Unit, ...] = ()

    @property
    def shards(self) -> list[PlanShard]:
        """Shards of the earlier run and of those that it was built on."""
        return self.plan.shards if self.plan else []

    @property
    def dropped(self) -> list[DroppedFile]:
        """Files of clusters that stay in force."""
        if self.plan is None:
            return []
        mine = [DroppedFile(ref=ref, first_shard=self.plan.base_shards) for ref in self.clusters]
        return [*self.plan.base_clusters, *mine]


def read_base(store: Store, run: str, settings: dict[str, Any]) -> Base:
    """Read what a finished run of this store decided.

    Raises:
        ConfigError: it is not finished, or was deduplicated under other settings.
    """
    where = f"deduplication.base_run = {run!r}"
    try:
        record, planned, clusters = (
            read_stage(store, run, stage)
            for stage in ("deduplicate", "deduplicate-plan", "deduplicate-clusters")
        )
    except FileNotFoundError as error:
        raise ConfigError(f"{where}: {error}; finish that run first, or name another") from error
    [ref] = refs_of(planned, "plan")
    plan = read_plan(store, ref)
    if plan.settings != settings:
        other = sorted(
            key
            for key in {*settings, *plan.settings}
            if settings.get(key) != plan.settings.get(key)
        )
        shown = "; ".join(
            f"{key} is {settings.get(key)!r} here and {plan.settings.get(key)!r} there"
            for key in other
        )
        raise ConfigError(f"{where}: it has other settings of deduplication: {shown}")
    units = tuple(
        Unit(manifest.binding.key, tuple(manifest.binding.inputs))
        for manifest in read_manifests(store, record)
    )
    return Base(plan, (ref,), tuple(refs_of(clusters, "clusters")), units)


class Steps:
    """The steps of one configuration."""

    def __init__(self, section: DeduplicationSection) -> None:
        self.section = section
        self.settings = settings_of(section)
        self.folder = digest("deduplicate", VERSION, self.settings)[:12]

    def keys(self) -> Step:
        """Hashes of one shard's documents."""
        section = self.section.model_copy(
            update={"base_run": None, "keys_per_partition": 1, "min_characters": 1}
        )
        read = {"deduplication": section.model_dump(mode="json"), "signature": SIGNATURE}
        folder = f"corpus/duplicates/keys-{digest('deduplicate-keys', VERSION, read)[:12]}"
        return Step("deduplicate-keys", VERSION, folder, read, write_keys)

    def partitioned(self, name: str, work: Any, noun: str = "partition") -> Step:
        """A step between the keys and the documents; all it reads is its inputs."""
        folder = f"corpus/duplicates/{self.folder}/{name}"
        return Step(f"deduplicate-{name}", VERSION, folder, self.settings, work, noun)

    def unique(self) -> Step:
        """The documents that are left."""
        read = {"settings": self.settings, "min_characters": self.section.min_characters}
        folder = f"corpus/unique/{self.folder}"
        return Step("deduplicate", VERSION, folder, read, write_unique, "part")


def deduplicate(stage: StageRun, config: DataConfig, kept: Sequence[Output]) -> StageRecord:
    """Deduplicate all kept documents, across languages, against each other and the base run.

    Args:
        kept: files of filtered documents with the label `language`; with `date` and `shard` they
            are taken in that order, else as given. The first of equals survives by default.

    Raises:
        ConfigError: the base run is not finished or has other settings.
        StageFailed: units failed; they are named.
    """
    section = config.deduplication
    steps = Steps(section)
    base = Base()
    if section.base_run is not None:
        base = read_base(stage.store, section.base_run, steps.settings)
    known = {file.ref for shard in base.shards for file in shard.kept}
    shards = by_shard([output for output in kept if output.ref not in known])
    units = [Unit(name, tuple(f.ref for f in files)) for name, files in shards.items()]
    hashed = stage.run(steps.keys(), units)
    plan = Plan(
        settings=steps.settings,
        base_shards=len(base.shards),
        shards=[
            *base.shards,
            *(
                PlanShard(
                    name=name, kept=files, keys=output.ref, key_count=int(output.labels["rows"])
                )
                for (name, files), output in zip(shards.items(), hashed.outputs, strict=True)
            ),
        ],
        base_clusters=base.dropped,
    )
    planned = stage.run(
        steps.partitioned("plan", write_plan, "plan"), [plan_unit(plan, base, section, hashed)]
    )
    [plan_ref] = refs_of(planned, "plan")
    keys = sum(shard.key_count for shard in plan.shards)
    partitions = partitions_for(keys, section.keys_per_partition)
    groups = stage.run(
        steps.partitioned("groups", find_groups), partition_units(partitions, plan_ref, [])
    )
    clusters = cluster(stage, steps, plan_ref, groups)
    decided = {"clusters": refs_of(clusters, "clusters"), "exact": refs_of(groups, "exact")}
    paragraphs: list[FileRef] = []
    if section.paragraphs:
        found = stage.run(
            steps.partitioned("paragraphs", find_paragraphs),
            partition_units(partitions, plan_ref, decided["clusters"]),
        )
        paragraphs = refs_of(found, "paragraphs")
    new = unique_units(plan, plan_ref, decided, paragraphs)
    return stage.run(steps.unique(), [*base.units, *new])


def plan_unit(plan: Plan, base: Base, section: DeduplicationSection, hashed: StageRecord) -> Unit:
    """The unit that writes the plan, bound to the keys and to what the base run decided."""
    count = hashed.counters
    notes = []
    if section.near.enabled:
        notes.append(detection_curve(*bands_of(section.near)))
        notes.append(
            f"{count.get('too_short_to_compare', 0)} of {count.get('documents', 0)} documents have "
            f"fewer than {section.near.shingle_words} words: too short to compare"
        )
    inputs = (*base.plan_refs, *base.clusters, *(output.ref for output in hashed.outputs))
    arguments = {"plan": plan.model_dump(mode="json"), "notes": notes}
    return Unit("corpus", inputs, arguments)


def cluster(stage: StageRun, steps: Steps, plan: FileRef, groups: StageRecord) -> StageRecord:
    """Connected components of the edges, and who survives: one step, or rounds of steps before it.

    Raises:
        TooManyRounds: the components did not settle.
    """
    edges = groups.counters.get("edges", 0)
    partitions = partitions_for(edges, steps.section.keys_per_partition)
    refs = refs_of(groups, "edges")
    settled = partitions == 1
    for round_number in range(1, MAX_ROUNDS + 1):
        if settled:
            units = partition_units(partitions, plan, refs)
            return stage.run(steps.partitioned("clusters", find_clusters), units)
        changed = 0
        for name, work in (("large-star", do_large_star), ("small-star", do_small_star)):
            step = steps.partitioned(f"{name}-{round_number:02d}", work)
            record = stage.run(step, partition_units(partitions, plan, refs))
            refs = refs_of(record, "edges")
            changed += record.counters["changed"]
        settled = changed == 0
    raise TooManyRounds
