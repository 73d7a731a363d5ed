"""What is told of damaged input: which counters mean it, and notes that cannot flood a report."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.core.manifest import Counters

NOTES_PER_FILE = 100
"""More notes on one file are told as a number."""
UNREADABLE = (
    "bad_row",
    "bomb",
    "damaged_member",
    "damaged_stream",
    "not_a_record",
    "record_too_large",
    "truncated_file",
    "truncated_record",
    "wrong_length",
)
"""Reasons (`dropped.REASON`) of records that could not be read at all."""


def whole_records(counters: Counters) -> int:
    """How many of the `records` of a file could be read, whether they were pages or not."""
    return counters["records"] - sum(counters[f"dropped.{reason}"] for reason in UNREADABLE)


@dataclass(slots=True)
class FileNotes:
    """The notes on one file: at most `limit`, then one that counts the rest."""

    name: str
    notes: list[str]
    limit: int = NOTES_PER_FILE
    count: int = 0

    def add(self, sentence: str) -> None:
        """Note a sentence, with the file's name before it."""
        self.count += 1
        if self.count <= self.limit:
            self.notes.append(f"{self.name}{sentence}")

    def close(self, what: str) -> None:
        """Tell how many were left out ("more bad lines")."""
        if self.count > self.limit:
            self.notes.append(f"{self.name}: {self.count - self.limit} {what}")


@dataclass(slots=True)
class DamageLog:
    """Where damage to an archive is counted and noted; each counts as one record that was met."""

    notes: FileNotes
    counters: Counters

    def damage(self, reason: str, sentence: str) -> None:
        """Count one by its reason."""
        self.counters["records"] += 1
        self.counters[f"dropped.{reason}"] += 1
        self.notes.add(f": {sentence}")
