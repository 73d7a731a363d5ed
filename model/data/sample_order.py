"""Arithmetic of the sample plan: rounding in step, spreading, counting, permuting; all O(1) memory.

Everything is exact in 64-bit integers, so any machine gives the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipelines.core.hashing import mix64

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

SHARE_BITS = 40
"""Shares are multiples of 2^-40, so that their products with sample numbers are exact."""
MOST_SAMPLES = 2**42
"""Samples of one phase; beyond, a product of a share and a sample number would overflow."""
LARGEST_BLOCK = 2**31
"""Samples of one block; beyond, a product of two numbers below it would overflow."""
GOLDEN_RATIO = (1 + math.sqrt(5)) / 2


def exact_shares(shares: Sequence[float]) -> Ints:
    """Shares as whole multiples of 2^-40 that sum to 1 exactly, by largest remainder.

    Args:
        shares: not negative, with a sum above 0; they are scaled to sum to 1. Shape (n,).
    """
    whole, unit = math.fsum(shares), 1 << SHARE_BITS
    exact = [share / whole * unit for share in shares]
    units = np.array([math.floor(value) for value in exact], dtype=np.int64)
    remainders = sorted(range(len(exact)), key=lambda i: (units[i] - exact[i], i))
    units[remainders[: unit - int(units.sum())]] += 1
    return units


def rounded_counts(cumulated: Ints, samples: Ints) -> Ints:
    """Round(Q_i x) for cumulated shares Q_i and sample numbers x, halves up.

    The differences of neighbours are the counts of the languages among the first x samples. They
    sum to x, and each is less than 1 away from q_i x, since it is the difference of two roundings
    that are each at most 1/2 off ("cascade rounding").

    Args:
        cumulated: in units of 2^-40, from 0 to 2^40, shape (n,).
        samples: x, below 2^42, shape (m,).

    Returns:
        Shape (m, n).
    """
    half = SHARE_BITS // 2
    high, low = cumulated >> half, cumulated & ((1 << half) - 1)
    column = samples[:, None]
    # Q x in two parts of 20 bits, so that no product passes 2^63.
    parts: Ints = column * high + (column * low >> half)
    return (parts + (1 << (half - 1))) >> half


@lru_cache(maxsize=256)
def multiplier(size: int) -> int:
    """The number A by which r -> A r mod `size` spreads any run of r evenly over the block.

    A is coprime to `size`, near size / golden ratio, and of such numbers the one whose fraction
    A / size has the smallest sum of partial quotients: how far the number of hits in an interval
    is from its share grows with that sum (Kuipers and Niederreiter 1974, chapter 2, section 3).
    """
    middle = round(size / GOLDEN_RATIO)
    near = [a for a in range(middle - 32, middle + 33) if 0 < a < size and math.gcd(a, size) == 1]
    if not near:
        return 1 if size > 1 else 0
    return min(near, key=lambda a: (_sum_of_quotients(a, size), abs(a - middle), a))


def _sum_of_quotients(a: int, size: int) -> int:
    found = 0
    while a:
        found += size // a
        size, a = a, size % a
    return found


def floor_sum(lengths: Ints, modulus: int, factor: int, offsets: Ints) -> Ints:
    """Sum over i < n of floor((factor i + b) / modulus), for each n and b, in O(log modulus).

    The points below a line are counted as Euclid's algorithm goes, with both axes swapped at every
    step. The steps depend on `factor` and `modulus` alone, so they are shared by all n and b.

    Args:
        lengths: n, not negative and at most `modulus`, shape (m,).
        modulus: above 0, at most 2^31.
        factor: from 0 to below `modulus`.
        offsets: b, not negative, below 2 x `modulus`, shape (m,).
    """
    n, b = lengths, offsets
    found = np.zeros(np.broadcast_shapes(n.shape, b.shape), dtype=np.int64)
    while True:
        quotient, factor = divmod(factor, modulus)
        if quotient:
            found += n * (n - 1) // 2 * quotient
        above, b = np.divmod(b, modulus)
        found += n * above
        if not factor:
            return found
        n, b = np.divmod(factor * n + b, modulus)
        if not n.any():
            return found
        modulus, factor = factor, modulus


def hits(lengths: Ints, modulus: int, factor: int, offsets: Ints, begins: Ints, ends: Ints) -> Ints:
    """How many r < n have begin <= (factor r + offset) mod modulus < end.

    Args:
        lengths: n, shape (m,), as the other arrays.
        offsets: from 0 to below `modulus`.
        begins, ends: from 0 to `modulus`.
    """
    # For y >= 0 and 0 <= t <= modulus, floor((y + modulus - t) / modulus) - floor(y / modulus) is
    # 1 where y mod modulus >= t; the second term is the same for begin and end.
    shifted = offsets + modulus
    at_least_begin = floor_sum(lengths, modulus, factor, shifted - begins)
    return at_least_begin - floor_sum(lengths, modulus, factor, shifted - ends)


def permuted(positions: Ints, sizes: Ints, keys: Words) -> Ints:
    """Images under a pseudo-random permutation of 0 ... size - 1 for each key.

    A Feistel network over the next power of 2, walked until it lands inside (Black and Rogaway
    2002, "Ciphers with Arbitrary Finite Domains").

    Args:
        positions: each below its size, shape (m,), as the other arrays.
        sizes: above 0, at most 2^52.
    """
    place, size = positions.astype(np.uint64), sizes.astype(np.uint64)
    # A network over few bits prefers some places; a shift by key makes all of them as likely.
    place = (place + mix64(keys) % size) % size
    bits = np.frexp((sizes - 1).astype(np.float64))[1].astype(np.uint64)
    half = (bits + np.uint64(1)) >> np.uint64(1)
    low = (np.uint64(1) << half) - np.uint64(1)
    high = (np.uint64(1) << (bits - half)) - np.uint64(1)
    key, result = keys, np.empty(len(place), dtype=np.int64)
    waiting = np.arange(len(place))
    while len(waiting):
        left, right = place >> half, place & low
        for turn in range(0, 6, 2):
            left = left ^ (mix64(right ^ key ^ np.uint64(turn << 56)) & high)
            right = right ^ (mix64(left ^ key ^ np.uint64(turn + 1 << 56)) & low)
        place = left << half | right
        inside = place < size
        result[waiting[inside]] = place[inside]
        outside = ~inside
        waiting, place, size, key = waiting[outside], place[outside], size[outside], key[outside]
        half, low, high = half[outside], low[outside], high[outside]
    return result
