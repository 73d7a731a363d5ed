"""Sort more records than memory should hold: sorted runs on the local disk, merged by ranges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pipelines.core.attempt import Attempt
from pipelines.deduplicate.sorted_records import (
    RECORD,
    Records,
    empty,
    save_records,
    sort_records,
)

RECORDS_IN_MEMORY = 4_000_000
"""So many are sorted at once; about 80 bytes each."""

_SAMPLE = 256
"""One key in so many is looked at to cut the runs into even ranges."""


class RecordSorter:
    """Takes records in any order and writes them sorted; equal ones stay in their order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[Path] = []
        self.count = 0
        self._waiting: list[Records] = []
        self._held = 0

    def add(self, records: Records) -> None:
        """Take more records."""
        self._waiting.append(records)
        self._held += len(records)
        self.count += len(records)
        if self._held >= RECORDS_IN_MEMORY:
            path = self.folder / f"{len(self.runs)}.run"
            self._sorted().tofile(path)
            self.runs.append(path)

    def save(self, path: Path) -> None:
        """Write all of them to a file of sorted records."""
        save_records(path, self._merged() if self.runs else iter([self._sorted()]), self.count)

    def _sorted(self) -> Records:
        records = np.concatenate(self._waiting) if self._waiting else empty()
        self._waiting.clear()
        self._held = 0
        return sort_records(records)

    def _merged(self) -> Iterator[Records]:
        last = self._sorted()
        runs: list[Records] = [np.memmap(path, RECORD, "r") for path in self.runs]
        runs += [last] if len(last) else []
        samples = np.sort(np.concatenate([run["key"][::_SAMPLE] for run in runs]))
        ranges = -(-self.count // RECORDS_IN_MEMORY) + 1
        cuts = np.unique(samples[np.arange(1, ranges) * len(samples) // ranges])
        edges = [[0, *np.searchsorted(run["key"], cuts, "left").tolist(), len(run)] for run in runs]
        for number in range(len(cuts) + 1):
            parts = [
                run[edge[number] : edge[number + 1]] for run, edge in zip(runs, edges, strict=True)
            ]
            yield sort_records(np.concatenate(parts))


@contextmanager
def sorted_output(attempt: Attempt, name: str, **labels: str) -> Iterator[RecordSorter]:
    """A file of sorted records, `name`.records, published when the block ends without an error."""
    with TemporaryDirectory(prefix="babelmill-") as folder:
        sorter = RecordSorter(Path(folder))
        yield sorter
        path = Path(folder) / "file.records"
        sorter.save(path)
        attempt.write_file(f"{name}.records", path, **labels, rows=str(sorter.count))
