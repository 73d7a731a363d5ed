"""Progress of a stage as plain lines: they read the same in a terminal, a log and Prefect."""

from __future__ import annotations

import time

MOST_NOTES = 10
"""Notes of one stage on the terminal."""


class Progress:
    """Counts units and prints at most one line a second, and always the last one."""

    def __init__(
        self,
        stage: str,
        *,
        total: int,
        reused: int = 0,
        unit: str = "shard",
        quiet: bool = False,
        seconds_between: float = 1.0,
    ) -> None:
        self.stage, self.total, self.reused = stage, total, reused
        self.unit = unit if total == 1 else f"{unit}s"
        self.done = reused
        self.quiet = quiet
        self.seconds_between = seconds_between
        self._began = time.monotonic()
        self._printed = 0.0
        self._notes = 0
        if reused == total and total:
            self.say(f"{total}/{total} {self.unit} already finished, nothing to do")
        elif reused:
            self.say(f"{reused} of {total} {self.unit} already finished, {total - reused} to do")
        else:
            self.say(f"{total} {self.unit} to do")

    def say(self, text: str) -> None:
        """Print one line of this stage."""
        if not self.quiet:
            print(f"[{self.stage}] {text}", flush=True)  # noqa: T201 - this is the terminal

    def advance(self, count: int = 1, extra: str = "") -> None:
        """Count finished units; `extra` is put behind the line."""
        self.done += count
        now = time.monotonic()
        if now - self._printed < self.seconds_between and self.done < self.total:
            return
        self._printed = now
        rate = (self.done - self.reused) / max(now - self._began, 1e-9)
        left = (self.total - self.done) / rate if rate else 0.0
        tail = f" | {extra}" if extra else ""
        self.say(
            f"{self.done}/{self.total} {self.unit} | {rate:.1f}/s | {duration(left)} left{tail}"
        )

    def failed(self, text: str) -> None:
        """Print a failure at once."""
        self.say(f"FAILED {text}")

    def note(self, text: str) -> None:
        """Print what a person should know of a unit, the first few of them."""
        self._notes += 1
        if self._notes <= MOST_NOTES:
            self.say(f"note: {text}")
        elif self._notes == MOST_NOTES + 1:
            self.say("note: there are more; they are in the report")

    def close(self) -> None:
        """Print the time the stage took, unless there was nothing to do."""
        if self.done > self.reused:
            self.say(f"done in {duration(time.monotonic() - self._began)}")


def duration(seconds: float) -> str:
    """`75.0` -> `1 min 15 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
