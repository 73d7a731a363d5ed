"""Digests of WARC records (ISO 28500, WARC-Block-Digest and WARC-Payload-Digest)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

ALGORITHMS = {"sha1": 20, "md5": 16, "sha256": 32, "sha512": 64}
"""Bytes of a digest, by its label without "-"."""

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
BASE_32 = frozenset(ALPHABET)
TO_DIGITS = str.maketrans(ALPHABET, "0123456789abcdefghijklmnopqrstuv")


def matches(labelled: str, candidates: Iterable[bytes]) -> bool | None:
    """Whether a digest such as `sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ` is that of a candidate.

    The value is base 32 or hexadecimal, in either case; candidates are made only until one fits.

    Returns:
        None if it cannot be told: the label or the value is of no known form.
    """
    label, _, value = labelled.partition(":")
    algorithm = label.strip().lower().replace("-", "")
    size = ALGORITHMS.get(algorithm)
    if size is None:
        return None
    digest = _value(value.strip(), size)
    if digest is None:
        return None
    return any(hashlib.new(algorithm, candidate).digest() == digest for candidate in candidates)


def _value(text: str, size: int) -> bytes | None:
    try:
        if len(text) == 2 * size:
            return bytes.fromhex(text)
        text = text.rstrip("=").upper()
        if len(text) != (8 * size + 4) // 5 or not BASE_32.issuperset(text):
            return None
        # Python reads base 32 with the digits 0-9a-v; RFC 4648 writes A-Z2-7.
        number = int(text.translate(TO_DIGITS), 32) >> (5 * len(text) - 8 * size)
        return number.to_bytes(size, "big")
    except ValueError:
        return None
