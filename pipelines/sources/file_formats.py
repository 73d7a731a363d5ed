"""What a file is, by its name or its first bytes; compressed files as one stream of bytes."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import zlib
from pathlib import Path
from typing import IO, cast
from urllib.parse import urlsplit

import pyarrow as pa

from pipelines.sources.archives.packed_streams import STEP_BYTES, UNPACKERS, PackedFile

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".xz": "xz", ".bz2": "bz2", ".lz4": "lz4"}
ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
    ".text": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".warc": "warc",
    ".wet": "wet",
    ".xml": "wikipedia",
    ".wat": "a WAT file: metadata of a crawl without its text; take the .warc or the .wet",
    ".arc": "an ARC file, the form before WARC; convert it (warcio recompress)",
    ".zip": "a ZIP archive; unpack it and name the files in it",
    ".tar": "a TAR archive; unpack it and name the files in it",
    ".tgz": "a TAR archive; unpack it and name the files in it",
    ".7z": "a 7z archive; unpack it and name the files in it",
    ".pdf": "a PDF; take its text out first",
    ".docx": "a Word document; save it as text or HTML",
    ".csv": 'a table; read it by the source hugging_face with dataset = "csv"',
    ".sql": "a database dump; the articles are in …-pages-articles….xml.bz2",
    ".cdxj": "an index of a crawl; take the .warc or the .wet",
    ".cdx": "an index of a crawl; take the .warc or the .wet",
}
"""Format by ending; a sentence for what is not read."""
MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bz2",
    b"\x04\x22\x4d\x18": "lz4",
}
PROLOGUE = rb"\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!--(?:[^-]|-(?!->))*+-->\s*+)*+"
"""What may stand before the first element; without a second way to match it."""
CONTENTS = [
    # A WET file may begin with its warcinfo record.
    (re.compile(rb"WARC/\d.*\nWARC-Type:\s*conversion", re.I | re.DOTALL), "wet"),
    (re.compile(rb"WARC/\d"), "warc"),
    (re.compile(rb"filedesc://"), ENDINGS[".arc"]),
    (re.compile(rb"PAR1"), "parquet"),
    (re.compile(rb"PK\x03\x04"), ENDINGS[".zip"]),
    (re.compile(rb"%PDF"), ENDINGS[".pdf"]),
    (re.compile(PROLOGUE + rb"<mediawiki"), "wikipedia"),
    (re.compile(PROLOGUE + rb"<(?:!doctype\s+html|html)", re.I), "html"),
    (re.compile(rb"\s*\{\s*\""), "jsonl"),
]
BOM = b"\xef\xbb\xbf"
HEAD_BYTES = 4096
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading a file of `open_bytes` raises where the packed bytes end early or are damaged."""


def format_by_name(url: str) -> str | None:
    """The format, or a sentence on what else it is; None when the ending tells nothing."""
    name = urlsplit(url).path.lower() if "://" in url else url.lower()
    suffixes = Path(name).suffixes
    while suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return ENDINGS.get(suffixes[-1]) if suffixes else None


def format_by_content(path: Path) -> str | None:
    """The format by a file's first bytes (unpacked); plain text is what decodes as UTF-8."""
    try:
        with open_bytes(path) as file:
            head = file.read(HEAD_BYTES).removeprefix(BOM)
    except DAMAGE:
        return None
    for pattern, found in CONTENTS:
        if pattern.match(head):
            return found
    try:
        text = head.decode("utf-8", errors="ignore" if len(head) == HEAD_BYTES else "strict")
    except UnicodeDecodeError:
        return None
    return "text" if text.strip() and "\0" not in text and len(text) > len(head) // 5 else None


def compression_of(path: Path) -> str | None:
    """By the file's first bytes."""
    with path.open("rb") as file:
        head = file.read(8)
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked, whatever it is packed with.

    Reading raises one of DAMAGE where the packed bytes end early or are damaged; `lost_bytes` tells
    how many of them, where that is known.
    """
    compression = compression_of(path)
    if compression == "gzip":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if compression in UNPACKERS:
        return cast("IO[bytes]", io.BufferedReader(PackedFile(path, compression), STEP_BYTES))
    if compression is not None:
        packed = pa.CompressedInputStream(pa.OSFile(str(path)), compression)
        return cast("IO[bytes]", io.BufferedReader(packed))
    return path.open("rb")


def lost_bytes(error: BaseException) -> int:
    """Packed bytes that could not be read, of an error that reading raised; 0 if not known."""
    return int(getattr(error, "bytes_lost", 0))
