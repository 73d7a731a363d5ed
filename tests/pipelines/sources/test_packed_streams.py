"""bz2 and xz files of many streams: what cannot be read is counted and noted."""

from __future__ import annotations

import bz2
import json
import lzma
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.core.manifest import Counters
from pipelines.sources.archives.packed_streams import DamagedFile
from pipelines.sources.file_formats import open_bytes
from pipelines.sources.rows import Columns, read_jsonl_rows, read_whole

Pack = Callable[[bytes], bytes]
PACKERS: list[Pack] = [bz2.compress, lzma.compress]
ROWS = "".join(json.dumps({"text": f"Zeile {n} ist da."}) + "\n" for n in range(50)).encode()


def rows_of(path: Path) -> tuple[int, Counters, list[str]]:
    counters: Counters = Counter()
    notes: list[str] = []
    pages = list(read_jsonl_rows(path, path.name, Columns("text"), counters, notes, 10**6))
    return len(pages), counters, notes


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("padding", [1, 8, 100_000])
def test_nul_bytes_are_padding(tmp_path: Path, pack: Pack, padding: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(pack(ROWS) + b"\0" * padding + pack(ROWS) + b"\0" * padding)
    assert rows_of(path) == (100, {"records": 100}, [])


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("case", ["head", "junk", "junk after padding", "cut", "middle"])
def test_what_follows_a_stream_and_is_none_is_counted_and_noted(
    tmp_path: Path, pack: Pack, case: str
) -> None:
    one = pack(ROWS)
    broken = bytearray(one)
    broken[len(one) // 2] ^= 0xFF
    following = {
        "head": b"\1" + one[1:],
        "junk": b"hello junk",
        "junk after padding": b"\0" * 16 + b"hello junk",
        "cut": one[:-20],
        "middle": bytes(broken),
    }[case]
    path = tmp_path / "rows"
    path.write_bytes(one + following)
    count, counters, notes = rows_of(path)
    assert 50 <= count <= 100  # xz: what is cut may be no more than the stream's index
    assert counters["records"] == count + 1 and counters["dropped.truncated_file"] == 1
    lost = len(following.lstrip(b"\0"))
    assert counters["bytes_lost"] == lost
    assert len(notes) == 1 and f"{lost} compressed bytes lost" in notes[0]
    assert f"at byte {len(one) + len(following) - lost}" in notes[0]


@pytest.mark.parametrize("pack", PACKERS)
def test_a_text_that_is_not_whole_is_no_document(tmp_path: Path, pack: Pack) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(pack(b"The first half. ") + b"\0\1" + pack(b"The second half.")[1:])
    counters: Counters = Counter()
    notes: list[str] = []
    assert not list(read_whole(path, "a.txt", "", "paragraphs", counters, notes, 10**6))
    assert counters["records"] == counters["dropped.truncated_file"] == 1
    assert counters["bytes_lost"] == path.stat().st_size - len(pack(b"The first half. ")) - 1
    assert len(notes) == 1


@pytest.mark.parametrize("pack", PACKERS)
def test_any_reads_give_the_same_bytes(tmp_path: Path, pack: Pack) -> None:
    chance = random.Random(3)
    parts = [chance.randbytes(n) + b"a" * (9 * n) for n in (0, 1, 70_000, 3)]
    path = tmp_path / "a"
    path.write_bytes(b"".join(map(pack, parts)))
    for size in (1009, 2**17, 10**7):
        with open_bytes(path) as file:
            found = []
            while part := file.read(size):
                found.append(part)
        assert b"".join(found) == b"".join(parts)


@pytest.mark.parametrize("pack", PACKERS)
def test_a_bomb_is_unpacked_step_by_step(tmp_path: Path, pack: Pack) -> None:
    path = tmp_path / "a"
    path.write_bytes(pack(b"\0" * 50_000_000))
    tracemalloc.start()
    with open_bytes(path) as file:
        size = 0
        while part := file.read(2**16):
            size += len(part)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 50_000_000 and peak < 12_000_000  # xz keeps 8 MiB to look back into


def test_damage_is_an_error_that_says_where(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bz2.compress(b"x") + b"junk")
    with (
        open_bytes(path) as file,
        pytest.raises(DamagedFile, match=r"bz2 stream at byte \d+ is .*; 4 compr") as damaged,
    ):
        file.read()
    assert damaged.value.bytes_lost == 4
