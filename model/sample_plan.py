"""Which sequence is global sample g: a pure function, so resume is a number and not a replay.

Languages are mixed by their shares q exactly (largest remainder in every window of samples, spread
evenly inside it), and a language's sequences come without replacement: pass 0 is one permutation
of them, pass 1 another. The world size is no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.core.hashing import generator, stable_uint64

MAX_WINDOW = 2**20
DRAWS_OF_RAREST = 200
"""Samples of the rarest language in one window: its share is met to 1/400 of itself."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Where a global sample is found."""

    language: str
    row: int
    """Index into the language's sequences."""
    pass_index: int
    """How often the language was gone through before; another pass has other masks."""


def quotas(shares: Mapping[str, float], window: int) -> dict[str, int]:
    """Samples of each language in a window, by largest remainder; they sum to `window`.

    Ties go to the language that sorts first.
    """
    whole = math.fsum(shares.values())
    exact = {tag: share / whole * window for tag, share in shares.items()}
    counts = {tag: math.floor(value) for tag, value in exact.items()}
    by_remainder = sorted(exact, key=lambda tag: (counts[tag] - exact[tag], tag))
    for tag in by_remainder[: window - sum(counts.values())]:
        counts[tag] += 1
    return counts


class SamplePlan:
    """The order of training samples.

    Args:
        counts: sequences by language, all above 0.
        shares: q by language, for the same languages; they are scaled to sum to 1.
        seed: of the run.

    Raises:
        ValueError: the languages differ, a count is 0, or a share is too small to be met.
    """

    def __init__(self, counts: Mapping[str, int], shares: Mapping[str, float], seed: int) -> None:
        if not counts or counts.keys() != shares.keys():
            raise ValueError(
                f"sequences are of {sorted(counts)}, shares of {sorted(shares)}; need the same"
            )
        if min(counts.values()) <= 0 or min(shares.values()) <= 0:
            raise ValueError("every language needs a sequence and a share above 0")
        self.counts, self.seed = dict(counts), seed
        self.languages = sorted(counts)
        rarest = min(shares.values()) / math.fsum(shares.values())
        self.window = min(MAX_WINDOW, max(1024, math.ceil(DRAWS_OF_RAREST / rarest)))
        self.quotas = quotas(shares, self.window)
        missed = [tag for tag in self.languages if not self.quotas[tag]]
        if missed:
            raise ValueError(f"shares too small to be met in {self.window} samples: {missed}")
        self._cached: tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None

    def sample(self, index: int) -> Sample:
        """Global sample number `index`, from 0, without end."""
        window, inside = divmod(index, self.window)
        order, number = self._window(window)
        language = self.languages[int(order[inside])]
        drawn = window * self.quotas[language] + int(number[inside])
        pass_index, position = divmod(drawn, self.counts[language])
        key = stable_uint64(self.seed, "order", language, pass_index)
        return Sample(language, permuted(position, self.counts[language], key), pass_index)

    def _window(self, window: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Language index of each sample of a window, and its number among that language's."""
        if self._cached is None or self._cached[0] != window:
            rng = generator(self.seed, "window", window)
            counts = [self.quotas[tag] for tag in self.languages]
            numbers = np.concatenate([np.arange(count) for count in counts])
            tags = np.repeat(np.arange(len(counts)), counts)
            # The j-th of n draws of a language stands near (j + u) / n of the window.
            places = (numbers + rng.random(len(counts))[tags]) / np.asarray(counts)[tags]
            order = np.argsort(places, kind="stable")
            self._cached = (window, tags[order], numbers[order])
        return self._cached[1], self._cached[2]


def permuted(position: int, size: int, key: int) -> int:
    """Image of `position` under a pseudo-random permutation of 0 ... size - 1, in O(1) memory.

    A four-round Feistel network over the next power of 4, walked until it lands inside (Black and
    Rogaway 2002, "Ciphers with Arbitrary Finite Domains").
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    low = (1 << half) - 1
    while True:
        left, right = position >> half, position & low
        for turn in range(4):
            left, right = right, left ^ (_mix(right ^ (turn << 56) ^ key) & low)
        position = left << half | right
        if position < size:
            return position


def _mix(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    mask = 2**64 - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & mask
    value = (value ^ value >> 27) * 0x94D049BB133111EB & mask
    return value ^ value >> 31
