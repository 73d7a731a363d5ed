"""One bit of a file, as a disk or a memory that fails turns it."""

from __future__ import annotations

from pipelines.core.store import Store


def flip(store: Store, key: str, position: int | None = None) -> bytes:
    """Flip the lowest bit of one byte, the middle one if not told; returns what was there."""
    whole = store.read_bytes(key)
    content = bytearray(whole)
    content[len(whole) // 2 if position is None else position] ^= 1
    store.publish_bytes(key, bytes(content))
    return whole
