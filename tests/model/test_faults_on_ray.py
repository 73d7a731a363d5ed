"""Faults, with real Ray Train workers on a cluster of local nodes.

Workers that hang or die, drivers that are stopped, killed or started twice, nodes that are taken
away, a store that fails one request in ten. In each, training goes on from its last checkpoint, and
ends where an undisturbed one does.
"""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import psutil
import pytest

from pipelines.core.store import Store
from tests.flaky_proxy import FAILURES, flaky_proxy
from tests.model.fault_runs import (
    INTERVAL,
    STEPS,
    Driver,
    build_run,
    check_same,
    copy_of,
    resumed_at,
    undisturbed,
    whole_steps,
    workers_of,
)
from tests.model.ray_nodes import Nodes, ray_nodes
from tests.object_store import s3_server

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
TWO = {"num_workers": 2, "max_worker_failures": 1, "worker_timeout_seconds": 6}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build_run(tmp_path_factory.mktemp("built") / "store")


@pytest.fixture(scope="module")
def expected(built: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(copy_of(built, tmp_path_factory.mktemp("expected") / "store"), 2)


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter[str]]:
    """An S3 server behind a proxy that fails one request in ten; the cluster's nodes know it."""
    folder = tmp_path_factory.mktemp("s3") / "server"
    with (
        s3_server(folder) as environment,
        flaky_proxy(environment["AWS_ENDPOINT_URL"]) as (proxy, done),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in (environment | {"AWS_ENDPOINT_URL": proxy}).items():
            patch.setenv(name, value)
        fsspec.filesystem("s3").clear_instance_cache()
        yield done
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture(scope="module")
def nodes(failures: Counter[str]) -> Iterator[Nodes]:
    with ray_nodes(2) as cluster:
        yield cluster


def test_a_hung_worker_then_a_stopped_driver(
    built: Store, expected: dict[str, Any], nodes: Nodes, tmp_path: Path
) -> None:
    store = copy_of(built, tmp_path / "store", cluster=TWO)
    driver = Driver(store, nodes.address)
    driver.wait_for_step(2 * INTERVAL)
    hung = workers_of()[1]
    hung.send_signal(signal.SIGSTOP)
    driver.wait_until(lambda: len(resumed_at(driver.output)) == 1)
    [again] = resumed_at(driver.output)
    before = re.findall(r"step (\d+)/", driver.output.split("already finished")[0])
    assert again <= int(before[-1]) <= again + INTERVAL, "at most one interval is done again"
    assert not psutil.pid_exists(hung.pid)

    driver.wait_for_step(again + INTERVAL)
    driver.process.send_signal(signal.SIGTERM)
    output = driver.finish(143)
    [step] = map(int, re.findall(r"stopped at step (\d+), saved \(signal SIGTERM\); run", output))
    assert again < step < STEPS, output
    assert whole_steps(store)[-1] == step
    assert step % INTERVAL, "saved because it was asked to, not because it was time"
    wait_until_no_worker_is_left()

    output = Driver(store, nodes.address).finish()
    assert resumed_at(output) == [step]
    check_same(store, expected)


def test_a_killed_driver_leaves_no_worker_and_a_second_one_is_refused(
    built: Store, expected: dict[str, Any], nodes: Nodes, tmp_path: Path
) -> None:
    store = copy_of(built, tmp_path / "store", cluster=TWO)
    driver = Driver(store, nodes.address)
    driver.wait_for_step(INTERVAL)
    refused = Driver(store, nodes.address).finish(1)
    assert re.search(rf"process {driver.process.pid} on \S+ has been training this", refused)
    assert "steps to do" not in refused

    driver.process.send_signal(signal.SIGKILL)
    driver.finish(-signal.SIGKILL)
    last = whole_steps(store)[-1]
    assert INTERVAL <= last < STEPS
    wait_until_no_worker_is_left()

    driver = Driver(store, nodes.address)
    driver.wait_until(lambda: bool(nodes.metrics("ray_babelmill_loss{")))
    [loss] = nodes.metrics("ray_babelmill_loss{")
    assert 'run="tiny"' in loss
    assert 0 < float(loss.split()[-1]) < 6
    assert {
        re.search(r'kind="(\w+)"', line)[1]  # type: ignore[index]
        for line in nodes.metrics("ray_babelmill_tokens_per_second{")
    } == {"real", "padded", "masked"}
    output = driver.finish()
    assert resumed_at(output) == [last]
    check_same(store, expected)


def test_a_store_that_fails_one_request_in_ten_and_a_killed_worker(
    built: Store, expected: dict[str, Any], nodes: Nodes, failures: Counter[str], tmp_path: Path
) -> None:
    local = copy_of(built, tmp_path / "store", cluster=TWO)
    store = Store("s3://corpora/faults")
    for key in local.keys(""):
        store.publish_file(Path(local.path(key.lstrip("/"))), key.lstrip("/"))
    failed = failures.copy()
    driver = Driver(store, nodes.address)
    driver.wait_for_step(INTERVAL)
    workers_of()[1].send_signal(signal.SIGKILL)
    output = driver.finish()
    [again] = resumed_at(output)
    assert INTERVAL <= again < STEPS
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


def test_nodes_that_are_taken_away(
    built: Store, expected: dict[str, Any], nodes: Nodes, tmp_path: Path
) -> None:
    """A drained node: two workers become one. Then nodes come, and one is lost without a word."""
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
    assert 0 < saved < STEPS, "saved because the node will go"
    driver.wait_until(lambda: len(workers_of()) < 2)  # Ray ends the group when the time is over
    nodes.lose(second)
    output = driver.finish()
    assert resumed_at(output) == [saved]
    check_same(store, expected, exactly=False)

    store = copy_of(built, tmp_path / "lost", cluster=TWO)
    third = nodes.add()
    driver = Driver(store, nodes.address)
    driver.wait_for_step(INTERVAL)
    nodes.lose(third)
    driver.wait_for("waiting for more")
    nodes.add()
    output = driver.finish()
    [again] = resumed_at(output)
    before = re.findall(r"step (\d+)/", output.split("already finished")[0])
    assert again <= int(before[-1]) <= again + INTERVAL
    check_same(store, expected)


def wait_until_no_worker_is_left() -> None:
    deadline = time.monotonic() + 10
    while workers_of():
        assert time.monotonic() < deadline
        time.sleep(0.1)
