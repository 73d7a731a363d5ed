"""Bytes of a dump: every stream, damage that costs one stream, other packings, limits."""

from __future__ import annotations

import bz2
import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from pipelines.core.manifest import Counters
from pipelines.sources.dump_pages import Block, read_blocks
from pipelines.sources.multistream import FEED_BYTES, DumpFile, Piece
from tests.pipelines.sources.dump_files import FOOT, HEAD, multistream, page

RANDOM = random.Random(7)
WORDS = ["".join(RANDOM.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(4000)]
PAGES = [
    page(f"Seite {n}", " ".join(RANDOM.choices(WORDS, k=400)), number=n + 1) for n in range(300)
]
DUMP, _, OFFSETS = multistream(PAGES, per_stream=50)
XML = (HEAD + "".join(PAGES) + FOOT).encode()


def read(path: Path, content: bytes, **limits: int) -> tuple[list[Piece], Counters, list[str]]:
    path.write_bytes(content)
    counters: Counters = Counter()
    notes: list[str] = []
    return list(DumpFile(path, "a/dump", counters, notes, **limits).pieces()), counters, notes


def text(pieces: list[Piece]) -> bytes:
    return b"".join(piece.content for piece in pieces)


def test_all_streams_are_read_and_each_piece_knows_its_stream(tmp_path: Path) -> None:
    pieces, counters, notes = read(tmp_path / "d", DUMP)
    assert text(pieces) == XML and not counters and not notes
    found = sorted({piece.stream for piece in pieces})
    assert found[:-1] == [0, *OFFSETS] and bz2.decompress(DUMP[found[-1] :]) == FOOT.encode()


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(XML),
        gzip.compress(XML[:90_000]) + gzip.compress(XML[90_000:]),
        XML,
        b"\xef\xbb\xbf" + XML,
        bz2.compress(XML),
        XML.decode().encode("utf-16"),
        bz2.compress(XML.decode().encode("utf-16")),
        gzip.compress(b"\xfe\xff" + XML.decode().encode("utf-16-be")),
        bz2.compress(XML.decode().encode("utf-32")),
    ],
    ids=["gzip", "members", "plain", "bom", "bz2", "utf-16", "bz2 utf-16", "gzip utf-16", "utf-32"],
)
def test_other_packings_and_encodings_give_the_same_text(tmp_path: Path, content: bytes) -> None:
    pieces, counters, notes = read(tmp_path / "d", content)
    assert text(pieces).removeprefix(b"\xef\xbb\xbf") == XML
    assert {piece.stream for piece in pieces} == {0} and not counters and not notes


def test_a_declared_encoding_is_read(tmp_path: Path) -> None:
    content = '<?xml version="1.0" encoding="windows-1251"?><a>мир</a>'.encode("cp1251")
    assert "мир" in text(read(tmp_path / "d", content)[0]).decode()


@pytest.mark.parametrize("number", [0, 1, 3, 5])
def test_a_damaged_stream_costs_that_stream_only(tmp_path: Path, number: int) -> None:
    bounds = [*OFFSETS, DUMP.rindex(b"BZh")]
    start, end = bounds[number], bounds[number + 1]
    middle = (start + end) // 2
    damaged = (
        DUMP[:middle] + bytes(b ^ 0x5A for b in DUMP[middle : middle + 20]) + DUMP[middle + 20 :]
    )
    pieces, counters, notes = read(tmp_path / "d", damaged)
    found = text(pieces).decode()
    kept = [n for n in range(300) if f"<title>Seite {n}</title>" in found]
    assert kept == [n for n in range(300) if n // 50 != number]
    assert counters == {"lost.damaged_stream": 1, "bytes_lost": end - start}
    assert len(notes) == 1 and "a/dump" in notes[0] and f"byte {start} " in notes[0]
    after = [piece for piece in pieces if piece.after_loss]
    assert [piece.stream for piece in after] == [end]


def test_junk_between_and_behind_the_streams_is_counted(tmp_path: Path) -> None:
    place = OFFSETS[2]
    content = DUMP[:place] + b"junk!" * 7 + DUMP[place:] + b"\0\0\0"
    pieces, counters, notes = read(tmp_path / "d", content)
    assert text(pieces) == XML
    assert counters == {"bytes_lost": 38} and len(notes) == 2


def test_whole_blocks_of_a_cut_stream_are_kept(tmp_path: Path) -> None:
    # Three blocks of 900 kB in one stream; the third is cut.
    letters = "".join(RANDOM.choices("abcdefgh", k=2_500_000)).encode()
    packed = bz2.compress(letters)
    pieces, counters, notes = read(tmp_path / "d", packed[: len(packed) * 9 // 10])
    found = text(pieces)
    assert letters.startswith(found) and len(found) > 1_700_000
    assert counters["lost.truncated_stream"] == 1 and "cut off" in notes[0]
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF  # within the second block: its check sum is wrong
    pieces, counters, _ = read(tmp_path / "d", bytes(damaged))
    found = text(pieces)
    assert letters.startswith(found) and counters["lost.damaged_stream"] == 1
    assert len(found) in (0, *range(890_000, 910_000))


def test_what_is_saved_of_a_damaged_stream_does_not_depend_on_the_range(tmp_path: Path) -> None:
    letters = "".join(RANDOM.choices("abcdefgh", k=3_000_000)).encode()
    packed = bytearray(bz2.compress(letters))
    assert len(packed) > 3 * FEED_BYTES
    packed[-1000] ^= 0xFF
    whole, _, _ = read(tmp_path / "d", DUMP + bytes(packed))
    part, _, _ = read(tmp_path / "d", bytes(packed), first=len(DUMP))
    assert text(part)
    assert [piece for piece in whole if piece.stream >= len(DUMP)] == part


@pytest.mark.parametrize("pack", [bz2.compress, gzip.compress])
def test_a_bomb_is_given_up_and_the_next_stream_read(tmp_path: Path, pack: object) -> None:
    bomb = pack(b"\0" * 60_000_000)  # type: ignore[operator]
    content = bomb + (DUMP if pack is bz2.compress else b"")
    pieces, counters, notes = read(tmp_path / "d", content, max_member_bytes=1_000_000)
    assert counters["lost.member_too_large"] == 1 and "too large" in notes[0]
    assert max((len(piece.content) for piece in pieces), default=0) < 20_000_000
    assert text(pieces).lstrip(b"\0") == (XML if pack is bz2.compress else b"")


def test_a_long_stream_of_text_is_no_bomb(tmp_path: Path) -> None:
    pieces, counters, _ = read(tmp_path / "d", bz2.compress(XML), max_member_bytes=1000)
    assert text(pieces) == XML and not counters


def blocks(content: bytes, size: int, limit: int = 10**6) -> list[Block]:
    pieces = [Piece(i, content[i : i + size]) for i in range(0, len(content), size)]
    return list(read_blocks(pieces, limit))


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 10**6])
def test_pages_are_cut_out_whatever_the_pieces(size: int) -> None:
    content = (HEAD + "".join(PAGES[:20]) + FOOT).encode()
    found = blocks(content, size)
    assert [block.kind for block in found] == ["site", *["page"] * 20, "end"]
    assert [block.content for block in found[1:-1]] == [p.strip().encode() for p in PAGES[:20]]
    for block in found[1:-1] if size > 12 else ():  # the piece that holds the page's first byte
        assert block.stream == content.index(block.content) // size * size


@pytest.mark.parametrize("size", [5, 300, 10**6])
def test_a_page_that_is_too_large_is_left_and_the_next_read(size: int) -> None:
    large = page("groß", "x" * 5000)
    content = (HEAD + PAGES[0][:900] + "</page>" + large + page("k", "y") + FOOT).encode()
    found = blocks(content, size, limit=1000)
    assert [block.kind for block in found] == ["site", "page", "too_large", "page", "end"]


def test_a_page_that_is_cut_by_a_loss_is_no_page() -> None:
    half, rest = PAGES[0][:500].encode(), PAGES[1][300:].encode()
    whole = PAGES[2].encode()
    pieces = [Piece(0, half), Piece(9, rest + whole, after_loss=True), Piece(20, half)]
    found = list(read_blocks(pieces, 10**6))
    assert [(block.kind, block.stream) for block in found] == [("cut", 0), ("page", 9), ("cut", 20)]
    assert found[1].content == whole.strip()
