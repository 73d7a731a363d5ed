"""An extractor in a child process that the kernel stops: by seconds, by memory, by its own crash.

    parent ── length, markup ──▶ child        child ── length, kind, result ──▶ parent

The child arms its own timers before each page (setitimer), so that a page which hangs inside C code
ends as well, and so does a child whose parent was killed. Seconds are seconds of computing: a busy
machine drops no page that a quiet one keeps.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import struct
import subprocess
import sys
from types import TracebackType
from typing import IO, Any, Literal

PROGRAM = "from pipelines.extract.child import serve; import sys; serve(*sys.argv[1:])"
LENGTH = struct.Struct("<Q")
PAGES_PER_CHILD = 1_000
"""Then a fresh one takes over: libxml2 and trafilatura keep memory."""
IDLE_FACTOR = 5
"""A child that waits instead of computing is stopped after so many times its seconds."""

Loss = Literal["page_timeout", "page_memory", "extractor_crash"]


class Child:
    """One child process at a time, started at the first page. A context manager.

    Args:
        extractor: "module:function"; the function takes (markup, main_content) and returns plain
            JSON values.
        seconds: of computing, for one page.
        megabytes: of address space, for the whole child.
    """

    def __init__(self, extractor: str, seconds: float, megabytes: int) -> None:
        self._arguments = [extractor, str(seconds), str(megabytes)]
        self._process: subprocess.Popen[bytes] | None = None
        self._pages = 0

    def extract(self, markup: str, main_content: bool) -> tuple[Any, Loss | None]:
        """Extract a page: (the function's result, None), or (None, why there is none).

        A page that fails in a used child is tried once more in a fresh one, so that what becomes of
        it does not depend on the pages before it.

        Raises:
            ImportError: the extractor's package is not installed.
        """
        if self._pages >= PAGES_PER_CHILD:
            self.close()
        used = self._pages > 0
        result, loss = self._ask(markup, main_content)
        if loss is not None and loss != "page_timeout" and used:
            result, loss = self._ask(markup, main_content)
        return result, loss

    def _ask(self, markup: str, main_content: bool) -> tuple[Any, Loss | None]:
        process = self._start()
        self._pages += 1
        try:
            request = json.dumps([markup, main_content]).encode("ascii")
            _send(process.stdin, request)
            answer = _receive(process.stdout)
        except (BrokenPipeError, EOFError):
            self._process, self._pages = None, 0
            status = process.wait()
            _close_pipes(process)
            if status in (-signal.SIGPROF, -signal.SIGALRM):
                return None, "page_timeout"
            return None, "extractor_crash"
        kind, value = json.loads(answer)
        if kind == "result":
            return value, None
        self.close()
        if kind == "import":
            raise ImportError(value)
        return None, kind

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_environment(),
            )
        return self._process

    def close(self) -> None:
        """Stop the child, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            _close_pipes(self._process)
        self._process, self._pages = None, 0

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _environment() -> dict[str, str]:
    """The parent's environment; the child finds modules where the parent does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:  # what was not sent cannot be sent any more
                continue


def _send(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pipe.write(LENGTH.pack(len(message)))
    pipe.write(message)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> bytes:
    assert pipe is not None
    (length,) = LENGTH.unpack(_exactly(pipe, LENGTH.size))
    return _exactly(pipe, length)


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    content = pipe.read(count)
    if len(content) < count:
        raise EOFError
    return content


def serve(extractor: str, seconds: str, megabytes: str) -> None:
    """The child's loop: pages from standard input, results to standard output."""
    import resource  # there is none on Windows

    # Whatever an extractor prints must not end up between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    for number in (signal.SIGPROF, signal.SIGALRM):  # whatever the parent did with them
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGPROF, signal.SIGALRM))
    module, _, name = extractor.partition(":")
    function = None
    limit = int(megabytes) * 2**20
    while True:
        try:
            markup, main_content = json.loads(_receive(sys.stdin.buffer))
        except EOFError:
            return
        try:
            if function is None:
                function = getattr(importlib.import_module(module), name)
                function("<p>x</p>", main_content)  # loads what it needs, outside the page's time
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _arm(float(seconds))
            answer = ["result", function(markup, main_content)]
        except MemoryError:
            answer = ["page_memory", None]
        except ImportError as error:
            answer = ["import", str(error)]
        except Exception as error:  # the extractor's own failure: this page's loss
            print(f"extractor: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
            answer = ["extractor_crash", None]
        finally:
            _arm(0.0)
        _send(answers, json.dumps(answer).encode("ascii"))


def _arm(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, IDLE_FACTOR * seconds)
