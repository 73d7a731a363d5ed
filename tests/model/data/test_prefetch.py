from __future__ import annotations

import threading
import time

import pytest

from model.data.prefetch import Prefetched


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_steps_come_in_order_and_end(depth: int) -> None:
    with Prefetched(lambda step: step * step, range(3, 40), depth) as ready:
        assert [ready.take(step) for step in range(3, 40)] == [s * s for s in range(3, 40)]
        if depth:
            with pytest.raises(ValueError, match="no step after the last"):
                ready.take(40)


def test_no_more_than_depth_lie_ready() -> None:
    made: list[int] = []
    with Prefetched(lambda step: made.append(step) or step, range(100), 3) as ready:
        for taken in range(5):
            deadline = time.monotonic() + 10
            # Three in the queue, one that waits for room.
            while len(made) < taken + 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.05)
            assert made == list(range(taken + 4))
            assert ready.take(taken) == taken


@pytest.mark.parametrize("depth", [0, 2])
def test_an_error_comes_where_it_belongs(depth: int) -> None:
    def make(step: int) -> int:
        if step == 3:
            raise OSError("packed/en/x.parquet is damaged")
        return step

    with Prefetched(make, range(10), depth) as ready:
        assert [ready.take(step) for step in range(3)] == [0, 1, 2]
        with pytest.raises(OSError, match=r"packed/en/x\.parquet is damaged"):
            ready.take(3)


def test_another_step_than_the_next_is_refused() -> None:
    with (
        Prefetched(lambda step: step, range(5, 9), 2) as ready,
        pytest.raises(ValueError, match="step 7 was asked for, the next one is 5"),
    ):
        ready.take(7)


def running() -> int:
    return sum(thread.name == "prefetch" for thread in threading.enumerate())


def test_the_thread_ends_with_the_block() -> None:
    with pytest.raises(KeyboardInterrupt), Prefetched(lambda step: step, range(10**9), 2) as ready:
        ready.take(0)
        assert running() == 1
        raise KeyboardInterrupt
    assert running() == 0


def test_waiting_is_counted() -> None:
    release = threading.Event()
    with Prefetched(lambda step: release.wait(10), range(1), 1) as ready:
        threading.Timer(0.2, release.set).start()
        ready.take(0)
        assert 0.1 < ready.waited_seconds < 10
