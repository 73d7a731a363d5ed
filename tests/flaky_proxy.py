"""An HTTP proxy on loopback that fails one request in ten, before a real object store."""

from __future__ import annotations

import http.client
import itertools
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from pipelines.core.store import Store
from tests.object_store import found_by_environment, s3_server

FAILURES = ("slow_down", "internal_error", "no_answer", "cut_answer")
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "expect"}
ERROR = (
    '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
    "<Message>please try again</Message></Error>"
)


class Plan:
    """Which request fails and how, and where the others go."""

    def __init__(self, server: str, fail_each: int) -> None:
        self.target, self.fail_each = urlsplit(server), fail_each
        self.numbers, self.kinds = itertools.count(1), itertools.cycle(FAILURES)
        self.lock, self.done = threading.Lock(), Counter[str]()

    def next_failure(self) -> str | None:
        with self.lock:
            failure = next(self.kinds) if next(self.numbers) % self.fail_each == 0 else None
            self.done[failure or "passed"] += 1
            return failure

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(self.target.hostname), self.target.port, timeout=60)


class Handler(BaseHTTPRequestHandler):
    """One connection of a client. `flaky_proxy` makes a subclass that knows the plan."""

    plan: Plan
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        body = self._body()
        failure = self.plan.next_failure()
        if failure in ("slow_down", "internal_error"):
            slow = failure == "slow_down"
            content = ERROR.format(code="SlowDown" if slow else "InternalError").encode()
            self._answer(503 if slow else 500, [("Content-Type", "application/xml")], content)
            return
        if failure == "no_answer":
            self._hang_up()
            return
        upstream = self.plan.connect()
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP | {"content-length"}:
                    upstream.putheader(name, value)
            if body or self.command in ("PUT", "POST"):
                upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body or None)
            answer = upstream.getresponse()
            content = answer.read()
            self._answer(answer.status, answer.getheaders(), content, cut=failure is not None)
        finally:
            upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(
        self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool = False
    ) -> None:
        self.send_response_only(status)
        length = str(len(content))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            elif name.lower() not in HOP_BY_HOP | {"content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no news."""


@contextmanager
def flaky_proxy(server: str, fail_each: int = 10) -> Iterator[tuple[str, Counter[str]]]:
    """Serve a proxy of `server`; every `fail_each`-th request fails, by each kind in turn.

    Yields:
        Its address, and counts of what it did (`passed` and each of FAILURES).
    """
    plan = Plan(server, fail_each)
    handler = type("PlannedHandler", (Handler,), {"plan": plan})
    with Server(("127.0.0.1", 0), handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_address[1]}", plan.done
        finally:
            proxy.shutdown()
            thread.join()


@contextmanager
def flaky_store(folder: Path) -> Iterator[tuple[Store, Counter[str]]]:
    """A store on a real S3-compatible server behind the proxy, found through the environment.

    Args:
        folder: of the server's files; not there yet.

    Yields:
        The store, and the counts of `flaky_proxy`.
    """
    with (
        s3_server(folder) as environment,
        flaky_proxy(environment["AWS_ENDPOINT_URL"]) as (address, done),
        found_by_environment({**environment, "AWS_ENDPOINT_URL": address}),
    ):
        yield Store("s3://corpora/flaky"), done
