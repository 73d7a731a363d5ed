"""A watchdog over one HTTP exchange: a server that hardly sends cannot hold a worker for ever.

A socket's timeout begins anew with every byte. So a second thread looks at what came: headers that
are not there after WINDOW_SECONDS, or a body that brings less than the least rate over such a
time, end the exchange by shutting its socket down.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.request
from typing import Any

WINDOW_SECONDS = 60.0


class Watchdog:
    """Watches over one exchange until it is closed.

    Args:
        min_bytes_per_second: least rate of the body.
        window_seconds: over which the rate is taken, and within which headers must come.

    Attributes:
        tripped: why it ended the exchange; "" if it did not.
    """

    def __init__(self, min_bytes_per_second: float, window_seconds: float = WINDOW_SECONDS) -> None:
        self._rate, self._window = min_bytes_per_second, window_seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self._in_body, self._closed = False, False
        self.received = 0
        """Bytes of the body that came in this window."""
        self.tripped = ""

    def watch(self, connected: socket.socket) -> None:
        """Begin: a connection is made, and headers are to come."""
        with self._lock:
            self._socket = connected
            self._again()

    def headers_came(self) -> None:
        """From now on the rate counts."""
        with self._lock:
            self._in_body = True
            self.received = 0
            self._again()

    def close(self) -> None:
        """End watching."""
        with self._lock:
            self._closed = True
            self._socket = None
            if self._timer is not None:
                self._timer.cancel()

    def _again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = threading.Timer(self._window, self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self) -> None:
        with self._lock:
            if self._closed or self._socket is None or threading.current_thread() != self._timer:
                return
            if self._in_body and self.received >= self._rate * self._window:
                self.received = 0
                self._again()
                return
            if self._in_body:
                self.tripped = (
                    f"too slow: {self.received} bytes in {self._window:g} s, less than "
                    f"fetching.min_bytes_per_second = {self._rate:g}"
                )
            else:
                self.tripped = f"no answer: its headers did not come within {self._window:g} s"
            with contextlib.suppress(OSError):  # closed already
                # The plain method: that of an encrypted socket would change what the reader uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class WatchedRequest(urllib.request.Request):
    """A request with its watchdog."""

    def __init__(self, url: str, method: str, headers: dict[str, str], watchdog: Watchdog) -> None:
        super().__init__(url, method=method, headers=headers)
        self.watchdog = watchdog


class _Http(http.client.HTTPConnection):
    watchdog: Watchdog

    def connect(self) -> None:
        super().connect()
        self.watchdog.watch(self.sock)


class _Https(http.client.HTTPSConnection):
    watchdog: Watchdog

    def connect(self) -> None:
        super().connect()
        self.watchdog.watch(self.sock)


class WatchedHttp(urllib.request.HTTPHandler):
    """Opens http addresses of a WatchedRequest."""

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Make the connection known to the request's watchdog."""
        return self.do_open(_connector(_Http, req), req)


class WatchedHttps(urllib.request.HTTPSHandler):
    """Opens https addresses of a WatchedRequest."""

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Make the connection known to the request's watchdog."""
        return self.do_open(_connector(_Https, req), req)


def _connector(kind: type[_Http] | type[_Https], request: urllib.request.Request) -> Any:
    def connect(host: str, **options: Any) -> http.client.HTTPConnection:
        connection = kind(host, **options)
        assert isinstance(request, WatchedRequest)
        connection.watchdog = request.watchdog
        return connection

    return connect


class Answer:
    """An answer whose headers are there, under its watchdog; closing it ends both."""

    def __init__(self, response: http.client.HTTPResponse, watchdog: Watchdog) -> None:
        self._response, self._watchdog = response, watchdog
        self.status, self.headers = response.status, response.headers
        self.url: str = response.url

    def read(self, size: int) -> bytes:
        """What is there of the body, up to `size` bytes; none at its end.

        Raises:
            TimeoutError: the watchdog ended the exchange.
            OSError, http.client.HTTPException: it broke off.
        """
        try:
            part = self._response.read1(size)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if self._watchdog.tripped:
                raise TimeoutError(self._watchdog.tripped) from error
            raise
        if self._watchdog.tripped:
            raise TimeoutError(self._watchdog.tripped)
        self._watchdog.received += len(part)
        return part

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *error: object) -> None:
        self._watchdog.close()
        self._response.close()
