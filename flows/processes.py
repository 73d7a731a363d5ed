"""Background processes: start them in their own session, and later stop exactly those.

A process is known by its id and the time it was created, so an id that the system has given to
somebody else since is never signalled. Nothing is ever looked up by a process name.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import BaseModel

OWNER = "BABELMILL_SERVICES"
"""Environment variable that marks every process of one set of services, for `down`."""


PR_SET_PDEATHSIG = 1
"""Linux prctl(2)."""


class Started(BaseModel):
    """A process that was started."""

    pid: int
    created: float
    """When it was created, seconds since the epoch, as psutil says it."""


def start(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    folder: Path,
    ends_with_parent: bool = False,
) -> Started:
    """Start a command in a session of its own, its output appended to `log`.

    A shell gives its background children an ignored SIGINT, which they would pass on; Prefect's
    and Ray's processes are stopped by that signal, so it is set back to its default first.

    Args:
        ends_with_parent: also stop it when this process is gone, however it went.
    """

    def prepare() -> None:
        _default_interrupt()
        if ends_with_parent:
            die_with_parent()

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            preexec_fn=prepare,
        )
    return Started(pid=child.pid, created=psutil.Process(child.pid).create_time())


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def die_with_parent() -> None:
    """Between fork and exec: let the kernel send SIGTERM when the parent is gone (Linux only).

    A driver whose terminal was killed would otherwise train on, beside the rerun of it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def interrupted_by_any_signal() -> Iterator[None]:
    """Leave the block on SIGTERM and SIGHUP as on Ctrl-C, so that what it started is stopped."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def find(started: Started) -> psutil.Process | None:
    """The process if it still runs and is still the same one, else None."""
    try:
        process = psutil.Process(started.pid)
        if abs(process.create_time() - started.created) > 0.05:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.NoSuchProcess:
        return None


def tree(started: Started, owner: str) -> list[psutil.Process]:
    """The process, what descends from it, and what it left behind in its session.

    Args:
        owner: value of OWNER in the environment of the processes that belong to these services;
            a process of the session that carries another value is left alone.
    """
    root = find(started)
    found = {} if root is None else {root.pid: root}
    for child in [] if root is None else root.children(recursive=True):
        found[child.pid] = child
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) != started.pid or process.pid in found:
                continue
            if process.environ().get(OWNER) == owner:
                found[process.pid] = process
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue  # it ended just now, or belongs to another user: either way it is not ours
    return list(found.values())


def stop(started: Started, owner: str, *, patience_seconds: float = 15.0) -> None:
    """Stop a process and all that descends from it: SIGTERM to the root, to the rest, SIGKILL."""
    everyone = tree(started, owner)
    root = find(started)
    if root is not None:
        _signal([root], signal.SIGTERM)
        psutil.wait_procs([root], timeout=patience_seconds)
    everyone = list({p.pid: p for p in [*everyone, *tree(started, owner)]}.values())
    _signal(everyone, signal.SIGTERM)
    _, alive = psutil.wait_procs(everyone, timeout=5)
    _signal(alive, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=5)
    _reap(started.pid)


def _signal(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)  # psutil checks the creation time before it sends
        except psutil.NoSuchProcess:
            continue


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # another process started it


def free_port(preferred: int | None = None) -> int:
    """A TCP port of the loopback address that nothing listens on: the preferred one if free."""
    for port in [preferred, 0] if preferred else [0]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port or 0))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free TCP port on 127.0.0.1")


def wait_until(
    ready: Callable[[], bool], started: Started, *, seconds: float, what: str, log: Path
) -> None:
    """Wait until `ready()` is true.

    Raises:
        RuntimeError: the process ended, or the time is over; with the last lines of its log.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        ended = find(started) is None
        if ended or time.monotonic() > deadline:
            how = "ended while starting" if ended else f"is not ready after {seconds:.0f} s"
            raise RuntimeError(f"{what} {how}; the end of {log}:\n{last_lines(log)}")
        time.sleep(0.3)


def last_lines(log: Path, count: int = 20) -> str:
    """The end of a log file, for an error message."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-count:])
