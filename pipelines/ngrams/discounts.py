"""Discounts from counts of counts: Good-Turing, Katz, and modified Kneser-Ney."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from pipelines.ngrams.tables import Floats, Ints

FALLBACK = (0.5, 1.0, 1.5)
"""Absolute discounts of counts 1, 2, and 3 or more where counts of counts give none; those that
kenlm's `lmplz --discount_fallback` takes."""
KATZ_LIMIT = 5
"""Katz 1987: counts above it are believed."""
CONFIDENCE = 1.65
"""Gale and Sampson 1995: standard deviations at which Turing's estimate still differs."""


def counts_of_counts(counts: Ints) -> dict[int, int]:
    """How many n-grams were seen r times, by r, for r of 1 or more."""
    values, how_many = np.unique(counts[counts > 0], return_counts=True)
    return dict(zip(values.tolist(), how_many.tolist(), strict=True))


def turing_estimate(of_counts: Mapping[int, int], r: int) -> float:
    """Turing's adjusted count r* = (r + 1) N(r+1) / N(r) (Good 1953); r = 0 needs N(0) given.

    Raises:
        ValueError: nothing was seen r times.
    """
    if not of_counts.get(r):
        raise ValueError(f"nothing was seen {r} times, so Turing's estimate has no value there")
    return (r + 1) * of_counts.get(r + 1, 0) / of_counts[r]


def unseen_probability(of_counts: Mapping[int, int]) -> float:
    """The probability of everything unseen, N(1) / N (Good 1953)."""
    return of_counts.get(1, 0) / sum(r * n for r, n in of_counts.items())


def simple_good_turing(of_counts: Mapping[int, int]) -> dict[int, float]:
    """Adjusted counts r* of Simple Good-Turing (Gale and Sampson 1995), before renormalisation.

    Turing's estimate as long as it differs significantly from the one of a line through
    (log r, log Z(r)), and from then on that line's.

    Raises:
        ValueError: fewer than two different counts, or a line that does not fall faster than 1/r.
    """
    values = sorted(of_counts)
    if len(values) < 2:
        raise ValueError("fewer than two different counts")
    before = [0, *values[:-1]]
    after = [*values[1:], 2 * values[-1] - before[-1]]
    smooth = [
        2 * of_counts[r] / (high - low) for low, r, high in zip(before, values, after, strict=True)
    ]
    slope, _ = np.polyfit(np.log(values), np.log(smooth), 1)
    if slope >= -1:
        raise ValueError(f"the slope {slope:.3f} of log N(r) over log r is not below -1")
    adjusted: dict[int, float] = {}
    turing = True
    for r in values:
        line = r * (1 + 1 / r) ** (float(slope) + 1)
        if turing and of_counts.get(r + 1):
            own, n, following = turing_estimate(of_counts, r), of_counts[r], of_counts[r + 1]
            spread = math.sqrt((r + 1) ** 2 * following / n**2 * (1 + following / n))
            turing = abs(own - line) > CONFIDENCE * spread
        else:
            turing = False
        adjusted[r] = turing_estimate(of_counts, r) if turing else line
    return adjusted


def _fallback_ratio(counts: Ints) -> Floats:
    values = counts.astype(np.float64)
    absolute = np.choose(np.clip(counts, 0, 3), [0.0, *FALLBACK])
    ratio: Floats = 1 - absolute / np.maximum(values, 1)
    return ratio


def good_turing_ratios(counts: Ints, order: int, notes: list[str]) -> Floats:
    """r* / r for each count, by Simple Good-Turing; FALLBACK where there is none, with a note.

    A ratio outside ]0, 1[, which noise in N(r) can give, also takes the line's place by FALLBACK.
    """
    try:
        adjusted = simple_good_turing(counts_of_counts(counts))
        wrong = [r for r, value in adjusted.items() if not 0 < value < r]
        if wrong:
            raise ValueError(f"the adjusted count of {wrong[0]} is {adjusted[wrong[0]]:.3f}")
    except ValueError as error:
        notes.append(_note("Good-Turing", order, str(error)))
        return _fallback_ratio(counts)
    values, inverse = np.unique(counts, return_inverse=True)
    ratios = np.array([adjusted[r] / r if r else 1.0 for r in values.tolist()])
    return ratios[inverse]


def katz_ratios(counts: Ints, order: int, notes: list[str]) -> Floats:
    """Katz's discount ratios d(r): below 1 for r of 1 to 5, else 1 (Katz 1987, eq. 15).

    FALLBACK for r of 1 to 5, with a note, where an N(r) is zero or a ratio is outside ]0, 1[.
    """
    of_counts = counts_of_counts(counts)
    ratios = np.ones(len(counts))
    low = (counts > 0) & (counts <= KATZ_LIMIT)
    try:
        turing_estimate(of_counts, 1)  # refuses where nothing was seen once
        cut = (KATZ_LIMIT + 1) * of_counts.get(KATZ_LIMIT + 1, 0) / of_counts[1]
        if cut >= 1:
            raise ValueError(f"6 N(6) / N(1) is {cut:.3f}")
        table = [0.0]
        for r in range(1, KATZ_LIMIT + 1):
            ratio = (turing_estimate(of_counts, r) / r - cut) / (1 - cut)
            if not 0 < ratio < 1:
                raise ValueError(f"the ratio of count {r} is {ratio:.3f}")
            table.append(ratio)
        ratios[low] = np.array(table)[counts[low]]
    except ValueError as error:
        notes.append(_note("Katz", order, str(error)))
        ratios[low] = _fallback_ratio(counts[low])
    return ratios


def kneser_ney_discounts(
    of_counts: Mapping[int, int], order: int, notes: list[str]
) -> tuple[float, float, float]:
    """D1, D2, D3+ of modified Kneser-Ney (Chen and Goodman 1998, eq. 26).

    FALLBACK, with a note, where nothing has count 1, 2 or 3, or a discount Dj is not in [0, j].
    """
    n1, n2, n3, n4 = (of_counts.get(r, 0) for r in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        notes.append(_note("Kneser-Ney", order, "nothing was seen once, twice, or three times"))
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    for j, discount in enumerate(found, start=1):
        if not 0 <= discount <= j:
            notes.append(_note("Kneser-Ney", order, f"D{j} is {discount:.3f}"))
            return FALLBACK
    return found


def _note(method: str, order: int, why: str) -> str:
    return (
        f"{method} discounts of order {order}: {why}; counts 1, 2 and 3 or more are discounted "
        f"by {', '.join(map(str, FALLBACK))} instead"
    )
