"""The model stages as they are run: real Ray Train workers, one killed, a loss that explodes."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from model.plan import RunInputs
from model.run_train import main, run_train
from pipelines.core.manifest import read_json, read_stage
from pipelines.core.store import Store
from tests.model.fault_runs import (
    BATCH,
    INTERVAL,
    ROOT,
    STEPS,
    Driver,
    Group,
    built_run,
    check_lost,
    check_same,
    copy_of,
    logged,
    metrics,
    resumed_at,
    undisturbed,
)

TWO_WORKERS = {"num_workers": 2, "max_worker_failures": 1}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return built_run(tmp_path_factory.getbasetemp())


@pytest.fixture
def address(local_ray: None) -> str:
    import ray

    return str(ray.get_runtime_context().gcs_address)


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_the_stages_run_and_a_killed_worker_changes_nothing(
    built: Store,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    address: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Case C44 c: after the restart the first step is 21, not 1, with the loss of step 21."""
    expected = undisturbed(tmp_path_factory.getbasetemp())
    store = copy_of(built, tmp_path / "killed", cluster=TWO_WORKERS)
    driver = Driver(store, address)
    group = Group(driver)
    driver.wait_for_step(20)
    group.workers[1].send_signal(signal.SIGKILL)
    before = group.logged()
    output = driver.finish()

    assert INTERVAL == 20 and before[-1][0] in range(20, 40)
    assert resumed_at(output) == [20]
    again = logged(output)[1]
    assert again[0][0] == 21
    check_lost(before, again, expected)
    check_same(store, expected)
    assert sum(use["draws"] for use in metrics(store)["usage"]) == STEPS * BATCH
    check_measured_apart(store)

    run_train("export", store, "tiny")
    Driver(store, address, "finetune").finish()
    [scores] = read_stage(store, "tiny", "finetune").outputs_of(part="scores")
    table = read_json(store, scores)
    judged = sum(row["count"] for row in table["test"]["per_language"].values())
    assert judged == table["counts"]["test"] > 0
    run_train("finetune", store, "tiny")
    assert "1/1 task already finished" in capsys.readouterr().out


def check_measured_apart(store: Store) -> None:
    """What was measured is in a file of its own, so that the results have the same bytes."""
    [output] = read_stage(store, "tiny", "pretrain").outputs_of(part="speed")
    measured = read_json(store, output)
    assert set(measured) == {"speed", "checkpoint_notes"}
    speed = measured["speed"]
    assert [row["step"] for row in speed] == list(range(1, STEPS + 1))
    assert all(row["tokens_per_second/real"] > 0 for row in speed)
    found = metrics(store)
    for row in found["log"]:
        assert set(row) == {"step", "loss", "learning_rate", "gradient_norm", "consumed_tokens"}
    assert not {"speed", "checkpoint_notes"} & set(found)


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_a_loss_that_is_no_number_ends_at_once_and_names_the_step(
    built: Store, tmp_path: Path, address: str
) -> None:
    change = {"learning_rate": 1e30, "warmup_steps": 0, "max_gradient_norm": 0.0}
    store = copy_of(built, tmp_path / "store", cluster=TWO_WORKERS, pretraining=change)
    output = Driver(store, address).finish(1)

    assert re.search(r"error: .*pretrain: TrainingFailed: step \d+: loss nan", output, re.DOTALL)
    assert "pretraining.learning_rate" in output
    assert output.count(f"{STEPS} steps to do") == 1  # no restart: it would only fail again
    # Ray's own threads write tracebacks where the machine is slow; none may be of our code.
    assert f'File "{ROOT}/model/' not in output


@pytest.mark.parametrize("name", ["nobody@20", "tiny@20"], ids=["no such run", "no checkpoint"])
def test_a_checkpoint_to_resume_from_that_is_not_there_is_an_error(
    built: Store, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case C44 a, b: never a fresh start, and nothing is written."""
    store = copy_of(built, tmp_path / "store", pretraining={"resume_from": name})
    before = store.sizes("")
    status = main(["pretrain", "--store", store.url, "--run", "tiny"])
    assert status == 2
    assert f"pretraining.resume_from = '{name}'" in capsys.readouterr().err
    assert store.sizes("") == before


def test_a_stage_whose_input_is_missing_says_which(store: Store) -> None:
    with pytest.raises(FileNotFoundError, match="stage 'pack' of run 'tiny' has not finished"):
        RunInputs(store, "tiny").stage("pack")
