"""Faults, with real Ray Train workers on a cluster of local nodes.

Workers that hang or die, drivers that are stopped, killed or started twice, nodes that are taken
away, a store that fails one request in ten. Each time training goes on from its last checkpoint,
and in the end it is where an undisturbed one is. To save starts, faults follow each other in one
training where they can.
"""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipelines.core.store import Store
from tests.flaky_proxy import FAILURES, flaky_store
from tests.model.fault_runs import (
    INTERVAL,
    STEPS,
    Driver,
    Group,
    built_run,
    check_lost,
    check_same,
    copy_of,
    logged,
    resumed_at,
    undisturbed,
    wait_until_no_worker_is_left,
    whole_steps,
    workers_of,
)
from tests.model.ray_nodes import Nodes, ray_nodes

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
TWO = {"num_workers": 2, "max_worker_failures": 2, "worker_timeout_seconds": 6}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return built_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter[str]]:
    """An S3 server behind a proxy that fails one request in ten; the cluster's nodes know it."""
    with flaky_store(tmp_path_factory.mktemp("s3") / "server") as (_, done):
        yield done


@pytest.fixture(scope="module")
def nodes(failures: Counter[str]) -> Iterator[Nodes]:
    with ray_nodes(2) as cluster:
        yield cluster


def test_a_lost_node_then_a_hung_worker_then_a_killed_driver_then_a_stopped_one(
    built: Store, expected: dict[str, Any], nodes: Nodes, tmp_path: Path
) -> None:
    store = copy_of(built, tmp_path / "store", cluster=TWO)
    driver = Driver(store, nodes.address)
    group = Group(driver)
    driver.wait_for_step(INTERVAL)
    before = group.logged()
    nodes.lose(nodes.workers[1])
    driver.wait_for("waiting for more")
    nodes.add()
    driver.wait_until(lambda: len(logged(driver.output)) == 2)
    group = Group(driver)

    driver.wait_for_step(2 * INTERVAL)
    hung = group.workers[1]
    hung.send_signal(signal.SIGSTOP)
    seen, before = before, group.logged()
    check_lost(seen, before, expected)
    refused = Driver(store, nodes.address).finish(1)
    assert re.search(rf"process {driver.process.pid} on \S+ has been training this", refused)
    assert "steps to do" not in refused
    check_metrics(driver, nodes)
    driver.wait_until(lambda: len(logged(driver.output)) == 3)
    assert not psutil.pid_exists(hung.pid)
    group = Group(driver)

    driver.wait_for_step(3 * INTERVAL)
    driver.process.send_signal(signal.SIGKILL)
    seen, before = before, group.logged()
    check_lost(seen, before, expected)
    driver.finish(-signal.SIGKILL)
    wait_until_no_worker_is_left()
    last = whole_steps(store)[-1]

    driver = Driver(store, nodes.address)
    group = Group(driver)
    driver.wait_until(lambda: bool(group.logged()))
    driver.process.send_signal(signal.SIGTERM)
    output = driver.finish(143)
    assert resumed_at(output) == [last]
    check_lost(before, group.logged(), expected)
    [step] = map(int, re.findall(r"stopped at step (\d+), saved \(signal SIGTERM\); run", output))
    assert last < step < STEPS, output
    assert whole_steps(store)[-1] == step == group.logged()[-1][0]
    wait_until_no_worker_is_left()

    output = Driver(store, nodes.address).finish()
    assert resumed_at(output) == [step]
    assert logged(output)[1][0][0] == step + 1
    check_same(store, expected)


def check_metrics(driver: Driver, nodes: Nodes) -> None:
    """The nodes give Prometheus what the loop measures."""
    driver.wait_until(lambda: bool(nodes.metrics("ray_babelmill_loss{")))
    for loss in nodes.metrics("ray_babelmill_loss{"):
        assert 'run="tiny"' in loss
        assert 0 < float(loss.split()[-1]) < 6
    assert {
        re.search(r'kind="(\w+)"', line)[1]  # type: ignore[index]
        for line in nodes.metrics("ray_babelmill_tokens_per_second{")
    } == {"real", "padded", "masked"}


def test_a_store_that_fails_one_request_in_ten_and_a_killed_worker(
    built: Store, expected: dict[str, Any], nodes: Nodes, failures: Counter[str], tmp_path: Path
) -> None:
    local = copy_of(built, tmp_path / "store", cluster=TWO)
    store = Store("s3://corpora/faults")
    for key in local.keys(""):
        store.publish_file(Path(local.path(key.lstrip("/"))), key.lstrip("/"))
    failed = failures.copy()
    driver = Driver(store, nodes.address)
    group = Group(driver)
    driver.wait_for_step(INTERVAL)
    group.workers[1].send_signal(signal.SIGKILL)
    before = group.logged()
    output = driver.finish()
    # A slow store may not have taken the last checkpoint yet, and the one before it counts.
    check_lost(before, logged(output)[1], expected, intervals=2)
    assert all(failures[kind] - failed[kind] > 2 for kind in FAILURES), failures
    check_same(store, expected)


def test_an_error_that_would_come_again_uses_up_no_restart(
    built: Store, nodes: Nodes, tmp_path: Path
) -> None:
    store = copy_of(built, tmp_path / "store", cluster=TWO)
    unigram = next(key for key in store.keys("runs/tiny/vocabulary") if "unigram" in key)
    path = Path(store.path(unigram))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    output = Driver(store, nodes.address).finish(1)
    assert re.search(rf"error: .*{re.escape(unigram)}", output, re.DOTALL)
    assert output.count("Error in training function") <= 2, "each worker said it once at most"
    assert "cluster.max_worker_failures" not in output


def test_a_node_that_is_taken_away_with_notice(
    built: Store, expected: dict[str, Any], nodes: Nodes, tmp_path: Path
) -> None:
    """A drained node: it saves, and two workers become one."""
    elastic = {**TWO, "num_workers": (1, 2), "max_worker_failures": 0, "pending_timeout_seconds": 8}
    store = copy_of(
        built,
        tmp_path / "elastic",
        cluster=elastic,
        pretraining={"checkpoint_every_steps": STEPS, "checkpoint_every_minutes": 0},
    )
    second = nodes.workers[1]
    driver = Driver(store, nodes.address, RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S="0.5")
    driver.wait_for(r"step [1-9]\d*/")
    nodes.drain(second, 6.0)
    driver.wait_until(lambda: bool(whole_steps(store)))
    [saved] = whole_steps(store)
    assert 0 < saved < STEPS
    driver.wait_for(rf"step {saved}: saving now \(Ray takes node {second.node_id} away\)")
    driver.wait_until(lambda: len(workers_of()) < 2)  # Ray ends the group when the time is over
    nodes.lose(second)
    output = driver.finish()
    assert resumed_at(output) == [saved]
    check_same(store, expected, exactly=False)


def test_a_node_that_comes(
    built: Store, expected: dict[str, Any], nodes: Nodes, tmp_path: Path
) -> None:
    """One worker becomes two, and goes on from where it was when the node came."""
    while len(nodes.workers) > 1:
        nodes.lose(nodes.workers[-1])
    elastic = {**TWO, "num_workers": (1, 2), "max_worker_failures": 0, "resize_seconds": 12}
    store = copy_of(
        built,
        tmp_path / "grown",
        cluster=elastic,
        pretraining={"checkpoint_every_steps": STEPS, "checkpoint_every_minutes": 0},
    )
    driver = Driver(store, nodes.address)
    driver.wait_for(r"step [1-9]\d*/")
    nodes.add()
    driver.wait_until(lambda: bool(whole_steps(store)))
    [saved] = whole_steps(store)
    assert 0 < saved < STEPS
    driver.wait_for(rf"step {saved}: saving now \(there is room for 2 workers\)")
    [worker] = workers_of()
    while len(workers_of()) < 2:  # Ray takes its time, which this little training does not last
        assert driver.process.poll() is None, driver.output
        with suppress(psutil.NoSuchProcess):
            worker.suspend()
            time.sleep(0.4)
            worker.resume()
        time.sleep(0.1)
    output = driver.finish()
    assert resumed_at(output) == [saved]
    check_same(store, expected, exactly=False)
