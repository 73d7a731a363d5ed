from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from model.notices import StopNotice, TrainingStopped, request
from pipelines.core.store import Store

ROOT = Path(__file__).resolve().parents[2]
KEY = "runs/r/notice.json"


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)


def test_a_save_is_given_once_and_a_stop_stays() -> None:
    notice = StopNotice()
    assert notice.asked() is None
    notice.ask("save", "node drains")
    notice.ask("save", "disk")
    notice.ask("save", "node drains")
    assert notice.asked() == ("save", "node drains; disk")
    assert notice.asked() is None
    notice.ask("save", "again")
    notice.ask("stop", "enough")
    notice.ask("stop", "too late to be the reason")
    for _ in range(3):
        assert notice.asked() == ("stop", "enough")
    with pytest.raises(ValueError, match='need "save" or "stop"'):
        notice.ask("halt", "a typing error")  # type: ignore[arg-type]


def test_no_notice_of_many_threads_is_lost() -> None:
    notice, seen, done = StopNotice(), set[str](), threading.Event()

    def give(number: int) -> None:
        for n in range(200):
            notice.ask("save", f"{number}.{n}")

    def take() -> None:
        while True:
            last = done.is_set()
            if (asked := notice.asked()) is not None:
                assert asked[0] == "save"
                seen.update(asked[1].split("; "))
            if last:
                return

    takers = [threading.Thread(target=take) for _ in range(2)]
    givers = [threading.Thread(target=give, args=(n,)) for n in range(4)]
    for thread in takers + givers:
        thread.start()
    for thread in givers:
        thread.join()
    done.set()
    for thread in takers:
        thread.join()
    assert seen == {f"{number}.{n}" for number in range(4) for n in range(200)}


def test_a_request_on_the_store_is_taken_once_and_a_new_one_again(store: Store) -> None:
    with StopNotice() as notice:
        notice.watch(store, KEY, seconds=0.01)
        until(lambda: notice.counters["polls/done"] > 2)
        assert notice.asked() is None
        request(store, KEY, "save", "before the night")
        until(lambda: notice._saves)
        assert notice.asked() == ("save", "before the night")
        polls = notice.counters["polls/done"]
        until(lambda: notice.counters["polls/done"] > polls + 3)
        assert notice.asked() is None
        request(store, KEY, "save", "before the night")
        until(lambda: notice._saves)
        assert notice.asked() == ("save", "before the night")
        store.publish_bytes(KEY, b"please stop")
        until(lambda: notice.counters["requests/unreadable"])
        assert notice.asked() is None
        assert "not a request to save or stop: b'please stop'" in notice.notes[0]
        request(store, KEY, "stop", "the driver was told to")
        until(notice.asked)
        assert notice.asked() == ("stop", "the driver was told to")


def test_a_store_that_fails_does_not_end_the_watch(store: Store) -> None:
    class Failing(Store):
        def read_bytes(self, key: str, sha256: str | None = None) -> bytes:
            if self.__dict__["fails"]:
                raise TimeoutError("no answer")
            return super().read_bytes(key, sha256)

    failing = Failing(store.url)
    failing.__dict__["fails"] = True
    request(store, KEY, "stop", "seen late")
    with StopNotice() as notice:
        notice.watch(failing, KEY, seconds=0.01)
        until(lambda: notice.counters["polls/failed"] > 3)
        assert notice.asked() is None
        assert len(notice.notes) == 1 and "TimeoutError: no answer" in notice.notes[0]
        failing.__dict__["fails"] = False
        until(notice.asked)
        assert notice.asked() == ("stop", "seen late")


def test_closed_it_watches_no_more(store: Store) -> None:
    notice = StopNotice()
    notice.watch(store, KEY, seconds=0.01)
    until(lambda: notice.counters["polls/done"])
    [thread] = notice._threads
    notice.close()
    assert not thread.is_alive()


def test_signals_ask_for_a_stop_and_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with StopNotice() as notice:
        assert notice.on_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        until(notice.asked)
        os.kill(os.getpid(), signal.SIGTERM)  # a scheduler that repeats itself
        assert notice.asked() == ("stop", "signal SIGTERM")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_signal_that_is_ignored_stays_so() -> None:
    """A shell has its background jobs ignore Ctrl-C, which is meant for another."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopNotice() as notice:
            assert notice.on_signals()
            signal.raise_signal(signal.SIGINT)
            assert notice.asked() is None
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_interrupt_does_what_it_did_before() -> None:
    with StopNotice() as notice:
        assert notice.on_signals()
        signal.raise_signal(signal.SIGINT)
        assert notice.asked() == ("stop", "signal SIGINT")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_other_threads_are_told_that_they_cannot_catch_signals() -> None:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(StopNotice().on_signals()))
    thread.start()
    thread.join()
    assert answers == [False]


CHILD = """
import time
from model.notices import StopNotice
with StopNotice() as notice:
    notice.on_signals()
    print("ready", flush=True)
    while notice.asked() is None:
        time.sleep(0.01)
    print(*notice.asked(), flush=True)
    time.sleep(600)
"""


def test_a_process_stops_at_the_first_ctrl_c_and_dies_at_the_second() -> None:
    command = [sys.executable, "-c", CHILD]
    # Shells start background jobs with SIGINT ignored; a terminal does not.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "stop signal SIGINT\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == -signal.SIGINT


def test_the_error_says_where_training_stands_and_survives_pickling() -> None:
    error = TrainingStopped(40, "signal SIGTERM")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "stopped at step 40, saved (signal SIGTERM); run again to go on"
    assert (again.step, again.why) == (40, "signal SIGTERM")
