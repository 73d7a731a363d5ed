"""Stable digests: every identity and every random choice starts from one of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

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


_SPLITMIX_GAMMA = 0x9E3779B97F4A7C15


def stable_uint64s(texts: Iterable[str]) -> npt.NDArray[np.uint64]:
    """64-bit numbers that depend on one text each, shape (texts,); for many short ids at once."""
    digests = [
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for text in texts
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def mix64(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix each number's bits; one to one. Any shape.

    Source: SplitMix64's step and finaliser (Steele, Lea and Flood 2014, "Fast splittable
    pseudorandom number generators").
    """
    return finalise64(numbers + np.uint64(_SPLITMIX_GAMMA))


def finalise64(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser alone: one bit of a value changes half of all; 0 stays 0. Any shape.

    Source: as `mix64`.
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def counter_uint32(
    keys: npt.NDArray[np.uint64], counters: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """A random number for each (key, counter): a generator without state.

    Keys and counters broadcast: keys (n, 1) and counters (m,) give (n, m). Under one key the map
    from counters to numbers is one to one, so that no two counters tie. Two rounds of the kind of
    multiply and xor-shift that MurmurHash3's finaliser has, one half of the key added before each;
    the multipliers are from C. Wellons' search for low bias ("hash-prospector"). 32 bits because
    this is the whole cost of masking: 64 take three times as long.
    """
    low, high = keys.astype(np.uint32), (keys >> np.uint64(32)).astype(np.uint32)
    # The counters are spread first, so that a key a little larger is not a few counters ahead.
    mixed = np.asarray(low + counters * np.uint32(0x9E3779B9))
    shifted = mixed >> np.uint32(16)
    mixed ^= shifted
    mixed *= np.uint32(0x21F0AAAD)
    np.right_shift(mixed, np.uint32(15), out=shifted)
    mixed ^= shifted
    mixed += high
    mixed *= np.uint32(0xD35A2D97)
    np.right_shift(mixed, np.uint32(15), out=shifted)
    mixed ^= shifted
    return mixed
