"""Files of sorted fixed-size records, of which any range of keys is read alone.

Layout, little-endian: 8 bytes of magic, number of records (u64), CRC-32 of the index (u64); the
index: for every block of BLOCK records its first key (u64) and the CRC-32 of its bytes (u64); then
the records. A reducer asks for
its range of keys and reads the blocks that hold it, so S files and P reducers need no S x P files.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from pipelines.core.store import DamagedObject, Store

RECORD = np.dtype([("key", "<u8"), ("low", "<u8"), ("row", "<u4"), ("value", "<u4")])
"""24 bytes. Files are sorted by key, then low; what the fields hold is up to the step."""

_ENTRY = np.dtype([("first", "<u8"), ("crc", "<u8")])
_MAGIC = b"bmsortd1"
_HEAD = 24
BLOCK = 512
_FIRST_READ = 2**16

Records = npt.NDArray[np.void]


def empty() -> Records:
    """No records."""
    return np.empty(0, RECORD)


def sort_records(records: Records) -> Records:
    """Sort by key, then low; equal ones stay in their order."""
    return records[sorted_order(records["key"].copy(), records["low"])]


def sorted_order(key: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The order of np.lexsort((low, key)). Hashes rarely agree in one half alone, so one sort does
    where two would be needed otherwise."""
    order = np.argsort(key, kind="stable")
    key, low = key[order], low[order]
    if np.any((key[1:] == key[:-1]) & (low[1:] < low[:-1])):
        return np.asarray(order[np.lexsort((low, key))])
    return np.asarray(order)


def save_records(path: Path, chunks: Iterable[Records], count: int) -> None:
    """Write records to a local file; the chunks are sorted, and rise from one to the next.

    Args:
        count: how many records there are in all the chunks.
    """
    index = np.zeros(-(-count // BLOCK), _ENTRY)
    number, rest = 0, empty()
    with path.open("wb") as file:
        file.seek(_HEAD + index.nbytes)
        for chunk in chunks:
            rest = np.concatenate([rest, chunk])
            whole = len(rest) // BLOCK * BLOCK
            for start in range(0, whole, BLOCK):
                number = _write_block(file, rest[start : start + BLOCK], index, number)
            rest = rest[whole:]
        if len(rest):
            number = _write_block(file, rest, index, number)
        file.seek(0)
        file.write(_MAGIC + count.to_bytes(8, "little"))
        file.write(zlib.crc32(index.tobytes()).to_bytes(8, "little") + index.tobytes())


def _write_block(file: IO[bytes], block: Records, index: npt.NDArray[np.void], number: int) -> int:
    content = block.tobytes()
    file.write(content)
    index[number] = (block["key"][0], zlib.crc32(content))
    return number + 1


class RecordsFile:
    """One file of sorted records on the store; opening it reads the index."""

    def __init__(self, store: Store, path: str) -> None:
        self.store, self.path = store, path
        head = store.read_range(path, 0, _FIRST_READ)
        if len(head) < _HEAD or head[:8] != _MAGIC:
            raise self._damage("it does not begin as a file of sorted records")
        self.count = int.from_bytes(head[8:16], "little")
        blocks = -(-self.count // BLOCK)
        self._data = _HEAD + blocks * _ENTRY.itemsize
        if len(head) < self._data:
            head += store.read_range(path, len(head), self._data)
        if len(head) < self._data:
            raise self._damage("its index is cut off")
        if zlib.crc32(head[_HEAD : self._data]) != int.from_bytes(head[16:_HEAD], "little"):
            raise self._damage("its index does not match its checksum")
        self._head = head
        index = np.frombuffer(head, _ENTRY, blocks, _HEAD)
        self._first, self._crc = index["first"].copy(), index["crc"].copy()

    def between(self, low: int, high: int) -> Records:
        """Records with low <= key < high, in order; `high` may be 2^64.

        Raises:
            DamagedObject: the bytes are not those that were written.
        """
        if not self.count or high <= low:
            return empty()
        last = np.uint64(high - 1)
        # A run of one key may begin in the block before the first that starts with it.
        begin = max(int(np.searchsorted(self._first, np.uint64(low), "left")) - 1, 0)
        end = int(np.searchsorted(self._first, last, "right"))
        if end <= begin:
            return empty()
        records = self._blocks(begin, end)
        start = int(np.searchsorted(records["key"], np.uint64(low), "left"))
        stop = int(np.searchsorted(records["key"], last, "right"))
        return records[start:stop]

    def all(self) -> Records:
        """Every record."""
        return self.between(0, 2**64)

    def _blocks(self, begin: int, end: int) -> Records:
        size = BLOCK * RECORD.itemsize
        start = self._data + begin * size
        stop = self._data + min(end * BLOCK, self.count) * RECORD.itemsize
        if stop <= len(self._head):
            content = self._head[start:stop]
        else:
            content = self.store.read_range(self.path, start, stop)
        if len(content) != stop - start:
            raise self._damage(f"it ends at byte {start + len(content)}, not {stop}")
        for number in range(begin, end):
            offset = (number - begin) * size
            if zlib.crc32(content[offset : offset + size]) != self._crc[number]:
                raise self._damage(f"block {number} does not match its checksum")
        return np.frombuffer(content, RECORD)

    def _damage(self, what: str) -> DamagedObject:
        return DamagedObject(
            f"{self.path} is damaged ({what}); delete it and run again: its stage writes it anew"
        )


def read_between(files: Iterable[RecordsFile], low: int, high: int) -> Records:
    """The records of a range from many files, one file after the other."""
    found = [file.between(low, high) for file in files]
    return np.concatenate(found) if found else empty()
