"""Saving while training goes on: a copy is taken at once, a background thread writes it.

The thread takes part in no collective, so it can never meet training's own. What workers have to
agree on, they agree on in `save`, which all of them call at the same step; with a sharded optimizer
the first worker's thread then waits on the store for the small records of the others. However long
a store takes: all wait for each other's threads by `Worker.own_pace`, never in one collective.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch

from model.checkpoint.attempt import Content, wait_for_shards, write_checkpoint, write_shard
from model.checkpoint.copy import HostCopy
from model.checkpoint.files import training_json
from model.checkpoint.upkeep import delete_older
from model.distributed import Worker
from pipelines.core.hashing import digest
from pipelines.core.store import Store

LOST_IN_A_ROW = 2
"""Training goes on after a lost checkpoint, and ends when so many in a row are lost."""


class CheckpointLost(RuntimeError):
    """A checkpoint could not be written; the message says which and why."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that counts."""

    step: int
    seconds: float
    """From the call of `save` to the manifest."""
    blocked_seconds: float
    """Of these, how long training stood still: the copy, and the wait for the one before."""
    bytes: int
    """Of all files; on workers other than the first, of their own."""


@dataclass
class _Work:
    """One checkpoint on its way."""

    content: Content
    began: float
    blocked: float
    thread: threading.Thread | None = None
    error: Exception | None = None


class CheckpointWriter:
    """Writes the checkpoints of one training, at most one at a time, and keeps the folder tidy.

    Every worker of the group has one and calls `save` at the same steps. Used as a context manager,
    it waits for the last checkpoint at its end; when training ends in an error too, which then is
    the one that is raised.

    **A lost checkpoint** (the store did not take it, with all the patience of Store) does not end
    training: it is said and noted, and the next `save` tries anew. The second in a row ends
    training, and so does one that is waited for (`wait`, `close`): the last one, or one before a
    stop. `CheckpointLost` is raised then.

    **Memory.** A copy of the tensors on the host, made at the first save and used again by all
    others; page-locked where the tensors are on a GPU. Give the live tensors, not copies. On the
    disk: the largest file, for a store that is no folder of this machine.
    """

    def __init__(
        self,
        store: Store,
        folder: str,
        worker: Worker,
        keep: int,
        *,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """Nothing is written and nobody waits for anybody yet.

        Args:
            folder: of the checkpoints, on the store.
            keep: so many of the last ones stay, and the best; see `delete_older`.
            say: prints a sentence at once, from any thread; not given: `print`.
        """
        self.store, self.folder, self.worker, self.keep = store, folder, worker, keep
        self.notes: list[str] = []
        """What a person should know: lost checkpoints, deleted leftovers. The thread adds them."""
        self._told = 0
        self.counters: Counter[str] = Counter()
        """checkpoints/saved, checkpoints/lost, bytes/saved, bytes/leftovers."""
        self._say = say if say is not None else partial(print, flush=True)
        self._model, self._optimizer = HostCopy(), HostCopy()
        self._finished: deque[Saved] = deque()
        self._work: _Work | None = None
        self._id, self._saves = uuid.uuid4().hex[:12], 0
        self._sharded, self._lost = False, 0
        self._hurry = threading.Event()

    def save(
        self,
        step: int,
        model_tensors: Mapping[str, torch.Tensor],
        optimizer_tensors: Mapping[str, torch.Tensor],
        training: Mapping[str, Any],
        held_out_loss: float | None = None,
    ) -> None:
        """Take a copy and return; a thread writes it. Waits first for the checkpoint before it.

        Called by all workers at the same step. When the workers' optimizer tensors have different
        names, each writes its own shard; otherwise the first worker writes everything, and what the
        others give is not looked at.

        Args:
            step: updates done.
            model_tensors, optimizer_tensors: the live tensors, on any device; they may change as
                soon as this returns.
            training: plain JSON. The first worker's is written.
            held_out_loss: where it was measured at this step.

        Raises:
            CheckpointLost: the one before could not be written, as the second in a row.
        """
        began = time.monotonic()
        self._meet()
        self._settle(raise_at=LOST_IN_A_ROW)
        self._agree(optimizer_tensors)
        self._saves += 1
        if not (self.worker.leads or self._sharded):
            return
        content = Content(
            step=step,
            attempt=f"{self._id}-{self._saves:04d}",
            model=self._model.take(model_tensors if self.worker.leads else {}),
            optimizer=self._optimizer.take(optimizer_tensors),
            training=training_json(training) if self.worker.leads else b"",
            held_out_loss=held_out_loss,
        )
        self._work = work = _Work(content, began, time.monotonic() - began)
        name = f"checkpoint of step {step}"
        work.thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        work.thread.start()

    def wait(self) -> None:
        """Return when every worker's part of the last checkpoint is on the store, or is lost.

        Called by all workers. Only the first worker's return means that the checkpoint counts.

        Raises:
            CheckpointLost: this worker's part could not be written.
        """
        self._meet()
        self._settle(raise_at=1)

    def close(self) -> None:
        """Like `wait`; the copy's memory is given back."""
        try:
            self.wait()
        except Exception:  # a worker was lost, and this one's thread may still be writing
            self._hurry.set()
            self._settle(raise_at=None)
            raise
        finally:
            self._model.free()
            self._optimizer.free()

    def finished(self) -> list[Saved]:
        """Checkpoints that came to count since the last call, in order; never waits."""
        return [self._finished.popleft() for _ in range(len(self._finished))]

    def new_notes(self) -> list[str]:
        """Notes that came since the last call, in order; never waits."""
        told, self._told = self._told, len(self.notes)
        return self.notes[told : self._told]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        self._hurry.set()
        if not isinstance(error, KeyboardInterrupt):  # a person who is in a hurry
            self._settle(raise_at=None)

    def _agree(self, optimizer_tensors: Mapping[str, torch.Tensor]) -> None:
        """Agree on the name of the attempts and on whether the optimizer is sharded.

        Each time, because an optimizer that was never used has no tensors yet.
        """
        names = digest(sorted(optimizer_tensors)) if optimizer_tensors else ""
        answers = self.worker.gather((self._id, names))
        (self._id, first), *others = answers
        self._sharded = any(other and other != first for _, other in others)

    def _meet(self) -> None:
        """Wait until no worker's thread is writing any more.

        The first worker's own may be waiting for the shards of the others: those first.
        """
        thread = None if self._work is None else self._work.thread
        if self._sharded:
            with self.worker.own_pace("writing the shards of a checkpoint"):
                if thread is not None and not self.worker.leads:
                    thread.join()
            self._hurry.set()
        with self.worker.own_pace("writing a checkpoint"):
            if thread is not None:
                thread.join()
        self._hurry.clear()

    def _settle(self, raise_at: int | None) -> None:
        """Wait for this worker's thread, and judge what it did."""
        work, self._work = self._work, None
        if work is None or work.thread is None:
            return
        work.thread.join()
        if work.error is None:
            self._lost = 0
            return
        self._lost += 1
        if raise_at is not None and self._lost >= raise_at:
            row = f" ({self._lost} in a row)" if self._lost > 1 else ""
            raise CheckpointLost(f"{self._lost_words(work)}{row}") from work.error

    def _run(self, work: _Work) -> None:
        """The thread: write one checkpoint; what goes wrong is kept for `_settle`."""
        try:
            size = self._written(work.content)
        except Exception as error:  # any driver's own error
            work.error = error
            self.counters["checkpoints/lost"] += 1
            self._note(self._lost_words(work))
            return
        self.counters["checkpoints/saved"] += 1
        self.counters["bytes/saved"] += size
        seconds = time.monotonic() - work.began
        self._finished.append(Saved(work.content.step, seconds, work.blocked, size))
        if self.worker.leads:
            self._tidy(work.content.step)

    def _written(self, content: Content) -> int:
        """Write this worker's part; returns its bytes."""
        if not self.worker.leads:
            files = write_shard(self.store, self.folder, content, self.worker)
            return sum(file.bytes for file in files)
        manifest = write_checkpoint(
            self.store,
            self.folder,
            content,
            self.worker,
            sharded=self._sharded,
            others=lambda key: wait_for_shards(
                self.store, key, self.worker.world_size, self._hurry
            ),
        )
        return manifest.bytes

    def _tidy(self, step: int) -> None:
        """Delete what need not stay; what goes wrong is noted, and tried again by the next save."""
        try:
            tidied = delete_older(self.store, self.folder, keep=self.keep, newest=step)
        except Exception as error:  # any driver's own error
            self._note(f"older checkpoints not deleted: {type(error).__name__}: {error}")
            return
        if tidied.sentence:
            self.counters["bytes/leftovers"] += sum(tidied.leftovers.values())
            self._note(f"{self.folder}: {tidied.sentence}")

    def _note(self, sentence: str) -> None:
        self._say(sentence)
        self.notes.append(sentence)

    def _lost_words(self, work: _Work) -> str:
        error = work.error
        return (
            f"checkpoint of step {work.content.step} lost: {type(error).__name__}: {error} "
            f"({self.store.url})"
        )
