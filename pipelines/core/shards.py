"""The shard runner: many small units of work, bounded in flight, skipped when finished.

The driver hands out one Ray task per unit and gets small records back; documents never travel
through Ray. Without Ray (`inline=True`) the same code runs in this process.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.core.attempt import Attempt, Shared
from pipelines.core.hashing import digest
from pipelines.core.manifest import (
    Binding,
    FileRef,
    Manifest,
    StageRecord,
    host,
    package_versions,
    read_all_finished,
    read_stage,
    stage_record_key,
    total,
    write_json,
)
from pipelines.core.progress import Progress
from pipelines.core.store import Store

__all__ = [
    "Attempt",
    "Failure",
    "Notes",
    "StageFailed",
    "Step",
    "Unit",
    "do_unit",
    "manifest_key",
    "run_step",
]


@dataclass(frozen=True)
class Unit:
    """One piece of a stage: a shard to extract, a language to deduplicate."""

    key: str
    """Name for people; unique within the stage."""
    inputs: tuple[FileRef, ...]
    """What identifies the input bytes."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Plain values for the worker that do not change the result (an address, say)."""

    def input(self, path: str) -> FileRef:
        """The input of that path, with what its bytes must be.

        Raises:
            KeyError: it is none of the unit's inputs.
        """
        return {ref.path: ref for ref in self.inputs}[path]


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
    shared: Callable[[], Any] | None = None
    """Makes the one object that all units of the step share, as `Attempt.shared`; it must not
    change what they write."""

    def binding(self, unit: Unit) -> Binding:
        """The binding of one unit of this step."""
        return Binding(
            step=self.name,
            version=self.version,
            key=unit.key,
            config=dict(self.config),
            inputs=list(unit.inputs),
        )


Notes = Sequence[str] | Callable[[Mapping[str, int]], Sequence[str]]
"""Sentences on a step, or a function that makes them of the counters of all its units."""


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


def do_unit(
    step: Step, unit: Unit, store_url: str, shared: Shared | None = None
) -> tuple[str, Manifest] | Failure:
    """Do one unit and publish its manifest last. An error becomes a Failure."""
    store, binding, began = Store(store_url), step.binding(unit), time.monotonic()
    attempt = Attempt(store, step.folder, binding.id, shared)
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
    notes: Notes = (),
    before: Sequence[StageRecord] = (),
) -> StageRecord:
    """Do all unfinished units and write the run's record of the stage, last.

    Args:
        notes: what a person should know of the step as a whole, where need be from the counters of
            all its units; units add their own.
        before: records of the steps that this one ends a stage of: their time and notes are the
            stage's as well.

    Raises:
        StageFailed: one or more units failed; each is named, the others are kept.
        ValueError: two units have the same key.
    """
    if len({unit.key for unit in units}) != len(units):
        raise ValueError(f"stage {step.name!r}: two units have the same key")
    began = time.monotonic()
    done: dict[str, tuple[str, Manifest]] = {}
    waiting: list[Unit] = []
    keys = {unit.key: manifest_key(step, unit) for unit in units}
    finished = read_all_finished(
        store, step.folder, {keys[unit.key]: step.binding(unit) for unit in units}
    )
    for unit in units:
        key = keys[unit.key]
        if key in finished:
            done[unit.key] = (key, finished[key])
        else:
            waiting.append(unit)
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
    results = [done[unit.key] for unit in units]
    counters = total(manifest.counters for _, manifest in results)
    all_notes = [*(notes(counters) if callable(notes) else notes)]
    all_notes += [note for _, manifest in results for note in manifest.notes]
    for note in all_notes:
        progress.note(note)
    progress.close()
    binding_id = digest(step.name, [step.binding(unit).id for unit in units])[:16]
    seconds = sum(record.seconds for record in before) + time.monotonic() - began
    if not waiting:  # what took time was an earlier run
        seconds = seconds_of(store, run, step.name, binding_id) or seconds
    record = StageRecord(
        stage=step.name,
        binding_id=binding_id,
        manifests=[key for key, _ in results],
        outputs=[output for _, manifest in results for output in manifest.outputs],
        counters=counters,
        notes=[*(note for record in before for note in record.notes), *all_notes],
        seconds=round(seconds, 3),
        units=len(units),
        reused=reused,
    )
    write_json(store, stage_record_key(run, step.name), record)
    return record


def seconds_of(store: Store, run: str, stage: str, binding_id: str) -> float | None:
    """What the run's record of the same work says it took; None without one."""
    try:
        record = read_stage(store, run, stage)
    except FileNotFoundError:
        return None
    return record.seconds if record.binding_id == binding_id else None


Result = tuple[str, Manifest] | Failure


class _Here:
    """A shared object in the process of its only user."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._object = make()

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(self._object, name)(*arguments)


class _InActor:
    """A shared object that lives in an actor, for workers on any machine."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def call(self, name: str, *arguments: Any) -> Any:
        import ray

        return ray.get(self._actor.call.remote(name, *arguments))


def _inline(step: Step, units: Sequence[Unit], store_url: str) -> Iterator[tuple[Unit, Result]]:
    shared = _Here(step.shared) if step.shared and units else None
    for unit in units:
        yield unit, do_unit(step, unit, store_url, shared)


def _on_ray(step: Step, units: Sequence[Unit], store_url: str) -> Iterator[tuple[Unit, Result]]:
    if not units:
        return
    import ray  # only the driver of a stage needs it

    if not ray.is_initialized():
        ray.init(log_to_driver=True, configure_logging=False)
    limit = max(2, 2 * int(ray.cluster_resources().get("CPU", 1)))
    task = ray.remote(num_cpus=1)(do_unit)
    shared = None
    if step.shared is not None:
        # It starts anew when its process dies: what it knew (pauses, say) is learned again.
        holder = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Here)
        shared = _InActor(holder.remote(step.shared))
    running: dict[Any, Unit] = {}
    queue = list(reversed(units))
    while queue or running:
        while queue and len(running) < limit:
            unit = queue.pop()
            running[task.remote(step, unit, store_url, shared)] = unit
        ready, _ = ray.wait(list(running), num_returns=1)
        for reference in ready:
            unit = running.pop(reference)
            try:
                result: Result = ray.get(reference)
            except ray.exceptions.RayError as error:  # the worker itself was lost, after retries
                result = Failure(unit.key, f"{type(error).__name__}: {str(error).splitlines()[0]}")
            yield unit, result
