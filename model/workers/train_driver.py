"""What the driver does while its workers train: holds the lease, passes on stops, watches.

Training itself runs in a thread of its own, because the main thread takes the signals.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from model import checkpoint
from model.config import ClusterSection
from model.notices import StopNotice, TrainingStopped, request
from model.workers.failures import DriverStopped, TrainingFailed
from model.workers.ray_train import connect, needs, shortage, start_trainer
from model.workers.run_lease import RunLease
from pipelines.core.config import ConfigError
from pipelines.core.shards import Attempt
from pipelines.core.store import Store

LOOK_SECONDS = 0.25
"""Between two looks at the signals."""
COUNT_SECONDS = 5.0
"""Between two looks at the cluster's resources."""
SAVES = ("pretrain",)
"""Loops that save when they are told to stop; the others are over in minutes and begin anew."""


def train(
    loop: str, job: Mapping[str, Any], attempt: Attempt, run: str, cluster: ClusterSection
) -> checkpoint.Checkpoint:
    """Run a loop in a group of workers; returns its last checkpoint.

    Raises:
        ConfigError: the cluster is too small.
        LeaseHeld: another driver does the same.
        TrainingFailed: no restart was left or would have helped, or no result came out.
        DriverStopped: a signal came; the checkpoint is there, as far as time allowed.
    """
    store, folder = attempt.store, f"runs/{run}/checkpoints/{attempt.unit_id}"
    with RunLease(store, f"{folder}/driver.json") as lease:
        wait_for_cluster(cluster)
        stop_key = f"{folder}/stop.json"
        store.delete(stop_key)
        config = {
            "loop": loop,
            "job": dict(job),
            "store": store.url,
            "folder": folder,
            "stop_key": stop_key,
            "unit_id": attempt.unit_id,
            "run": run,
            "use_gpu": cluster.use_gpu,
            "cpus_per_worker": cluster.cpus_per_worker,
            "needs": needs(cluster),
            "most_workers": cluster.most_workers,
        }
        with (
            StopNotice() as notice,
            tempfile.TemporaryDirectory(prefix="babelmill-ray-") as scratch,
        ):
            notice.on_signals()
            work = InThread(lambda: start_trainer(config, cluster, scratch))
            follow = Follow(loop, store, folder, stop_key, cluster, notice)
            stopped = follow.until_the_end(work, lease)
        store.delete(stop_key)
        if stopped:
            message = str(TrainingStopped(stopped["step"], stopped["why"]))
            if follow.signal is None:  # somebody else asked for it
                raise TrainingFailed(message)
            say(loop, message)
            raise DriverStopped(follow.signal)
        result, passed_over = checkpoint.latest_complete(store, folder, optimizer=False)
    if result is None:
        raise TrainingFailed(f"training left no whole checkpoint in {folder}: {passed_over}")
    return result


class InThread:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], dict[str, Any]]) -> None:
        self._call = call
        self._result: dict[str, Any] = {}
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="train", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:  # handed to whoever waits
            self._error = error

    def ended(self, seconds: float) -> bool:
        """Whether it is over, after waiting for so long at most."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> dict[str, Any]:
        """What the call returned; its error is raised."""
        if self._error is not None:
            raise self._error
        return self._result


class Follow:
    """The driver's watch over a training that runs in a thread."""

    def __init__(
        self,
        loop: str,
        store: Store,
        folder: str,
        stop_key: str,
        cluster: ClusterSection,
        notice: StopNotice,
    ) -> None:
        self.loop, self.store, self.folder = loop, store, folder
        self.stop_key, self.cluster, self._notice = stop_key, cluster, notice
        self.signal: signal.Signals | None = None
        """The one that told this driver to stop."""
        self._asked_at = 0.0
        self._told = False
        self._short_since: float | None = None
        self._counted = 0.0

    def until_the_end(self, work: InThread, lease: RunLease) -> dict[str, Any]:
        """Wait for the end of training; returns where it was told to stop, if it was.

        Raises:
            DriverStopped: a signal came, and grace_seconds were not enough.
            TrainingFailed: the cluster is too small for too long, or another driver took over.
        """
        while not work.ended(LOOK_SECONDS):
            if lease.taken_by is not None:
                raise TrainingFailed(f"{lease.taken_by}: this one leaves")
            self._pass_on_a_stop()
            self._look_at_the_cluster()
        if self.signal is None:
            return work.result()
        try:
            return work.result()
        except TrainingFailed as error:
            say(self.loop, str(error))
            raise self._not_saved(self.signal) from None

    def _pass_on_a_stop(self) -> None:
        name = self._notice.signal
        if name is None:
            return
        if self.signal is None:
            self.signal, self._asked_at = name, time.monotonic()
            if self.loop in SAVES:
                say(
                    self.loop,
                    f"{name.name}: saving before the end, {self.cluster.grace_seconds} s at most "
                    f"(cluster.grace_seconds); a second Ctrl-C ends it at once",
                )
        if self.loop not in SAVES:
            say(self.loop, f"{name.name}: stopped; nothing is saved, run again to begin anew")
            raise DriverStopped(name)
        if not self._told:
            try:
                request(self.store, self.stop_key, "stop", f"signal {name.name}")
                self._told = True
            except Exception as error:  # whatever the store says: the next look tries again
                say(self.loop, f"the store does not take the word to stop: {error}")
        if time.monotonic() - self._asked_at > self.cluster.grace_seconds:
            raise self._not_saved(name)

    def _not_saved(self, name: signal.Signals) -> DriverStopped:
        steps = sorted(checkpoint.whole_checkpoints(self.store, self.folder))
        last = f"the last checkpoint is of step {steps[-1]}" if steps else "there is no checkpoint"
        say(self.loop, f"stopped without saving; {last}; run again to go on")
        return DriverStopped(name)

    def _look_at_the_cluster(self) -> None:
        now = time.monotonic()
        if now - self._counted < COUNT_SECONDS:
            return
        self._counted = now
        lack = shortage(self.cluster)
        if lack is None:
            self._short_since = None
            return
        limit = self.cluster.pending_timeout_seconds
        if self._short_since is None:
            self._short_since = now
            say(self.loop, f"{lack}: waiting for more, {limit} s at most")
        elif now - self._short_since > limit:
            raise TrainingFailed(
                f"{lack}, since {now - self._short_since:.0f} s "
                f"(cluster.pending_timeout_seconds = {limit}); run again to go on from the last "
                f"checkpoint"
            )


def wait_for_cluster(cluster: ClusterSection) -> None:
    """Connect, and wait until the cluster can hold the fewest workers; Ray would wait for ever.

    Raises:
        ConfigError: it cannot within cluster.pending_timeout_seconds.
    """
    connect()
    deadline = time.monotonic() + cluster.pending_timeout_seconds
    while (lack := shortage(cluster)) is not None:
        if time.monotonic() > deadline:
            raise ConfigError(
                f"cluster.num_workers = {cluster.num_workers}: {lack} after "
                f"{cluster.pending_timeout_seconds} s"
            )
        time.sleep(1.0)


def say(loop: str, text: str) -> None:
    """One line of the stage."""
    print(f"[{loop}] {text}", flush=True)  # noqa: T201 - this is the terminal
