"""The shard runner: finished is finished, failed is named, half-written is never believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.core.manifest import FileRef, read_finished, read_stage
from pipelines.core.shards import Attempt, StageFailed, Step, Unit, manifest_key, run_step
from pipelines.core.stages import StageRun
from pipelines.core.store import Store


def write_ten(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Writes ten rows; a file called `broken` beside the store makes shard 3 raise after three."""
    rows = []
    for number in range(10):
        if unit.key == "shard-3" and number == 3 and Path(config["broken"]).exists():
            raise OSError("bad record 3 of shard-3")
        rows.append(number * config["factor"])
    attempt.write_table(f"part-{attempt.unit_id}", pa.table({"n": rows}), part="numbers")
    attempt.counters["rows"] += len(rows)


def units(count: int = 4) -> list[Unit]:
    return [Unit(f"shard-{n}", (FileRef(path=f"in/{n}", size=n),)) for n in range(1, count + 1)]


def step(tmp_path: Path, factor: int = 1) -> Step:
    return Step(
        "numbers", 1, "out", {"factor": factor, "broken": str(tmp_path / "broken")}, write_ten
    )


def written(store: Store) -> dict[str, bytes]:
    return {key: store.read_bytes(key) for key in store.keys("out") if key.endswith(".parquet")}


@pytest.mark.parametrize("inline", [True, pytest.param(False, marks=pytest.mark.ray)])
def test_a_failed_shard_is_named_and_the_others_are_kept(
    store: Store, tmp_path: Path, inline: bool, request: pytest.FixtureRequest
) -> None:
    if not inline:
        request.getfixturevalue("local_ray")
    (tmp_path / "broken").touch()

    with pytest.raises(StageFailed, match="shard shard-3: OSError: bad record 3") as failure:
        run_step(step(tmp_path), units(), store, "r", inline=inline, quiet=True)

    assert [item.key for item in failure.value.failures] == ["shard-3"]
    with pytest.raises(FileNotFoundError, match="has not finished"):
        read_stage(store, "r", "numbers")
    kept = written(store)
    assert len(kept) == 3

    (tmp_path / "broken").unlink()
    record = run_step(step(tmp_path), units(), store, "r", inline=inline, quiet=True)

    assert (record.reused, record.units, record.counters) == (3, 4, {"rows": 40})
    assert kept.items() <= written(store).items()


def test_a_second_run_does_nothing(store: Store, tmp_path: Path) -> None:
    first = run_step(step(tmp_path), units(), store, "r", inline=True, quiet=True)
    (tmp_path / "broken").touch()  # any work on shard 3 would now fail

    second = run_step(step(tmp_path), units(), store, "r", inline=True, quiet=True)

    assert second.reused == second.units == 4
    assert second.outputs == first.outputs
    assert second.binding_id == first.binding_id


def test_another_configuration_is_another_result(store: Store, tmp_path: Path) -> None:
    first = run_step(step(tmp_path, 1), units(), store, "r", inline=True, quiet=True)
    second = run_step(step(tmp_path, 2), units(), store, "r", inline=True, quiet=True)

    assert second.reused == 0
    assert {o.path for o in first.outputs}.isdisjoint(o.path for o in second.outputs)


@pytest.mark.parametrize("damage", ["missing", "short", "manifest cut", "other binding"])
def test_a_damaged_result_is_done_again(store: Store, tmp_path: Path, damage: str) -> None:
    plan = step(tmp_path)
    first = run_step(plan, units(), store, "r", inline=True, quiet=True)
    before = written(store)
    key, manifest = first.outputs[1].path, manifest_key(plan, units()[1])
    if damage == "missing":
        store.delete(key)
    elif damage == "short":
        store.publish_bytes(key, store.read_bytes(key)[:-1])
    elif damage == "manifest cut":
        store.publish_bytes(manifest, store.read_bytes(manifest)[:-40])
    else:
        tree = json.loads(store.read_bytes(manifest))
        tree["binding"]["version"] = 99
        store.publish_bytes(manifest, json.dumps(tree).encode())
    assert read_finished(store, manifest, plan.binding(units()[1])) is None

    second = run_step(plan, units(), store, "r", inline=True, quiet=True)

    assert second.reused == 3
    assert written(store) == before


def test_a_stage_without_units_has_a_record(store: Store, tmp_path: Path) -> None:
    assert run_step(step(tmp_path), [], store, "r", inline=True, quiet=True).units == 0


def test_two_units_of_one_name_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same key"):
        run_step(step(tmp_path), [*units(), *units()], store, "r", inline=True, quiet=True)


@pytest.mark.ray
def test_ray_and_inline_write_the_same_bytes(tmp_path: Path, local_ray: None) -> None:
    stores = [Store(str(tmp_path / name)) for name in ("inline", "ray")]
    for target, inline in zip(stores, (True, False), strict=True):
        run_step(step(tmp_path), units(7), target, "r", inline=inline, quiet=True)

    assert written(stores[0]) == written(stores[1])


class Tickets:
    """Hands out numbers, each once."""

    def __init__(self, first: int) -> None:
        self.next = first

    def take(self) -> int:
        self.next += 1
        return self.next - 1


def take_three(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    for _ in range(3):
        attempt.counters[f"ticket.{attempt.shared.call('take')}"] += 1


@pytest.mark.parametrize("inline", [True, pytest.param(False, marks=pytest.mark.ray)])
def test_units_share_one_object_wherever_they_run(
    store: Store, inline: bool, request: pytest.FixtureRequest
) -> None:
    if not inline:
        request.getfixturevalue("local_ray")
    step = Step("tickets", 1, "out", {}, take_three, shared=partial(Tickets, 100))

    record = run_step(step, units(5), store, "r", inline=inline, quiet=True)

    assert record.counters == {f"ticket.{n}": 1 for n in range(100, 115)}


def test_many_finished_units_are_known_from_one_listing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = units(100)
    run_step(step(tmp_path), many, store, "r", inline=True, quiet=True)
    lost = Path(store.path(store.keys("out")[-1]))
    assert lost.suffix == ".parquet"
    lost.unlink()
    asked = []
    size = Store.size
    monkeypatch.setattr(Store, "size", lambda self, key: asked.append(key) or size(self, key))

    record = run_step(step(tmp_path), many, store, "r", inline=True, quiet=True)

    assert (record.units, record.reused) == (100, 99)
    assert asked == [], "no output is asked for by itself"


def test_a_stage_s_record_has_the_time_and_notes_of_its_inner_steps(
    store: Store, tmp_path: Path
) -> None:
    inner = replace(step(tmp_path), name="numbers-inner", folder="inner")
    stage = StageRun(store, "r", inline=True, quiet=True)
    first = stage.run(inner, units(), notes=["from the inner step"])
    last = stage.run(step(tmp_path), units(), notes=["from the last"])

    assert last.seconds >= first.seconds
    assert last.notes == ["from the inner step", "from the last"]
    again = StageRun(store, "r", inline=True, quiet=True)
    again.run(inner, units())
    assert again.run(step(tmp_path), units()).seconds == last.seconds, "finished work took its time"
