"""One driver at a time: who holds the lease, who waits, who leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from model.workers.run_lease import LeaseHeld, RunLease
from pipelines.core.store import Store

KEY = "runs/tiny/checkpoints/unit/driver.json"
RENEW = 0.2
ROOT = Path(__file__).resolve().parents[3]
HOLDER = f"""
import sys, time
from model.workers.run_lease import RunLease
from pipelines.core.store import Store
with RunLease(Store(sys.argv[1]), {KEY!r}, renew_seconds=0.2):
    print("held", flush=True)
    time.sleep(60)
"""


def lease(store: Store) -> RunLease:
    return RunLease(store, KEY, renew_seconds=RENEW)


def holder(store: Store) -> subprocess.Popen[str]:
    """Another process that holds the lease."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, store.url], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_driver_is_told_who_holds_it_and_changes_nothing(store: Store) -> None:
    with lease(store):
        mine = json.loads(store.read_bytes(KEY))
        with pytest.raises(LeaseHeld, match=rf"process {os.getpid()} on .* since \d{{4}}-"):
            lease(store).__enter__()
        assert json.loads(store.read_bytes(KEY))["holder"] == mine["holder"]
    assert not store.exists(KEY)
    with lease(store):  # and now it is free
        assert store.exists(KEY)


def test_a_killed_driver_of_this_machine_is_followed_at_once(store: Store) -> None:
    process = holder(store)
    with pytest.raises(LeaseHeld, match=f"process {process.pid} on"):
        lease(store).__enter__()
    process.send_signal(signal.SIGKILL)
    process.wait()
    # With renewals an hour apart, waiting for one would not end.
    with RunLease(store, KEY, renew_seconds=3600):
        assert json.loads(store.read_bytes(KEY))["pid"] == os.getpid()


def test_a_lease_of_another_machine_that_nobody_renews_is_taken_over(store: Store) -> None:
    gone = {"holder": "x", "host": "elsewhere", "pid": 1, "process_started": 0.0, "since": "then"}
    store.publish_bytes(KEY, json.dumps(gone).encode())
    with lease(store):
        assert json.loads(store.read_bytes(KEY))["pid"] == os.getpid()


def test_a_process_with_the_same_number_as_a_dead_holder_does_not_hold_it(store: Store) -> None:
    with lease(store):
        old = json.loads(store.read_bytes(KEY))
    store.publish_bytes(KEY, json.dumps(old | {"process_started": 1.0}).encode())
    with RunLease(store, KEY, renew_seconds=3600):
        assert json.loads(store.read_bytes(KEY))["holder"] != old["holder"]


def test_a_holder_notices_that_it_was_followed_and_leaves_the_lease_alone(store: Store) -> None:
    with lease(store) as mine:
        other = json.loads(store.read_bytes(KEY)) | {"holder": "other", "host": "elsewhere"}
        store.publish_bytes(KEY, json.dumps(other).encode())
        while mine.taken_by is None:
            time.sleep(RENEW / 4)
        assert "on elsewhere" in mine.taken_by
    assert json.loads(store.read_bytes(KEY))["holder"] == "other"


def test_a_store_that_stumbles_does_not_end_the_holder(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lease(store) as mine:
        real, calls = Store.exists, []

        def stumbling(self: Store, key: str) -> bool:
            calls.append(key)
            if len(calls) < 3:
                raise OSError("please try again")
            return real(self, key)

        monkeypatch.setattr(Store, "exists", stumbling)
        before = json.loads(store.read_bytes(KEY))["renewals"]
        while len(calls) < 5:
            time.sleep(RENEW / 4)
        assert json.loads(store.read_bytes(KEY))["renewals"] > before
        assert mine.taken_by is None
