"""Against a real server on this machine that refuses, cuts and redirects."""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipelines.sources.fetch import FetchError, Retries, fetch, file_info

GOOD = gzip.compress(b"a good archive " * 100)
QUICK = Retries(tries=4, first_pause_seconds=0.01, longest_pause_seconds=0.05)
requests: Counter[str] = Counter()


class Server(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        requests[self.path] += 1
        path, turn = self.path, requests[self.path]
        status, content, headers = 200, GOOD, {"ETag": '"v1"'}
        if path == "/busy.gz" and turn < 3:
            status, content, headers = 503, b"<Error>SlowDown</Error>", {}
        elif path == "/wait.gz" and turn < 2:
            status, content, headers = 429, b"", {"Retry-After": "1"}
        elif path == "/refused.gz":
            status, content = 403, b"<Error>AccessDenied</Error>"
        elif path == "/moved.gz":
            status, content, headers = 302, b"", {"Location": "/good.gz"}
        elif path in ("/page.gz", "/page.bz2"):
            content = b"<html>come back later</html>"
        elif path == "/absent.gz":
            status, content = 404, b"no"
        length = len(content) + (10 if path == "/short.gz" else 0)
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    requests.clear()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    httpd.server_close()


@pytest.mark.parametrize(("path", "tries"), [("/busy.gz", 3), ("/good.gz", 1), ("/moved.gz", 1)])
def test_the_stored_bytes_are_the_good_file(
    server: str, tmp_path: Path, path: str, tries: int
) -> None:
    fetch(server + path, tmp_path / "f", QUICK)
    assert (tmp_path / "f").read_bytes() == GOOD
    assert requests[path] == tries


def test_retry_after_is_obeyed(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    fetch(server + "/wait.gz", tmp_path / "f", QUICK)
    assert pauses == [1.0]


@pytest.mark.parametrize(
    ("path", "tries", "reason"),
    [
        ("/refused.gz", 2, "403"),
        ("/absent.gz", 1, "404"),
        ("/short.gz", 4, "short body|broke off"),
        ("/page.gz", 4, "200.*markup"),
        ("/page.bz2", 4, "200.*markup"),
    ],
)
def test_a_failure_names_url_and_answer_and_leaves_no_file(
    server: str, tmp_path: Path, path: str, tries: int, reason: str
) -> None:
    with pytest.raises(FetchError, match=reason) as failed:
        fetch(server + path, tmp_path / "f", QUICK)
    assert server + path in str(failed.value)
    assert requests[path] == tries
    assert list(tmp_path.iterdir()) == []


def test_pauses_grow_and_depend_on_the_url_alone() -> None:
    retries = Retries()
    pauses = [retries.pause("u", attempt, None) for attempt in range(1, 6)]
    assert pauses == sorted(pauses) and pauses[-1] > 8 * pauses[0] / 1.5
    assert pauses == [retries.pause("u", attempt, None) for attempt in range(1, 6)]
    assert retries.pause("u", 1, None) != retries.pause("v", 1, None)
    assert retries.pause("u", 20, None) == 60.0 and retries.pause("u", 1, 90.0) == 90.0


def test_local_and_remote_files_tell_their_size(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(GOOD)
    assert file_info(str(tmp_path / "a.gz")).size == len(GOOD)
    info = file_info(server + "/good.gz")
    assert (info.size, info.etag) == (len(GOOD), "v1")
    fetch(f"file://{tmp_path}/a.gz", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == GOOD
    with pytest.raises(FetchError, match="no such file"):
        fetch(f"{tmp_path}/none.gz", tmp_path / "c", QUICK)


def test_no_server_is_an_error_that_names_the_address(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"http://127\.0\.0\.1:9/a\.gz"):
        fetch("http://127.0.0.1:9/a.gz", tmp_path / "f", Retries(2, 0.01))
