from __future__ import annotations

import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from flows import ray_jobs
from flows.ray_jobs import Job, JobFailed

from .conftest import Running

pytestmark = [pytest.mark.services, pytest.mark.ray]
SCRIPT = str(Path(__file__).resolve().parent / "tiny_stage.py")


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def wait_for(condition: Callable[[], bool], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.2)


def test_every_line_comes_once_and_in_order(running: Running) -> None:
    lines: list[str] = []
    job = Job("lines-once", script("for n in range(500): print('line', n)\nprint('end', end='')"))
    assert ray_jobs.run_job(running.client(), job, lines.append) == "lines-once-a1"
    assert [line for line in lines if line.startswith(("line", "end"))] == [
        *(f"line {n}" for n in range(500)),
        "end",
    ]


class CutStream:
    """The real client, with a log stream that breaks again and again, as a proxy's would."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.connections = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        self.connections += 1
        chunks = 0
        async for chunk in self.client.tail_job_logs(job_id):
            if chunks == self.connections:
                yield chunk[: len(chunk) // 2 + 1]
                raise RuntimeError("connection closed")
            yield chunk
            chunks += 1


def test_a_broken_stream_loses_no_line_and_doubles_none(running: Running) -> None:
    lines: list[str] = []
    text = "import time\nfor n in range(40): print('line', n, flush=True); time.sleep(0.2)"
    client = CutStream(running.client())
    ray_jobs.run_job(client, Job("lines-cut", script(text)), lines.append)
    assert client.connections > 1
    assert [line for line in lines if line.startswith("line")] == [f"line {n}" for n in range(40)]


def test_a_failed_job_is_an_error_with_the_stages_own_words_first(running: Running) -> None:
    text = "import sys; print('before'); print('error: shard 7 is damaged'); sys.exit(1)"
    with pytest.raises(JobFailed) as caught:
        ray_jobs.run_job(running.client(), Job("fails", script(text)), lambda _: None)
    assert str(caught.value).startswith("error: shard 7 is damaged")
    assert "fails-a1 FAILED" in str(caught.value)


def test_a_failed_job_gets_a_new_attempt(running: Running) -> None:
    job = Job("again", script("import sys; sys.exit(3)"))
    for attempt in (1, 2):
        with pytest.raises(JobFailed, match=f"again-a{attempt}"):
            ray_jobs.run_job(running.client(), job, lambda _: None)


def test_two_submitters_at_once_share_one_job(running: Running) -> None:
    job, found = Job("race", script("import time; time.sleep(20)")), []
    barrier = threading.Barrier(4)

    def submit() -> None:
        client = running.client()
        barrier.wait()
        found.append(ray_jobs.attach_or_submit(client, job))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["race-a1"] * 4
    assert ray_jobs.stop(running.client(), "race-a1") == "STOPPED"


def test_a_running_job_is_interrupted_and_leaves_cleanly(running: Running, tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, "slow", "slow", "--store", str(tmp_path), "--run", "r"]
    job = Job("stopped", command, metadata={"prefect_flow_run_id": "flow-run-1"})
    client, caught = running.client(), []

    def follow() -> None:
        try:
            ray_jobs.run_job(running.client(), job, lambda _: None)
        except JobFailed as error:
            caught.append(str(error))

    thread = threading.Thread(target=follow)
    thread.start()
    wait_for((tmp_path / "r-slow-started").exists)
    time.sleep(0.5)
    assert ray_jobs.stop_jobs_of(client, "another flow run") == {}
    assert ray_jobs.stop_jobs_of(client, "flow-run-1") == {"stopped-a1": "STOPPED"}
    thread.join(timeout=30)
    assert caught == ["job stopped-a1 was stopped"]
    assert (tmp_path / "r-left-cleanly").read_bytes() == b"SIGINT"


def test_a_job_that_cannot_start_is_given_up_and_ends(running: Running) -> None:
    job = Job("pending", script("pass"), pending_timeout_seconds=2, resources={"unobtainium": 1})
    client = running.client()
    with pytest.raises(JobFailed, match=r"pending_timeout_seconds = 2"):
        ray_jobs.run_job(client, job, lambda _: None)
    assert client.get_job_status("pending-a1").value == "PENDING"  # Ray forgets that stop
    assert ray_jobs.stop(client, "pending-a1", seconds=60) in ("FAILED", "STOPPED")


def test_other_settings_for_the_same_run_are_refused_while_a_job_lives(running: Running) -> None:
    metadata = {"store": "s", "run": "r", "stage": "x", "settings": "one"}
    other = {"store": "s", "run": "r", "stage": "y", "settings": "two"}
    client, sleep = running.client(), script("import time; time.sleep(60)")
    ray_jobs.attach_or_submit(client, Job("r-x-one", sleep, metadata=metadata))
    with pytest.raises(JobFailed, match=r"r-x-one-a1 works on run 'r' with other settings"):
        ray_jobs.attach_or_submit(client, Job("r-y-two", sleep, metadata=other))
    ray_jobs.refuse_other_settings(client, Job("r-y-one", sleep, metadata={**other, "run": "q"}))
    assert ray_jobs.stop(client, "r-x-one-a1") == "STOPPED"


@pytest.mark.parametrize("base_id", ["a/b", "", "a" * 91, "ä", "a b"])
def test_an_id_that_would_haunt_ray_is_refused(base_id: str) -> None:
    with pytest.raises(ValueError, match="job id"):
        Job(base_id, ["true"])


def test_an_address_where_nothing_answers_is_named() -> None:
    with pytest.raises(JobFailed, match=r"127\.0\.0\.1:9"):
        ray_jobs.connect("http://127.0.0.1:9", seconds=1)
