"""The shard runner: many small units of work, bounded in flight, skipped when finished.

The driver hands out one Ray task per unit and gets small records back; documents never travel
through Ray. Without Ray (`inline=True`) the same code runs in this process.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core.hashing import digest
from pipelines.core.manifest import (
    Binding,
    Counters,
    FileRef,
    Manifest,
    Output,
    StageRecord,
    host,
    package_versions,
    read_finished,
    sha256_of,
    stage_record_key,
    total,
    write_json,
)
from pipelines.core.progress import Progress
from pipelines.core.store import Store, local_file, write_parquet


@dataclass(frozen=True)
class Unit:
    """One piece of a stage: a shard to extract, a language to deduplicate."""

    key: str
    """Name for people; unique within the stage."""
    inputs: tuple[FileRef, ...]
    """What identifies the input bytes."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Plain values for the worker that do not change the result (an address, say)."""


@dataclass(frozen=True)
class Step:
    """How a stage's units are done and where their results live."""

    name: str
    version: int
    folder: str
    """Where outputs and manifests go, below the store."""
    config: Mapping[str, Any]
    """Plain JSON: the part of the configuration that the work reads."""
    work: Callable[[Unit, Mapping[str, Any], Attempt], None]
    """Module-level function: reads the unit's input, writes through the attempt, counts."""
    noun: str = "shard"
    """What a unit is called on the terminal."""

    def binding(self, unit: Unit) -> Binding:
        """The binding of one unit of this step."""
        return Binding(
            step=self.name,
            version=self.version,
            key=unit.key,
            config=dict(self.config),
            inputs=list(unit.inputs),
        )


class Attempt:
    """What a worker writes through: outputs and counts of one try at one unit."""

    def __init__(self, store: Store, folder: str, unit_id: str) -> None:
        self.store = store
        self.folder = folder
        self.unit_id = unit_id
        self.outputs: list[Output] = []
        self.counters: Counters = Counter()
        self.notes: list[str] = []

    def write_table(self, name: str, table: pa.Table, **labels: str) -> None:
        """Write a table as Parquet under the step's folder; `name` has no ending."""
        with local_file(".parquet") as path:
            write_parquet(table, path)
            self._publish(path, f"{name}.parquet", table.num_rows, labels)

    def write_file(self, name: str, source: Path, **labels: str) -> None:
        """Write a finished local file under the step's folder."""
        self._publish(source, name, None, labels)

    def _publish(self, path: Path, name: str, rows: int | None, labels: dict[str, str]) -> None:
        key = f"{self.folder}/{name}"
        self.store.publish_file(path, key)
        self.outputs.append(
            Output(
                path=key,
                bytes=path.stat().st_size,
                sha256=sha256_of(path),
                rows=rows,
                labels=labels,
            )
        )


@dataclass(frozen=True)
class Failure:
    """A unit that could not be done."""

    key: str
    reason: str


class StageFailed(RuntimeError):
    """Some units of a stage failed; the finished ones are kept."""

    def __init__(self, stage: str, failures: Sequence[Failure], finished: int) -> None:
        self.failures = list(failures)
        lines = [
            f"stage {stage!r} failed: {len(failures)} of {finished + len(failures)} shard(s); "
            f"the {finished} finished are kept and will not be done again"
        ]
        lines += [f"  shard {failure.key}: {failure.reason}" for failure in failures[:20]]
        if len(failures) > 20:
            lines.append(f"  ... and {len(failures) - 20} more")
        super().__init__("\n".join(lines))


def do_unit(step: Step, unit: Unit, store_url: str) -> tuple[str, Manifest] | Failure:
    """Do one unit and publish its manifest last. An error becomes a Failure."""
    store, binding, began = Store(store_url), step.binding(unit), time.monotonic()
    attempt = Attempt(store, step.folder, binding.id)
    try:
        step.work(unit, step.config, attempt)
    except Exception as error:  # whatever it was, it belongs to this shard and must name it
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Failure(unit.key, f"{type(error).__name__}: {error} ({place})")
    manifest = Manifest(
        binding=binding,
        outputs=attempt.outputs,
        counters=total([attempt.counters]),
        notes=attempt.notes,
        seconds=round(time.monotonic() - began, 3),
        host=host(),
        packages=package_versions(),
    )
    key = manifest_key(step, unit)
    write_json(store, key, manifest)
    return key, manifest


def manifest_key(step: Step, unit: Unit) -> str:
    """Where the manifest of a unit lives."""
    return f"{step.folder}/_manifests/{step.binding(unit).id}.json"


def run_step(
    step: Step,
    units: Sequence[Unit],
    store: Store,
    run: str,
    *,
    inline: bool = False,
    quiet: bool = False,
) -> StageRecord:
    """Do all unfinished units and write the run's record of the stage, last.

    Raises:
        StageFailed: one or more units failed; each is named, the others are kept.
        ValueError: two units have the same key.
    """
    if len({unit.key for unit in units}) != len(units):
        raise ValueError(f"stage {step.name!r}: two units have the same key")
    began = time.monotonic()
    done: dict[str, tuple[str, Manifest]] = {}
    waiting: list[Unit] = []
    for unit in units:
        key = manifest_key(step, unit)
        manifest = read_finished(store, key, step.binding(unit))
        if manifest is None:
            waiting.append(unit)
        else:
            done[unit.key] = (key, manifest)
    reused, failures = len(done), []
    progress = Progress(step.name, total=len(units), reused=reused, unit=step.noun, quiet=quiet)
    launch = _inline if inline else _on_ray
    for unit, result in launch(step, waiting, store.url):
        if isinstance(result, Failure):
            failures.append(result)
            progress.failed(f"shard {result.key}: {result.reason}")
        else:
            done[unit.key] = result
            progress.advance()
    if failures:
        failures.sort(key=lambda failure: failure.key)
        raise StageFailed(step.name, failures, finished=len(done))
    for _, manifest in done.values():
        for note in manifest.notes:
            progress.note(note)
    progress.close()
    results = [done[unit.key] for unit in units]
    record = StageRecord(
        stage=step.name,
        binding_id=digest(step.name, [step.binding(unit).id for unit in units])[:16],
        manifests=[key for key, _ in results],
        outputs=[output for _, manifest in results for output in manifest.outputs],
        counters=total(manifest.counters for _, manifest in results),
        notes=[note for _, manifest in results for note in manifest.notes],
        seconds=round(time.monotonic() - began, 3),
        units=len(units),
        reused=reused,
    )
    write_json(store, stage_record_key(run, step.name), record)
    return record


Result = tuple[str, Manifest] | Failure


def _inline(step: Step, units: Sequence[Unit], store_url: str) -> Iterator[tuple[Unit, Result]]:
    for unit in units:
        yield unit, do_unit(step, unit, store_url)


def _on_ray(step: Step, units: Sequence[Unit], store_url: str) -> Iterator[tuple[Unit, Result]]:
    if not units:
        return
    import ray  # only the driver of a stage needs it

    if not ray.is_initialized():
        ray.init(log_to_driver=True, configure_logging=False)
    limit = max(2, 2 * int(ray.cluster_resources().get("CPU", 1)))
    task = ray.remote(num_cpus=1)(do_unit)
    running: dict[Any, Unit] = {}
    queue = list(reversed(units))
    while queue or running:
        while queue and len(running) < limit:
            unit = queue.pop()
            running[task.remote(step, unit, store_url)] = unit
        ready, _ = ray.wait(list(running), num_returns=1)
        for reference in ready:
            unit = running.pop(reference)
            try:
                result: Result = ray.get(reference)
            except ray.exceptions.RayError as error:  # the worker itself was lost, after retries
                result = Failure(unit.key, f"{type(error).__name__}: {str(error).splitlines()[0]}")
            yield unit, result
