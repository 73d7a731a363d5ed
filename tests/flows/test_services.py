from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import processes
from flows.services import MARK, Services

from .conftest import Running
from .test_ray_jobs import wait_for

pytestmark = [pytest.mark.services, pytest.mark.ray]
TINY_FLOW = str(Path(__file__).resolve().parent / "tiny_flow.py")


def prefect(running: Running, *arguments: str, **environment: str) -> tuple[int, str]:
    """Prefect's own command, typed in the checkout; only prefect.toml leads it to the server."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    home = {"PREFECT_HOME": str(running.checkout / "home"), "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        [str(Path(sys.executable).parent / "prefect"), *arguments],
        cwd=running.checkout,
        env={**clean, **home, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


LATER = ("--start-in", "10 hours")


def test_up_again_starts_nothing(running: Running) -> None:
    again = running.services.up(lambda _: None)
    assert again == running.state
    assert all(running.services.healthy(again, name) for name in ("prefect", "ray", "serve"))


def test_the_bare_name_means_the_default_deployment(running: Running) -> None:
    status, text = prefect(running, "deployment", "run", "pretrain-multilingual", *LATER)
    assert status == 0, text
    assert "'pretrain-multilingual/demo'" in text
    assert "'preset': 'demo'" in text


def test_the_full_name_works(running: Running) -> None:
    status, text = prefect(running, "deployment", "run", "pretrain-multilingual/xlmr-base", *LATER)
    assert status == 0, text
    assert "'preset': 'xlmr-base'" in text


def test_an_unknown_name_is_prefects_own_error(running: Running) -> None:
    status, text = prefect(running, "deployment", "run", "pretrain-bilingual")
    assert status != 0
    assert "Expected format: <FLOW_NAME>/<DEPLOYMENT_NAME>" in text


def test_without_plugins_the_bare_name_is_prefects_own_error(running: Running) -> None:
    status, text = prefect(
        running, "deployment", "run", "pretrain-multilingual", PREFECT_PLUGINS_ENABLED="false"
    )
    assert status != 0
    assert "Expected format: <FLOW_NAME>/<DEPLOYMENT_NAME>" in text


def test_a_wrong_type_is_refused_before_a_run_exists(running: Running) -> None:
    status, text = prefect(
        running, "deployment", "run", "pretrain-multilingual", "-p", "languages=5"
    )
    assert status != 0, text


def run_tiny(running: Running, run: str, store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, TINY_FLOW, run, str(store)],
        env=running.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_failed_stage_fails_the_flow_and_the_next_does_not_start(
    running: Running, tmp_path: Path
) -> None:
    (tmp_path / "third-is-broken").touch()
    failed = run_tiny(running, "fragile-a", tmp_path)
    text = failed.communicate(timeout=120)[0]
    assert failed.returncode != 0, text
    assert "shard shard-3: ValueError: the bytes of this shard are damaged" in text
    assert "Finished in state Failed" in text
    assert (tmp_path / "fragile-a-first-started").exists()
    assert not (tmp_path / "fragile-a-third-started").exists()

    (tmp_path / "third-is-broken").unlink()
    repaired = run_tiny(running, "fragile-a", tmp_path)
    text = repaired.communicate(timeout=120)[0]
    assert repaired.returncode == 0, text
    record = json.loads((tmp_path / "runs/fragile-a/stages/second.json").read_text())
    assert (record["units"], record["reused"]) == (4, 3)
    assert (tmp_path / "fragile-a-third-started").exists()


def test_after_kill_9_of_the_flow_a_rerun_attaches(running: Running, tmp_path: Path) -> None:
    killed = run_tiny(running, "slow-killed", tmp_path)
    wait_for((tmp_path / "slow-killed-slow-started").exists, 60)
    killed.kill()
    killed.wait()
    again = run_tiny(running, "slow-killed", tmp_path)
    time.sleep(8)
    (tmp_path / "slow-killed-go-on").touch()
    text = again.communicate(timeout=120)[0]
    assert again.returncode == 0, text
    assert "[slow] tick 0" in text  # the log is told from its beginning
    jobs = [
        job.submission_id
        for job in running.client().list_jobs()
        if (job.submission_id or "").startswith("slow-killed")
    ]
    assert len(jobs) == 1


@pytest.fixture(scope="module")
def served(
    running: Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[processes.Started]:
    log = tmp_path_factory.mktemp("tiny") / "log"
    started = processes.start(
        [sys.executable, TINY_FLOW, "serve"],
        log=log,
        environment=running.environment,
        folder=Path(TINY_FLOW).parents[2],
    )
    try:
        wait_for(lambda: log.exists() and "tiny/tiny" in log.read_text(), 60)
        yield started
    finally:
        processes.stop(started, running.state.owner)


def start_tiny(running: Running, run: str, store: Path) -> str:
    status, text = prefect(
        running, "deployment", "run", "tiny/tiny", "-p", f"run={run}", "-p", f"store={store}"
    )
    assert status == 0, text
    [line] = [line for line in text.splitlines() if "UUID" in line]
    return line.split()[-1]


def job_status(running: Running, prefix: str) -> str:
    [job] = [j for j in running.client().list_jobs() if (j.submission_id or "").startswith(prefix)]
    return str(job.status.value)


def test_cancelling_a_run_in_prefect_stops_its_ray_job(
    running: Running, served: processes.Started, tmp_path: Path
) -> None:
    flow_run = start_tiny(running, "slow-cancel", tmp_path)
    wait_for((tmp_path / "slow-cancel-slow-started").exists, 60)
    status, text = prefect(running, "flow-run", "cancel", flow_run)
    assert status == 0, text
    wait_for(lambda: job_status(running, "slow-cancel") == "STOPPED", 60)
    assert (tmp_path / "slow-cancel-left-cleanly").exists()


def test_a_killed_flow_process_stops_its_ray_job(
    running: Running, served: processes.Started, tmp_path: Path
) -> None:
    start_tiny(running, "slow-crash", tmp_path)
    wait_for((tmp_path / "slow-crash-slow-started").exists, 60)
    runner = processes.find(served)
    assert runner is not None
    flows = [p for p in runner.children() if "spawn_main" in " ".join(p.cmdline())]
    assert len(flows) == 1
    flows[0].kill()
    wait_for(lambda: job_status(running, "slow-crash") == "STOPPED", 60)


def test_a_foreign_prefect_toml_is_left_alone(tmp_path: Path, running: Running) -> None:
    (tmp_path / "prefect.toml").write_text("[api]\n", encoding="utf-8")
    said: list[str] = []
    other = Services(running.services.folder, tmp_path, {})
    other.up(said.append)
    assert (tmp_path / "prefect.toml").read_text(encoding="utf-8") == "[api]\n"
    assert any("PREFECT_API_URL" in line for line in said)
    ours = (running.checkout / "prefect.toml").read_text(encoding="utf-8")
    assert ours.startswith(MARK)
