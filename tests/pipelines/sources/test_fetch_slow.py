"""Servers that hold a worker: too slow, endless headers, pauses of years; and odd addresses."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pipelines.config.sources import FetchingSection
from pipelines.sources.fetching import http_watch
from pipelines.sources.fetching.fetch import FetchError, fetch, file_info
from pipelines.sources.fetching.politeness import Politeness, SharedBudget, wait_for_slot
from pipelines.sources.fetching.transfer import seconds_of, storable
from tests.pipelines.sources.web_server import Answer, Clock, Request, serve

Script = Callable[[Callable[[bytes], object], int], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.sleep", clock.sleep)
    return clock


@contextmanager
def raw_server(script: Script) -> Iterator[str]:
    """A server that sends what the script says, given how many connections there were."""
    lock, count = threading.Lock(), [0]

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with lock:
                count[0] += 1
                number = count[0]
            while self.rfile.readline().strip():
                pass
            with suppress(OSError):  # the client has gone
                script(self.request.sendall, number)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def budget(clock: Clock | None = None, tries: int = 2, **settings: float) -> Politeness:
    more = {} if clock is None else {"clock": clock}
    return Politeness(1e6, tries, 0.01, 0.02, **settings, **more)  # type: ignore[arg-type]


def trickle(send: Callable[[bytes], object], piece: bytes) -> None:
    pause = threading.Event()
    while True:
        send(piece)
        pause.wait(0.02)


@pytest.mark.parametrize("length", [b"Content-Length: 100000000\r\n", b""])
def test_a_trickle_is_a_failed_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: bytes
) -> None:
    monkeypatch.setattr(http_watch, "WINDOW_SECONDS", 0.4)

    def script(send: Callable[[bytes], object], number: int) -> None:
        send(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n")
        trickle(send, b"0123456789")

    slowest = 1e6
    with raw_server(script) as address, pytest.raises(FetchError) as failed:
        fetch(f"{address}/a", tmp_path / "f", budget(min_bytes_per_second=slowest))
    assert "bytes in 0.4 s, less than fetching.min_bytes_per_second = 1e+06" in str(failed.value)
    assert "(after 2 tries)" in str(failed.value) and address in str(failed.value)
    assert not (tmp_path / "f").exists()


def test_chunk_sizes_that_trickle_are_a_failed_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_watch, "WINDOW_SECONDS", 0.3)

    def script(send: Callable[[bytes], object], number: int) -> None:
        send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        trickle(send, b"0")

    with raw_server(script) as address, pytest.raises(FetchError, match="too slow: 5 bytes"):
        fetch(f"{address}/a", tmp_path / "f", budget(tries=1))


@pytest.mark.parametrize(
    "piece", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: y", b""]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_headers_that_do_not_come_are_a_failed_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: bytes, method: str
) -> None:
    monkeypatch.setattr(http_watch, "WINDOW_SECONDS", 0.3)
    ended = threading.Event()

    def script(send: Callable[[bytes], object], number: int) -> None:
        if piece.endswith(b"\n"):
            trickle(send, piece)
        send(piece)
        ended.wait(30)

    with (
        raw_server(script) as address,
        pytest.raises(FetchError, match=r"headers did not come within 0.3 s \(after 2 tries"),
    ):
        if method == "GET":
            fetch(f"{address}/a", tmp_path / "f", budget())
        else:
            file_info(f"{address}/a", budget())
    ended.set()


def test_a_transfer_above_the_least_rate_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes several times the time over which the rate is looked at."""
    monkeypatch.setattr(http_watch, "WINDOW_SECONDS", 0.5)

    def script(send: Callable[[bytes], object], number: int) -> None:
        send(b"HTTP/1.1 200 OK\r\nContent-Length: 80000\r\n\r\n")
        pause = threading.Event()
        for _ in range(80):
            send(b"x" * 1000)
            pause.wait(0.02)

    with raw_server(script) as address:
        fetch(f"{address}/a", tmp_path / "f", budget(tries=1, min_bytes_per_second=2.0))
    assert (tmp_path / "f").read_bytes() == b"x" * 80_000
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]


YEARS = "Fri, 31 Dec 9999 23:59:59 -2359"


@pytest.mark.parametrize("asked", ["3601", "9" * 300, YEARS])
def test_a_retry_after_that_is_too_long_fails_at_once(
    clock: Clock, tmp_path: Path, asked: str
) -> None:
    with serve(lambda _: Answer(b"", 503, {"Retry-After": asked})) as server:
        with pytest.raises(FetchError) as failed:
            fetch(f"{server.address}/a", tmp_path / "f", budget(clock, tries=8))
        assert len(server.requests) == 1
    assert "more than fetching.longest_retry_after_seconds = 3600" in str(failed.value)
    assert failed.value.status == 503 and clock.sleeps == []
    if asked == "3601":
        assert "asks to come back in 3601 s" in str(failed.value)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("-5", None),
        ("1.5", None),
        ("²", None),
        ("soon", None),
        ("Mon, 99 Foo 99999 99:99:99 GMT", None),
        ("Mon, 01 Jan 0001 00:00:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after_is_read_whatever_it_is(asked: str | None, seconds: float | None) -> None:
    assert seconds_of(asked) == seconds
    assert (seconds_of(YEARS) or 0.0) > 1e11


def test_a_long_pause_is_told_once(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def site(request: Request) -> Answer:
        answers = [Answer(b"", 503, {"Retry-After": "120"}), Answer(b"", 429), Answer(b"x")]
        return answers[request.number - 1]

    with serve(site) as server:
        host = server.address.removeprefix("http://")
        fetch(f"{server.address}/a", tmp_path / "f", budget(clock, tries=8))
    assert capsys.readouterr().err == f"waiting 120 s: {host} answered 503\n"
    politeness = budget(clock)

    class Job:
        def call(self, name: str, *arguments: object) -> object:
            return getattr(politeness, name)(*arguments)

    for _ in range(2):
        politeness.report(host, 429, 60.0, 0.0)
        before = clock.now
        for _ in range(3):
            clock.now = before
            wait_for_slot(SharedBudget(Job()), host)
        clock.now = before + 100
    assert capsys.readouterr().err.count(f" s: {host} answered 429\n") == 2


def test_the_settings_reach_the_workers() -> None:
    section = FetchingSection(min_bytes_per_second=5.0, longest_retry_after_seconds=9.0)
    politeness = Politeness(**section.model_dump())

    class Job:
        def call(self, name: str, *arguments: object) -> object:
            return getattr(politeness, name)(*arguments)

    shared = SharedBudget(Job())
    assert (shared.min_bytes_per_second, shared.longest_retry_after_seconds) == (5.0, 9.0)
    assert shared.tries == section.tries


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("a b.txt", "/a%20b.txt"),
        ("ü.txt?q=ü x", "/%C3%BC.txt?q=%C3%BC%20x"),
        ("100%25.txt", "/100%25.txt"),
        ("b\udcff.txt", "/b%FF.txt"),
        ("plain/~a!$&'()*+,;=:@.txt", "/plain/~a!$&'()*+,;=:@.txt"),
    ],
)
def test_addresses_are_quoted_as_they_must_be(tmp_path: Path, path: str, asked: str) -> None:
    with serve(lambda _: Answer(b"content")) as server:
        for address in (server.address, server.address.replace("http", "HTTP")):
            fetch(f"{address}/{path}", tmp_path / "f", budget())
            assert (tmp_path / "f").read_bytes() == b"content"
        assert server.paths() == [asked, asked]


def test_names_that_nothing_could_store_are_percent_encoded() -> None:
    assert storable("ä 東.txt") == "ä 東.txt"
    assert storable("b\udcff\udc80.txt") == "b%FF%80.txt"
    assert storable("\ud83d").encode("utf-8") == b"?"
