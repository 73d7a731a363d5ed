"""A named checkpoint that is missing is an error that says what there is (case C44 a, b)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.checkpoint import find_named, is_checkpoint_name, named, run_checkpoints, save, step_key
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Binding, Manifest, StageRecord, stage_record_key, write_json
from pipelines.core.store import Store
from tests.model.checkpoints import file_of, made, same

BASE = "runs/base/checkpoints/u1"


@pytest.fixture
def runs(store: Store) -> Store:
    for step in (10, 20):
        save(store, BASE, made(step))
    store.publish_bytes("runs/empty/config.toml", b"")
    store.publish_bytes("runs/begun/checkpoints/u1/step-00000010/a/model.safetensors", b"half")
    result = made(3)
    save(store, "runs/base/checkpoints/fine", type(result)(3, result.model, {}, {}))
    return store


def test_it_is_loaded(runs: Store) -> None:
    assert same(named(runs, "base@10"), made(10))
    assert named(runs, "base@10", optimizer=False).optimizer == {}
    key, manifest = find_named(runs, "base@20")
    assert key == step_key(BASE, 20)
    assert [len(file.sha256) for file in manifest.files] == [64, 64, 64]
    assert list(run_checkpoints(runs, "base")[BASE]) == [10, 20]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bsae@10", "no run 'bsae' in .*; there are: base, begun, empty$"),
        ("base@40", "no whole checkpoint of step 40; there are: base@10, base@20$"),
        ("base@3", "no whole checkpoint of step 3; there are: base@10, base@20$"),
        ("empty@10", "run 'empty' in .* has no whole checkpoint of a pretraining$"),
        ("begun@10", "run 'begun' in .* has no whole checkpoint of a pretraining$"),
        ("base/u2@10", "run 'base' has no pretraining 'u2'; there are: base@10, base@20$"),
        ("base", "need RUN@STEP, such as demo@1000$"),
        ("base@", "need RUN@STEP, such as demo@1000$"),
        ("base@ten", "need RUN@STEP, such as demo@1000$"),
        ("base@\u0661\u0660", "need RUN@STEP, such as demo@1000$"),  # 10, in Arabic digits
        ("base@\uff11\uff10", "need RUN@STEP, such as demo@1000$"),  # 10, full width
        ("base@10\n", "need RUN@STEP, such as demo@1000$"),
        ("base@" + "1" * 5000, "need RUN@STEP, such as demo@1000$"),
        ("../base@10", "need RUN@STEP, such as demo@1000$"),
    ],
)
def test_one_that_is_not_there_is_an_error_and_nothing_is_written(
    runs: Store, name: str, message: str
) -> None:
    before = runs.keys("runs")
    with pytest.raises(ConfigError, match=message) as error:
        named(runs, name, setting="pretraining.resume_from")
    assert str(error.value).startswith(f"pretraining.resume_from = {name!r}: ")
    assert runs.keys("runs") == before


def test_on_a_store_without_runs(store: Store) -> None:
    with pytest.raises(ConfigError, match="no run 'base' in .*; there are: none"):
        named(store, "base@10")
    with pytest.raises(ConfigError, match="there are: none"):
        named(Store("memory://nothing-here"), "base@10")


def test_a_damaged_one_is_an_error_too(runs: Store) -> None:
    path = file_of(runs, 20, "model.safetensors", BASE)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\1")
    with pytest.raises(ConfigError, match=r"'base@20': .*not what was written.*base@10"):
        named(runs, "base@20")
    path.write_bytes(content[:-1])
    with pytest.raises(ConfigError, match=r"no whole checkpoint of step 20; there are: base@10$"):
        named(runs, "base@20")


def test_of_several_pretrainings_the_finished_one_is_meant_or_one_is_named(runs: Store) -> None:
    other = "runs/base/checkpoints/u2"
    later = made(10)
    later.model["w"].fill_(7.0)
    save(runs, other, later)
    assert find_named(runs, "base@20")[0] == step_key(BASE, 20)  # only one has that step
    with pytest.raises(ConfigError, match=r"2 pretrainings .*base/u1@10 \(wri.*base/u2@10 \(wri"):
        named(runs, "base@10")
    assert same(named(runs, "base/u1@10"), made(10))
    assert same(named(runs, "base/u2@10"), later)
    binding = Binding(step="pretrain", version=1, key="pretrain", config={}, inputs=[])
    chosen = f"runs/base/checkpoints/{binding.id}"
    save(runs, chosen, made(10))
    done: dict[str, Any] = {"outputs": [], "counters": {}, "seconds": 1.0}
    write_json(runs, "m.json", Manifest(binding=binding, host="h", packages={}, **done))
    record = StageRecord(
        stage="pretrain", binding_id="x", manifests=["m.json"], units=1, reused=0, **done
    )
    write_json(runs, stage_record_key("base", "pretrain"), record)
    assert find_named(runs, "base@10")[0] == step_key(chosen, 10)


def test_a_name_is_told_from_a_path(tmp_path: Path) -> None:
    assert is_checkpoint_name("demo@1000") and is_checkpoint_name("demo/4fe0@1000")
    for text in ("demo", str(tmp_path), "s3://bucket/model@1", "hf/org/model@2", "demo@last"):
        assert not is_checkpoint_name(text)
