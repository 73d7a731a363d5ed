"""Parquet files: a bad row costs itself, a damaged page its row group; memory has a bound."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.manifest import Counters
from pipelines.sources.base import RawPage
from pipelines.sources.fetching.fetch import FetchError
from pipelines.sources.parquet_rows import read_parquet_rows
from pipelines.sources.rows import Columns

TEXTS = [f"Zeile {n} ist da, und sie ist länger als die vorige." for n in range(40)]


class Reading:
    def __init__(self, path: Path, limit: int = 10**6) -> None:
        self.counters: Counters = Counter()
        self.notes: list[str] = []
        columns = Columns("text", "url")
        self.pages: list[RawPage] = list(
            read_parquet_rows(path, path.name, columns, self.counters, self.notes, limit)
        )

    @property
    def found(self) -> list[tuple[int, str]]:
        return [(page.offset, page.content.decode()) for page in self.pages]


def strings(values: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """A column that says it holds strings, whatever its bytes are."""
    large = pa.types.is_large_string(kind)
    return pa.array(values, pa.large_binary() if large else pa.binary()).view(kind)


def write(path: Path, column: Any, **options: Any) -> Path:
    pq.write_table(pa.table({"text": column}), path, **options)
    return path


def test_rows_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["eins", None, "drei" * 100, "vier"], "n": [1, 2, 3, 4]})
    pq.write_table(table, path, row_group_size=2)
    reading = Reading(path, limit=100)
    assert reading.found == [(0, "eins"), (3, "vier")]
    assert reading.counters == {"records": 4, "dropped.bad_row": 1, "dropped.page_too_large": 1}
    assert reading.notes == [
        "a.parquet, row 2: 'text' is NoneType and should be a string",
        "a.parquet, row 3: 'text' has 400 bytes, more than 100",
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_text_that_is_no_utf8_costs_its_row(
    tmp_path: Path, kind: pa.DataType, dictionary: bool
) -> None:
    values = [b"one", b"a\xff\xfe", None, "drei 東京".encode(), b"half \xe6\x9d"]
    path = write(tmp_path / "a.parquet", strings(values, kind), use_dictionary=dictionary)
    reading = Reading(path)
    assert reading.found == [(0, "one"), (3, "drei 東京")]
    assert reading.counters == {"records": 5, "dropped.bad_row": 3}
    assert "a.parquet, row 2: 'text' is not UTF-8 at its byte 1" in reading.notes
    assert "a.parquet, row 5: 'text' is not UTF-8 at its byte 5" in reading.notes


def test_texts_that_are_not_marked_as_such_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.array([b"one", b"\xff"], pa.binary()))
    reading = Reading(path)
    assert reading.found == [(0, "one")] and reading.counters["dropped.bad_row"] == 1


def test_other_fields_are_kept_and_checked(tmp_path: Path) -> None:
    urls = strings([b"http://x.test/1", b"\xff", None], pa.string())
    table = pa.table({"text": ["one", "two", "three"], "url": urls, "id": [5, 6, 7]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    reading = Reading(path)
    assert [(page.url, page.metadata) for page in reading.pages] == [
        ("http://x.test/1", {"row_id": "5"}),
        ("", {"row_id": "7"}),
    ]
    assert reading.notes == ["a.parquet, row 2: 'url' is not UTF-8 at its byte 0"]


@pytest.mark.parametrize(("packing", "checksums"), [("none", True), ("gzip", False)])
def test_a_damaged_page_costs_its_row_group(tmp_path: Path, packing: str, checksums: bool) -> None:
    path = write(
        tmp_path / "a.parquet",
        TEXTS,
        row_group_size=10,
        compression=packing,
        write_page_checksum=checksums,
    )
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
    # One bit: of a letter where the page is not packed, so that only its checksum tells.
    place = content.index(TEXTS[15].encode()) + 1 if packing == "none" else start + 70
    content[place] ^= 0x01
    path.write_bytes(content)
    reading = Reading(path)
    assert reading.found == [(n, TEXTS[n]) for n in range(40) if n // 10 != 1]
    assert reading.counters == {
        "records": 40,
        "dropped.bad_row": 10,
        "bytes_lost": chunk.total_compressed_size,
    }
    assert len(reading.notes) == 1 and "row group 2" in reading.notes[0]
    assert "rows 11 to 20 are lost" in reading.notes[0]


def test_a_text_in_many_rows_is_held_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ["a" * 10_000_000] * 30, compression="zstd")
    assert path.stat().st_size < 10_000
    usual = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(watched)
    try:
        reading = Reading(path, limit=1_000_000)
    finally:
        pa.set_memory_pool(usual)
    assert reading.counters == {"records": 30, "dropped.page_too_large": 30}
    assert len(reading.notes) == 11 and reading.notes[-1].endswith("20 more bad rows")
    # The rows have 300 MB. The page, and the dictionary that is made of it and grows by doubling.
    assert 10_000_000 < watched.max_memory() < 80_000_000


def test_rows_are_given_in_batches_of_few_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    plain = pq.ParquetFile.iter_batches

    def recorded(self: pq.ParquetFile, batch_size: int, **options: Any) -> Any:
        sizes.append(batch_size)
        return plain(self, batch_size, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", recorded)
    texts = [f"{n:04d}" * 500_000 for n in range(20)]  # 2 MB each, all different
    path = write(tmp_path / "a.parquet", texts, use_dictionary=False, compression="none")
    assert len(Reading(path, limit=10**7).pages) == 20
    assert sizes == [2**25 // 2_000_000]
    sizes.clear()
    assert len(Reading(write(path, TEXTS)).pages) == 40 and sizes == [256]


def test_parquet_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["x"], "n": [1]}), path)
    with pytest.raises(FetchError, match=r"a\.parquet.*no column 'text'; its columns: body, n"):
        Reading(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FetchError, match=r"a\.parquet.*not a whole Parquet file"):
        Reading(path)
