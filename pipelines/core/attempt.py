"""What the work of a unit writes through: outputs, counts, and what the whole job shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pyarrow as pa

from pipelines.core.manifest import Counters, Output, sha256_of
from pipelines.core.store import ROWS_PER_GROUP, Store, local_file, parquet_writer, write_parquet

BYTES_PER_GROUP = 2**24
"""A row group is closed at this size, in memory, even when it has few rows."""

BUFFERED_BYTES = 2**27
"""What all tables of one unit may hold back, before the largest is written out."""


class Shared(Protocol):
    """One object for all units of a step, wherever they run: a budget of requests, say."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Call the object's method of that name."""


class Attempt:
    """One try at one unit: it counts, notes and publishes; a manifest makes it believed."""

    def __init__(
        self, store: Store, folder: str, unit_id: str, shared: Shared | None = None
    ) -> None:
        self.store = store
        self.folder = folder
        self.unit_id = unit_id
        self.outputs: list[Output] = []
        self.counters: Counters = Counter()
        self.notes: list[str] = []
        self._shared = shared

    @property
    def shared(self) -> Shared:
        """The object that the step shares among its units (`Step.shared`)."""
        if self._shared is None:
            raise LookupError("this step shares nothing among its units")
        return self._shared

    def write_table(self, name: str, table: pa.Table, **labels: str) -> None:
        """Write a table as Parquet under the step's folder; `name` has no ending."""
        with local_file(".parquet") as path:
            write_parquet(table, path)
            self._publish(path, f"{name}.parquet", table.num_rows, labels)

    def write_file(self, name: str, source: Path, **labels: str) -> None:
        """Write a finished local file under the step's folder."""
        self._publish(source, name, None, labels)

    def write_bytes(self, name: str, content: bytes, **labels: str) -> None:
        """Write a small file under the step's folder."""
        with local_file() as path:
            path.write_bytes(content)
            self.write_file(name, path, **labels)

    @contextmanager
    def tables(self, schema: pa.Schema) -> Iterator[TableSet]:
        """Tables that grow batch by batch, in bounded memory.

        They are published when the block ends, sorted by name; after an exception none is.
        """
        with TemporaryDirectory(prefix="babelmill-") as folder:
            tables = TableSet(schema, Path(folder))
            with tables.open_files:
                yield tables
                tables.flush()
            for name, part in sorted(tables.parts.items()):
                self._publish(part.path, f"{name}.parquet", part.rows, part.labels)

    def _publish(self, path: Path, name: str, rows: int | None, labels: dict[str, str]) -> None:
        key = f"{self.folder}/{name}"
        self.store.publish_file(path, key)
        self.outputs.append(
            Output(
                path=key,
                bytes=path.stat().st_size,
                sha256=sha256_of(path),
                rows=rows,
                labels=labels,
            )
        )


@dataclass
class _Part:
    path: Path
    writer: Any
    labels: dict[str, str]
    rows: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0


class TableSet:
    """See `Attempt.tables`. What it writes depends on the batches alone, in their order."""

    def __init__(self, schema: pa.Schema, folder: Path) -> None:
        self.schema, self.folder = schema, folder
        self.parts: dict[str, _Part] = {}
        self.open_files = ExitStack()
        self._buffered = 0

    def write(self, name: str, table: pa.Table, **labels: str) -> None:
        """Append rows to the table of that name (no ending); labels are those of its first rows."""
        if not table.num_rows:
            return
        part = self.parts.get(name)
        if part is None:
            path = self.folder / f"{len(self.parts)}.parquet"
            writer = self.open_files.enter_context(parquet_writer(path, self.schema))
            part = self.parts[name] = _Part(path, writer, labels)
        part.waiting.append(table)
        part.rows += table.num_rows
        part.waiting_rows += table.num_rows
        part.waiting_bytes += table.nbytes
        self._buffered += table.nbytes
        if part.waiting_rows >= ROWS_PER_GROUP or part.waiting_bytes >= BYTES_PER_GROUP:
            self._write_out(part)
        while self._buffered > BUFFERED_BYTES:
            largest = max(sorted(self.parts), key=lambda key: self.parts[key].waiting_bytes)
            self._write_out(self.parts[largest])

    def flush(self) -> None:
        """Write everything that is held back."""
        for part in self.parts.values():
            self._write_out(part)

    def _write_out(self, part: _Part) -> None:
        if not part.waiting:
            return
        rows = pa.concat_tables(part.waiting).combine_chunks()
        part.writer.write_table(rows, row_group_size=ROWS_PER_GROUP)
        self._buffered -= part.waiting_bytes
        part.waiting, part.waiting_rows, part.waiting_bytes = [], 0, 0
