"""What training measures as TensorBoard event files, written on this machine, kept on the store.

    tensorboard --logdir FOLDER      (with a store that TensorBoard reads, or after copying)

An event file grows in a folder of this machine; a background thread copies it to the store now and
then, whole, and once more at the end. A restart writes a new file whose first event tells
TensorBoard to forget the steps that are done again. Losing metrics never ends training: an error of
the store is kept in `notes`, and the next round tries again.
"""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter  # type: ignore[import-untyped]
from tensorboardX.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboardX.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

from pipelines.core.store import Store

SECONDS_BETWEEN = 60.0
"""Between two copies to the store."""
MAX_FILE_BYTES = 2_000_000
"""A longer event file is ended and another begun, so that a copy stays small."""


class TensorBoardSink:
    """A `Sink` of the training loop that writes event files (TensorBoard's own format).

    Tags are KIND/NAME, such as train/loss and evaluation/held_out_loss/sw.

    Args:
        folder: on the store, such as runs/RUN/tensorboard.
        seconds_between: between two copies to the store.
    """

    def __init__(self, store: Store, folder: str, seconds_between: float = SECONDS_BETWEEN) -> None:
        self.notes: list[str] = []
        """What went wrong with the store; the same error is told once."""
        self._store, self._folder = store, folder
        self._seconds_between = seconds_between
        self._local = tempfile.TemporaryDirectory(prefix="babelmill-tensorboard-")
        self._session = uuid.uuid4().hex[:8]
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._files = 0
        self._writer: EventsWriter | None = None
        self._path = Path()
        self._sent: dict[str, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tensorboard", daemon=True)
        self._thread.start()

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Add one event: all values of a step.

        Args:
            kind: first part of the tags: train, evaluation, checkpoint.
        """
        summary = Summary(
            value=[
                Summary.Value(tag=f"{kind}/{name}", simple_value=float(value))
                for name, value in values.items()
            ]
        )
        with self._lock:
            if self._end.is_set():
                raise ValueError(f"{kind} of step {step}: the sink is closed")
            writer = self._open(step)
            writer.write_event(Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        """End the file and copy it a last time; may be called twice."""
        if self._end.is_set():
            return
        self._end.set()
        self._thread.join()
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
        self.publish()
        self._local.cleanup()

    def publish(self) -> None:
        """Copy every file that has grown to the store; an error is noted, never raised."""
        with self._sending:
            for path, content in self._grown():
                try:
                    self._store.publish_bytes(f"{self._folder}/{path.name}", content)
                except Exception as error:  # whatever a storage driver raises: metrics can wait
                    note = f"{self._folder}/{path.name}: {type(error).__name__}: {error}"
                    if note not in self.notes:
                        self.notes.append(note)
                else:
                    self._sent[path.name] = len(content)

    def _grown(self) -> list[tuple[Path, bytes]]:
        """Files that the store does not hold whole yet, read between two events."""
        with self._lock:
            if self._writer is not None:
                self._writer.flush()
            sizes = {path: path.stat().st_size for path in sorted(Path(self._local.name).iterdir())}
            return [
                (path, path.read_bytes())
                for path, size in sizes.items()
                if size != self._sent.get(path.name)
            ]

    def _open(self, step: int) -> EventsWriter:
        """The file to write to; a new session's first says that later steps begin anew."""
        if self._writer is not None:
            self._writer.flush()
            if self._path.stat().st_size < MAX_FILE_BYTES:
                return self._writer
            self._writer.close()
        # Files of one second are told apart, and stay in order, by their number.
        suffix = f".{self._files:04d}.{self._session}"
        self._writer = EventsWriter(str(Path(self._local.name) / "events"), suffix)
        [self._path] = Path(self._local.name).glob(f"*{suffix}")
        if self._files == 0:
            start = SessionLog(status=SessionLog.START)
            self._writer.write_event(Event(wall_time=time.time(), step=step, session_log=start))
        self._files += 1
        return self._writer

    def _run(self) -> None:
        while not self._end.wait(self._seconds_between):
            self.publish()
