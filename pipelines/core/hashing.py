"""Stable digests: every identity and every random choice starts from one of these."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from pipelines.core.config import canonical_json


def digest(*parts: Any) -> str:
    """Return 32 hex digits of the SHA-256 over the canonical JSON of `parts`."""
    return hashlib.sha256(canonical_json(parts).encode("utf-8")).hexdigest()[:32]


def stable_uint64(*parts: Any) -> int:
    """Return a 64-bit number that depends on `parts` alone (never on process, order or time)."""
    raw = hashlib.sha256(canonical_json(parts).encode("utf-8")).digest()
    return int.from_bytes(raw[:8], "little")


def stable_fraction(*parts: Any) -> float:
    """Return a number in [0, 1) that depends on `parts` alone."""
    return stable_uint64(*parts) / 2.0**64


def generator(*parts: Any) -> np.random.Generator:
    """Return a random generator whose whole stream is a pure function of `parts`."""
    return np.random.Generator(np.random.Philox(key=stable_uint64(*parts)))
