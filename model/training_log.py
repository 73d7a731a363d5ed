"""What training tells: lines for people, the record of the checkpoints, and sinks for metrics.

In the record `log`, `evaluations` and `notes` are the same each time: they are part of the result.
`speed` and `checkpoint_notes` tell of this machine and this store, and never are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from model.checkpoint.writer import Saved
from model.held_out import evaluation_line, evaluation_values
from model.metrics import LossSums
from model.throughput import Throughput
from model.update import StepResult
from pipelines.core.progress import Progress, duration


class Sink(Protocol):
    """Where metrics go besides the record, such as files of TensorBoard; on the first worker only.

    Kinds and their values:
        train: loss, next_sentence_loss where there is one, learning_rate, gradient_norm,
            consumed_tokens, tokens_per_second/real, /padded, /masked, mfu where the device's peak
            is known, loader_idle_share, memory_peak_bytes.
        evaluation: held_out_loss/LANG, held_out_loss/all, unigram_loss/LANG.
        checkpoint: step, seconds until it counts, blocked_seconds of them in which the loop stood
            still, bytes.
    """

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Take the values of one step (updates done); it must not fail for want of a network."""
        ...

    def close(self) -> None:
        """No more will come; also called when training fails."""
        ...


def new_record() -> dict[str, Any]:
    """The record of a training that has not begun: plain JSON, part of every checkpoint."""
    return {
        "tokens_seen": 0,
        "log": [],
        "speed": [],
        "checkpoint_notes": [],
        "evaluations": [],
        "notes": [],
        "last_losses": [],
    }


class TrainingLog:
    """Writes the record, prints, and feeds the sinks.

    Args:
        record: changed in place.
        todo: the steps to do, from 0.
        leads: whether this worker prints and has sinks.
        unigram: the baseline of the held-out text; empty on workers that do not print.
    """

    def __init__(
        self,
        record: dict[str, Any],
        todo: range,
        *,
        leads: bool,
        sinks: Sequence[Sink],
        unigram: LossSums,
    ) -> None:
        self._record, self._begin, self._unigram = record, todo.start, unigram
        self._sinks = list(sinks) if leads else []
        self._progress = Progress(
            "pretrain", total=todo.stop, reused=todo.start, unit="step", quiet=not leads
        )
        self._began = time.monotonic()

    def say(self, *lines: str) -> None:
        """Print lines; no part of the record."""
        for line in lines:
            self._progress.say(line)

    def note(self, text: str) -> None:
        """Print a line and keep it in the record: the same each time."""
        self._record["notes"].append(text)
        self._progress.say(f"note: {text}")

    def step(
        self, done: int, result: StepResult, rate: float, consumed: int, speed: Throughput
    ) -> None:
        """A line of the log, of the last step.

        Args:
            done: updates done.
            consumed: tokens of the plan up to here.
        """
        values: dict[str, float] = {"loss": result.loss}
        if result.next_sentence_loss is not None:
            values["next_sentence_loss"] = result.next_sentence_loss
        values |= {"learning_rate": rate, "gradient_norm": result.gradient_norm}
        values["consumed_tokens"] = consumed
        real = speed.real_per_second
        measured = speed.take()
        self._record["log"].append({"step": done, **values})
        self._record["speed"].append({"step": done, **measured})
        self._send("train", done, values | measured)
        steps = self._progress.total
        left = (time.monotonic() - self._began) / (done - self._begin) * (steps - done)
        pairs = result.next_sentence_loss
        shown = "" if pairs is None else f" | next sentence {pairs:.2f}"
        shown += f" | MFU {measured['mfu']:.0%}" if "mfu" in measured else ""
        self.say(
            f"step {done}/{steps} | loss {result.loss:.2f}{shown} | lr {rate:.1e} | "
            f"{real:,.0f} tokens/s | {duration(left)} left"
        )

    def evaluation(self, found: Mapping[str, Any]) -> None:
        """An evaluation: one line, with the best and worst languages."""
        self._record["evaluations"].append(found)
        self._send("evaluation", found["step"], evaluation_values(found, self._unigram))
        line = evaluation_line(found, self._unigram)
        self.say(f"step {found['step']}/{self._progress.total} | {line}")

    def checkpoints(self, saved: Sequence[Saved], notes: Sequence[str] = ()) -> None:
        """Checkpoints that came to count.

        Args:
            notes: of their writer since the last call: what was lost or swept. It has said them.
        """
        self._record["checkpoint_notes"] += notes
        for one in saved:
            values = {
                "step": float(one.step),
                "seconds": one.seconds,
                "blocked_seconds": one.blocked_seconds,
                "bytes": float(one.bytes),
            }
            self._send("checkpoint", one.step, values)

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the sinks."""
        for sink in self._sinks:
            sink.close()

    def _send(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        for sink in self._sinks:
            sink.write(kind, step, values)
