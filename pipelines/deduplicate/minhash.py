"""MinHash signatures of shingles, cut into bands.

Two sets with Jaccard similarity s agree in one MinHash value with probability s (Broder 1997).
Cut into b bands of r values, they agree in a whole band with probability 1 - (1 - s^r)^b (Leskovec,
Rajaraman and Ullman, Mining of Massive Datasets, section 3.4). The values come from rensa.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import rensa

from pipelines.config import NearSection
from pipelines.core.hashing import finalise64

SIGNATURE = f"rensa.RMinHash/{rensa.RMinHash.ALGORITHM_VERSION}"
"""Which values these are; others cannot be compared with them, so it belongs to the binding."""

SEED = 1
"""One for all runs: what a later snapshot is compared with was signed long before."""

DETECTION_AT_THRESHOLD = 0.9
"""With so much probability at least, a pair at the threshold is found."""

REMEMBERED_WORDS = 1_000_000

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]


def detection_probability(similarity: float, bands: int, rows_per_band: int) -> float:
    """Probability that two documents of that Jaccard similarity meet in at least one band."""
    return float(1.0 - (1.0 - similarity**rows_per_band) ** bands)


def choose_bands(threshold: float, hashes: int) -> tuple[int, int]:
    """(bands, rows per band): the longest rows that still find pairs at the threshold.

    Longer rows mean fewer false candidates. Among all b x r = hashes, this takes the largest r
    with a detection probability at the threshold of at least DETECTION_AT_THRESHOLD. For FineWeb's
    112 hashes and 0.8 that is FineWeb's 14 x 8. (Minimising the sum of the areas of false
    positives and false negatives, as datasketch does, takes 8 x 14 there, which finds 30 % of the
    pairs at the threshold: more than half of what was asked for is lost.)
    """
    for rows in range(hashes, 1, -1):
        bands, rest = divmod(hashes, rows)
        if not rest and detection_probability(threshold, bands, rows) >= DETECTION_AT_THRESHOLD:
            return bands, rows
    return hashes, 1


def bands_of(section: NearSection) -> tuple[int, int]:
    """(bands, rows per band) as configured, else chosen from the threshold."""
    if section.bands is not None and section.rows_per_band is not None:
        return section.bands, section.rows_per_band
    return choose_bands(section.jaccard_threshold, section.hashes)


def detection_curve(bands: int, rows_per_band: int) -> str:
    """The detection curve, for people."""
    points = ", ".join(
        f"{s:.2f}: {detection_probability(s, bands, rows_per_band):.4f}"
        for s in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
    )
    return (
        f"near-duplicates: {bands} bands x {rows_per_band} rows; probability that two documents "
        f"of a Jaccard similarity are found: {points}"
    )


class WordHashes(dict[str, int]):
    """64-bit hashes of words; those seen lately are remembered."""

    def __missing__(self, word: str) -> int:
        if len(self) >= REMEMBERED_WORDS:
            self.clear()
        value = int.from_bytes(hashlib.blake2b(word.encode("utf-8"), digest_size=8).digest())
        self[word] = value
        return value


def shingle_hashes(
    documents: Sequence[Sequence[str]], size: int, hashes: WordHashes
) -> tuple[U64, U64]:
    """Hashes of all runs of `size` words, document after document.

    Returns:
        the hashes, and where each document's begin: length len(documents) + 1. A document of
        fewer than `size` words has none.
    """
    lengths = np.array([len(words) for words in documents], dtype=np.int64)
    total = int(lengths.sum())
    flat = np.fromiter(map(hashes.__getitem__, chain.from_iterable(documents)), np.uint64, total)
    offsets = np.concatenate([[0], np.cumsum(np.maximum(lengths - size + 1, 0))])
    starts = max(total - size + 1, 0)
    value = np.zeros(starts, dtype=np.uint64)
    for k in range(size):
        value = finalise64(value * np.uint64(0x9E3779B97F4A7C15) + flat[k : k + starts])
    end = np.repeat(np.cumsum(lengths), lengths)[:starts]
    inside = np.arange(starts) + size <= end
    return value[inside], offsets.astype(np.uint64)


def signatures(shingles: U64, offsets: U64, hashes: int) -> U32:
    """MinHash values, shape (documents, hashes). Every document must have a shingle."""
    matrix: Any = rensa.RMinHash.digest_matrix_from_flat_token_hashes(
        shingles, offsets, hashes, SEED
    )
    return np.array(matrix.to_rows(), dtype=np.uint32).reshape(len(offsets) - 1, hashes)


def band_keys(values: U32, bands: int) -> tuple[U64, U64]:
    """Two 64-bit keys of each band, shape (documents, bands): band number and all its values."""
    grouped = values.reshape(len(values), bands, -1).astype(np.uint64)
    number = np.arange(bands, dtype=np.uint64)
    halves = []
    for half in (1, 2):
        key = np.broadcast_to(
            finalise64(number * np.uint64(2) + np.uint64(half)), grouped.shape[:2]
        )
        for row in range(grouped.shape[2]):
            key = finalise64(key * np.uint64(0x9E3779B97F4A7C15) + grouped[:, :, row])
        halves.append(key)
    return halves[0], halves[1]
