from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from flows import processes
from flows.processes import OWNER, Started


def start(tmp_path: Path, text: str, owner: str = "me") -> Started:
    return processes.start(
        [sys.executable, "-c", text],
        log=tmp_path / "log",
        environment={**os.environ, OWNER: owner, "PYTHONUNBUFFERED": "1"},
        folder=tmp_path,
    )


def wait_for_log(tmp_path: Path, text: str) -> None:
    deadline = time.monotonic() + 20
    while text not in (tmp_path / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_stop_ends_the_whole_tree_and_what_was_orphaned(tmp_path: Path) -> None:
    # The middle process leaves, so its child hangs on nobody; the last one ignores SIGTERM.
    grandchild = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"
    middle = (
        "import subprocess, sys;"
        f"p = subprocess.Popen([sys.executable, '-c', {grandchild!r}]);"
        "print('orphan', p.pid)"
    )
    root = (
        f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {middle!r}]);"
        "print('ready'); time.sleep(300)"
    )
    started = start(tmp_path, root)
    wait_for_log(tmp_path, "ready")
    time.sleep(1)
    orphan = int((tmp_path / "log").read_text().split()[1])
    assert psutil.pid_exists(orphan)
    processes.stop(started, "me", patience_seconds=2)
    assert processes.find(started) is None
    assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == "zombie"


def test_a_pid_that_belongs_to_somebody_else_now_is_not_signalled(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        created = psutil.Process(other.pid).create_time()
        processes.stop(Started(pid=other.pid, created=created - 100), "me", patience_seconds=1)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_the_child_does_not_inherit_an_ignored_interrupt(tmp_path: Path) -> None:
    text = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import os;"
        "from flows import processes;"
        "processes.start([sys.executable, '-c', 'import signal; print(signal.getsignal(2))'],"
        "log=Path(sys.argv[2]), environment=os.environ, folder=Path('.'))"
    )
    root = str(Path(__file__).resolve().parents[2])
    subprocess.run(
        [
            "bash",
            "-c",
            f"trap '' INT; exec {sys.executable} -c \"$0\" {root} {tmp_path / 'log'}",
            text,
        ],
        check=True,
    )
    wait_for_log(tmp_path, "default_int_handler")


def test_a_taken_port_is_replaced() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert processes.free_port(port) != port
    assert processes.free_port(port) == port


def test_a_service_that_ends_while_starting_is_told_with_its_log(tmp_path: Path) -> None:
    started = start(tmp_path, "print('no disk left'); raise SystemExit(1)")
    with pytest.raises(RuntimeError, match=r"it ended while starting[\s\S]*no disk left"):
        processes.wait_until(lambda: False, started, seconds=20, what="it", log=tmp_path / "log")


def test_a_process_bound_to_its_parent_ends_when_the_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from flows import processes\n"
        "started = processes.start([sys.executable, '-c', 'import time; time.sleep(60)'],\n"
        "    log=pathlib.Path(sys.argv[1]), environment={}, folder=pathlib.Path('.'),\n"
        "    ends_with_parent=True)\n"
        "print(started.model_dump_json(), flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = processes.Started.model_validate_json(parent.stdout.readline())
    assert processes.find(child) is not None

    parent.kill()
    parent.wait()

    deadline = time.monotonic() + 20
    while processes.find(child) is not None:
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_leave_a_block_as_ctrl_c_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), processes.interrupted_by_any_signal():
        os.kill(os.getpid(), number)
        time.sleep(5)
    assert signal.getsignal(number) == before
