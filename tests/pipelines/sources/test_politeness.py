"""One budget of requests, whoever asks."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

import pytest

from pipelines.config.sources import FetchingSection
from pipelines.sources.fetching.fetch import fetch
from pipelines.sources.fetching.politeness import Politeness, SharedBudget, wait_for_slot
from tests.pipelines.sources.web_server import Answer, Clock, Request, serve

HOST = "data.example.org"


class Job:
    """Stands for `Attempt.shared`: the object behind one method, `call`."""

    def __init__(self, politeness: Politeness) -> None:
        self.politeness = politeness

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(self.politeness, name)(*arguments)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.sleep", clock.sleep)
    return clock


def test_slots_are_handed_out_in_order_and_evenly(clock: Clock) -> None:
    budget = Politeness(4.0, clock=clock)
    assert [budget.acquire(HOST) for _ in range(4)] == [0.0, 0.25, 0.5, 0.75]
    assert budget.acquire("another.example.org") == 0.0
    clock.now += 0.6
    assert budget.acquire(HOST) == pytest.approx(0.4)
    clock.now += 100
    assert budget.acquire(HOST) == 0.0  # time that passed without requests is not saved up


def test_many_threads_keep_to_one_rate(clock: Clock) -> None:
    shared = Job(Politeness(8.0, clock=clock))
    with ThreadPoolExecutor(4) as pool:
        workers = [SharedBudget(shared) for _ in range(4)]
        waits = list(pool.map(lambda i: workers[i % 4].acquire(HOST), range(100)))
    assert sorted(waits) == [number / 8 for number in range(100)]


WORKER = """
import sys
from multiprocessing.managers import BaseManager
from pipelines.sources.fetching.politeness import SharedBudget
BaseManager.register("job")
manager = BaseManager(address=sys.argv[1], authkey=b"tests")
manager.connect()
budget = SharedBudget(manager.job())
print(*[budget.acquire("data.example.org") for _ in range(25)], budget.tries)
"""


def test_many_processes_keep_to_one_rate(tmp_path: Path) -> None:
    job = Job(Politeness(8.0, tries=5, clock=Clock()))
    BaseManager.register("job", callable=lambda: job)
    manager = BaseManager(address=str(tmp_path / "socket"), authkey=b"tests")
    server = manager.get_server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [sys.executable, "-c", WORKER, str(tmp_path / "socket")]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    waits: list[float] = []
    for worker in workers:
        *own, tries = worker.communicate(timeout=60)[0].split()
        assert tries == "5" and own == sorted(own, key=float)
        waits += map(float, own)
    assert sorted(waits) == [number / 8 for number in range(100)]


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_refusal_pauses_everybody_and_pauses_grow(clock: Clock, status: int) -> None:
    shared = Job(Politeness(10.0, first_pause_seconds=1, longest_pause_seconds=20, clock=clock))
    one, other = SharedBudget(shared), SharedBudget(shared)
    pauses = []
    for _ in range(7):
        one.report(HOST, status, None, 0.0)
        assert other.paused(HOST) and not other.paused("another.example.org")
        pauses.append(other.acquire(HOST))
        clock.now += pauses[-1]
        assert not other.paused(HOST)
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 20, 20])
    one.report(HOST, 200, None, 0.0)
    other.report(HOST, status, None, 0.0)
    assert one.acquire(HOST) == pytest.approx(1.0)


def test_refusals_of_requests_under_way_count_as_one(clock: Clock) -> None:
    budget = Politeness(first_pause_seconds=1, clock=clock)
    for _ in range(50):
        budget.report(HOST, 503, None, 0.0)
    budget.report(HOST, 200, None, 0.0)  # this one went out before the refusals, too
    assert budget.acquire(HOST) == pytest.approx(1.0)
    clock.now += 1.0
    budget.report(HOST, 503, None, 0.0)
    assert budget.paused(HOST)
    clock.now += 1.9
    assert budget.paused(HOST)
    clock.now += 0.2
    assert not budget.paused(HOST)


def test_retry_after_is_obeyed_even_beyond_the_longest_pause(clock: Clock) -> None:
    budget = Politeness(longest_pause_seconds=20, clock=clock)
    budget.report(HOST, 429, 500.0, 0.9)
    assert budget.acquire(HOST) == 500.0
    budget.report(HOST, 503, 3.0, 0.9)  # shortens nothing
    assert budget.paused(HOST)
    clock.now += 499
    assert budget.paused(HOST)


def test_other_answers_pause_nobody(clock: Clock) -> None:
    budget = Politeness(clock=clock)
    for status in (None, 200, 206, 302, 404, 500, 502):
        budget.report(HOST, status, None, 0.0)
        assert not budget.paused(HOST)


def test_jitter_makes_a_pause_at_most_half_longer() -> None:
    budget = Politeness(first_pause_seconds=2.0, longest_pause_seconds=1000)
    assert [budget.pause(n, 0.0) for n in (1, 2, 3)] == [2, 4, 8]
    assert [budget.pause(n, 0.5) for n in (1, 2, 3)] == [2.5, 5, 10]
    assert budget.pause(5000, 0.0) == 1000


def test_a_slot_is_void_when_a_pause_began_meanwhile(clock: Clock) -> None:
    budget = Politeness(1.0, first_pause_seconds=10, clock=clock)
    assert budget.acquire(HOST) == 0.0

    def refused_while_sleeping(seconds: float) -> None:
        clock.now += seconds
        if clock.now == 1001.0:
            budget.report(HOST, 503, None, 0.0)

    clock.sleep = refused_while_sleeping  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", refused_while_sleeping)
        wait_for_slot(budget, HOST)
    assert clock.now == 1011.0  # not 1001, the slot that it had


def test_requests_of_all_workers_keep_to_the_rate_of_one_server(
    clock: Clock, tmp_path: Path
) -> None:
    politeness = Politeness(4.0, clock=clock)
    slots: list[float] = []

    class Recorder(Job):
        def call(self, name: str, *arguments: Any) -> Any:
            with clock.lock:  # so that no time passes meanwhile
                result = super().call(name, *arguments)
                if name == "acquire":
                    slots.append(clock.now + result)
                return result

    def site(request: Request) -> Answer:
        return Answer(b"content", 503 if len(server.requests) == 6 else 200)

    shared = Recorder(politeness)
    with serve(site) as server, ThreadPoolExecutor(4) as pool:

        def work(number: int) -> None:
            fetch(f"{server.address}/{number}", tmp_path / str(number), SharedBudget(shared))

        list(pool.map(work, range(20)))
    assert len(server.requests) == 21  # 20 files, and the refused one once more
    spacing = [later - sooner for sooner, later in itertools.pairwise(slots)]
    assert min(spacing) >= 0.25 - 1e-9
    assert max(spacing) >= 1.0 - 0.25  # the pause after the refusal, for all four
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"content"}


def test_it_is_made_from_its_section_in_any_process() -> None:
    section = FetchingSection(requests_per_second=2.0, tries=3)
    arguments = pickle.loads(pickle.dumps(section.model_dump()))
    budget = Politeness(**arguments, clock=Clock())
    assert budget.tries == 3
    assert [budget.acquire(HOST) for _ in range(3)] == [0.0, 0.5, 1.0]
