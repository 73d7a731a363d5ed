"""A real web server on loopback that does what a test tells it, and a clock that tests move."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """What the server sends; `sent` bytes of the body, then the connection ends."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    sent: int | None = None


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    number: int
    """How many requests of this path there were, this one included."""


Site = Callable[[Request], Answer]


@dataclass
class Server:
    address: str
    requests: list[Request] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


@contextmanager
def serve(site: Site) -> Iterator[Server]:
    server = Server("")
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            with lock:
                number = server.paths().count(self.path) + 1
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, number)
                server.requests.append(request)
            answer = site(request)
            self.send_response(answer.status)
            headers = {"Content-Length": str(len(answer.body)), **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body[: answer.sent])
            self.close_connection = True

        do_GET = do_HEAD = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    server.address = f"http://127.0.0.1:{httpd.server_address[1]}"
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()


def with_ranges(content: bytes, etag: str = '"v1"') -> Site:
    """A site of one file that answers ranges, by RFC 9110, sections 13.1.5 and 14."""

    def site(request: Request) -> Answer:
        headers = {"ETag": etag, "Accept-Ranges": "bytes"}
        asked = request.headers.get("range")
        if asked is None or request.headers.get("if-range", etag) != etag:
            return Answer(content, headers=headers)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), int(last) + 1 if last else len(content)
        if start >= len(content):
            return Answer(status=416)
        end = min(end, len(content))
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        return Answer(content[start:end], 206, headers)

    return site


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []
        self.lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.sleeps.append(seconds)
            self.now += seconds
