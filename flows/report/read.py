"""Gather what a run left on its store: stage records, manifests and JSON tables, nothing else.

Works on a run that is still going or has failed: what is not there yet is None or empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

from pydantic import ValidationError

from flows import stages
from flows.config import ReportSection
from flows.report.tables import Balance, Row, Scores, VocabularyReport
from flows.report.training_tables import LossSum, Metrics, Speed
from flows.stages import stages_of_tree
from pipelines.core.config import ConfigError, validate
from pipelines.core.languages import group_of
from pipelines.core.manifest import Manifest, Output, StageRecord, read_manifests, read_verified
from pipelines.core.run_file import config_key, read_run_file
from pipelines.core.store import Store

STAGES = tuple(stage.name for stage in stages.STAGES if stage.name != "report")
"""The stages a report tells of, in the order they run."""


@dataclass(frozen=True)
class Stage:
    """One stage of a run; `record` is None until it has finished."""

    name: str
    record: StageRecord | None
    work_seconds: float = 0.0
    """Sum of the wall times of all units of all its steps, whichever run did them."""

    outdated: bool = False
    """Whether it was made from files that no stage of the run points at any more."""

    @property
    def reused(self) -> bool:
        """Whether the last run of the stage found everything already done."""
        return self.record is not None and 0 < self.record.units == self.record.reused


@dataclass(frozen=True)
class RunView:
    """A run as the report sees it."""

    name: str
    section: ReportSection
    config_text: str
    """The resolved configuration as it lies on the store, TOML."""
    stages: tuple[Stage, ...]
    packages: Mapping[str, tuple[str, ...]]
    """Versions the finished units ran with; more than one is worth seeing."""
    balance: Balance | None
    vocabulary: VocabularyReport | None
    metrics: Metrics | None
    speed: Speed | None
    scores: tuple[Scores, ...]

    @property
    def config_sha256(self) -> str:
        """SHA-256 of the resolved configuration, in hex."""
        return hashlib.sha256(self.config_text.encode("utf-8")).hexdigest()

    def record(self, stage: str) -> StageRecord | None:
        """The record of a stage, or None when it has not finished or is none of the run's."""
        return next((found.record for found in self.stages if found.name == stage), None)

    def counter(self, stage: str, name: str) -> int | None:
        """A count of a stage, or None when it has not finished or does not count that."""
        record = self.record(stage)
        return None if record is None else record.counters.get(name)

    @property
    def outdated(self) -> tuple[str, ...]:
        """Names of the stages that were made from results the run has since replaced."""
        return tuple(stage.name for stage in self.stages if stage.outdated)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names of the stages without a record."""
        return tuple(stage.name for stage in self.stages if stage.record is None)


def by_language(record: StageRecord | None, measure: str) -> dict[str, int]:
    """Counts of a measure by language: `bytes/sw` -> {"sw": ...}; empty without a record."""
    if record is None:
        return {}
    lead = f"{measure}/"
    return {
        name.removeprefix(lead): value
        for name, value in record.counters.items()
        if name.startswith(lead)
    }


def losses_by_group(languages: Mapping[str, LossSum]) -> dict[str, LossSum]:
    """Add losses and tokens of the languages of each script group; groups come out sorted."""
    groups: dict[str, LossSum] = {}
    for tag, part in languages.items():
        before = groups.get(group_of(tag), LossSum(loss_sum=0.0, tokens=0))
        groups[group_of(tag)] = add_losses((before, part))
    return dict(sorted(groups.items()))


def add_losses(parts: Iterable[LossSum]) -> LossSum:
    """The sum of losses and of tokens, so that its mean weighs every masked token the same."""
    loss, tokens = 0.0, 0
    for part in parts:
        loss, tokens = loss + part.loss_sum, tokens + part.tokens
    return LossSum(loss_sum=loss, tokens=tokens)


def mean_loss(part: LossSum | None) -> float | None:
    """Mean cross-entropy, nats per masked token; None where no token was masked."""
    return part.loss_sum / part.tokens if part is not None and part.tokens else None


def read_run(store: Store, run: str, stages: Iterable[str] = STAGES) -> RunView:
    """Gather a run, finished or not.

    Raises:
        ConfigError: the store has no such run, or a table of it does not read as its kind.
    """
    tree = read_run_file(store, run)
    section = validate(ReportSection, tree.get("report", {}), origin=config_key(run))
    run_through = {stage.name for stage in stages_of_tree(tree)}
    expected = (name for name in stages if name in run_through)
    own = _records(store, run)
    records = {name: own.get(name) for name in expected}
    present = _present(store, run, own)
    views, packages = [], dict[str, set[str]]()
    for name, record in records.items():
        manifests = read_manifests(store, record) if record is not None else []
        views.append(
            Stage(
                name,
                record,
                work_seconds=_work_seconds(store, own, name, manifests),
                outdated=any(_is_outdated(manifest, run, present) for manifest in manifests),
            )
        )
        for manifest in manifests:
            for package, version in manifest.packages.items():
                packages.setdefault(package, set()).add(version)
    score_files = _outputs(records.get("finetune"), "scores")
    return RunView(
        name=run,
        section=section,
        config_text=store.read_bytes(config_key(run)).decode("utf-8"),
        stages=tuple(views),
        packages={name: tuple(sorted(found)) for name, found in sorted(packages.items())},
        balance=_only(store, Balance, records.get("balance"), "balance"),
        vocabulary=_only(store, VocabularyReport, records.get("vocabulary"), "report"),
        metrics=_only(store, Metrics, records.get("pretrain"), "metrics"),
        speed=_one_at_most(store, Speed, records.get("pretrain"), "speed"),
        scores=tuple(_parse(store, Scores, output) for output in score_files),
    )


def _records(store: Store, run: str) -> dict[str, StageRecord]:
    """The records of a run's stages and of their inner steps, by name; half a record is none."""
    keys = [key for key in store.sizes(f"runs/{run}/stages") if key.endswith(".json")]
    found = {}
    for key, content in store.read_many(keys).items():
        try:
            found[PurePosixPath(key).stem] = StageRecord.model_validate_json(content)
        except ValidationError:
            continue
    return found


def _work_seconds(
    store: Store, records: Mapping[str, StageRecord], stage: str, manifests: Sequence[Manifest]
) -> float:
    """Time of a stage's units and of those of its inner steps (`STAGE-something`).

    An inner step counts when what it wrote was read, so that the record of one that other settings
    needed does not.
    """
    seconds = 0.0
    inner = {name: own for name, own in records.items() if name.startswith(f"{stage}-")}
    while manifests:
        seconds += sum(manifest.seconds for manifest in manifests)
        read = {reference.path for found in manifests for reference in found.binding.inputs}
        steps = [name for name, own in inner.items() if read & {o.path for o in own.outputs}]
        manifests = []
        for name in steps:
            with suppress(FileNotFoundError):  # cleared away since; what it took is not known then
                manifests += read_manifests(store, inner.pop(name))
    return seconds


def _present(
    store: Store, run: str, records: Mapping[str, StageRecord]
) -> set[tuple[str, str | None]]:
    """Every output that the records name, and those of the runs that this one is based on."""
    found: set[tuple[str, str | None]] = set()
    seen: set[str] = set()
    while True:
        seen.add(run)
        found.update((o.path, o.sha256) for record in records.values() for o in record.outputs)
        try:
            base = read_run_file(store, run).get("deduplication", {}).get("base_run")
        except ConfigError:
            base = None
        if base is None or base in seen:
            return found
        run, records = base, _records(store, base)


def _is_outdated(manifest: Manifest, run: str, present: Set[tuple[str, str | None]]) -> bool:
    """Whether a unit read a stage's output that the run has since replaced."""
    own = ("corpus/", f"runs/{run}/")
    return any(
        reference.path.startswith(own) and (reference.path, reference.checksum) not in present
        for reference in manifest.binding.inputs
    )


def _outputs(record: StageRecord | None, part: str) -> list[Output]:
    return [] if record is None else record.outputs_of(part=part)


T = TypeVar("T", bound=Row)


def _only(store: Store, kind: type[T], record: StageRecord | None, part: str) -> T | None:
    found = _outputs(record, part)
    if record is not None and len(found) != 1:
        raise ConfigError(
            f"stage {record.stage!r}: {len(found)} outputs are labelled part={part}; one is right"
        )
    return _parse(store, kind, found[0]) if found else None


def _one_at_most(store: Store, kind: type[T], record: StageRecord | None, part: str) -> T | None:
    """A table that a stage may not have written."""
    return _only(store, kind, record, part) if _outputs(record, part) else None


def _parse(store: Store, kind: type[T], output: Output) -> T:
    content: Any = read_verified(store, output)
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise ConfigError(f"{output.path}: not a {kind.__name__} table: {error}") from None
