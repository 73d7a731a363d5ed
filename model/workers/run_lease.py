"""A lease on the store: one driver at a time trains a unit.

The holder writes a small object anew every few seconds. Whoever finds an object that stays as it is
takes it over, whoever sees it change leaves. No clock is compared with another machine's.
Checkpoints do not depend on it (every attempt writes under a key of its own): it saves the work of
two drivers that would do the same.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from types import TracebackType
from typing import Any

import psutil

from pipelines.core.store import Store

RENEW_SECONDS = 10.0
PATIENCE = 3.5
"""Renewals that may be missing before a lease counts as left behind."""
SETTLE_SECONDS = 0.5
"""Two drivers that start together both write; after this long, both read who came last."""


class LeaseHeld(RuntimeError):
    """Another driver works on the same unit; the message says which."""


class RunLease:
    """Held inside `with`; renewed by a background thread, deleted at the end."""

    def __init__(self, store: Store, key: str, *, renew_seconds: float = RENEW_SECONDS) -> None:
        self.store, self.key, self.renew_seconds = store, key, renew_seconds
        self._mine = {
            "holder": uuid.uuid4().hex,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "process_started": psutil.Process().create_time(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        }
        self._renewals = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self.taken_by: str | None = None
        """Who holds the lease now, once another driver has taken it over."""

    def __enter__(self) -> RunLease:
        """Take the lease; waits while it cannot tell whether its holder lives.

        Raises:
            LeaseHeld: the holder lives.
        """
        found = self._read()
        if found is not None and not _is_dead(found):
            self._watch(found)
        self._write()
        time.sleep(SETTLE_SECONDS)
        now = self._read()
        if now is not None and now["holder"] != self._mine["holder"]:
            raise LeaseHeld(f"{self._named(now)}; both were started at the same time")
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if self.taken_by is None:
            self.store.delete(self.key)

    def _watch(self, found: dict[str, Any]) -> None:
        deadline = time.monotonic() + PATIENCE * self.renew_seconds
        while time.monotonic() < deadline:
            time.sleep(min(1.0, self.renew_seconds / 4))
            now = self._read()
            if now is None:
                return
            if now != found:
                raise LeaseHeld(
                    f"{self._named(now)}: wait for it, or stop it; this one has changed nothing"
                )

    def _renew(self) -> None:
        while not self._done.wait(self.renew_seconds):
            try:
                found = self._read()
                if found is not None and found["holder"] != self._mine["holder"]:
                    self.taken_by = self._named(found)
                    return
                self._write()
            except Exception:  # the store stumbles: the next renewal is soon enough
                continue

    def _write(self) -> None:
        content = json.dumps(self._mine | {"renewals": self._renewals}, indent=1)
        self.store.publish_bytes(self.key, content.encode("utf-8"))
        self._renewals += 1

    def _read(self) -> dict[str, Any] | None:
        if not self.store.exists(self.key):
            return None
        try:
            return dict(json.loads(self.store.read_bytes(self.key)))
        except FileNotFoundError:
            return None

    def _named(self, holder: dict[str, Any]) -> str:
        return (
            f"{self.key}: process {holder['pid']} on {holder['host']} has been training this "
            f"since {holder['since']}"
        )


def _is_dead(holder: dict[str, Any]) -> bool:
    """Whether the holder was a process of this machine that is gone; False when it cannot tell."""
    if holder["host"] != socket.gethostname():
        return False
    try:
        process = psutil.Process(holder["pid"])
        started, zombie = process.create_time(), process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    return bool(zombie or abs(started - holder["process_started"]) > 1.0)
