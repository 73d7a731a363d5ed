from __future__ import annotations

import numpy as np
import pytest

from pipelines.ngrams.discounts import (
    counts_of_counts,
    good_turing_ratios,
    katz_ratios,
    kneser_ney_discounts,
    simple_good_turing,
    turing_estimate,
    unseen_probability,
)

FISH = np.array([10, 3, 2, 1, 1, 1])
"""10 carp, 3 perch, 2 whitefish, 1 trout, 1 salmon, 1 eel (Jurafsky and Martin, Good-Turing)."""

PROSODY = {
    1: 120, 2: 40, 3: 24, 4: 13, 5: 15, 6: 5, 7: 11, 8: 2, 9: 2, 10: 1, 12: 3, 14: 2, 15: 1, 16: 1,
    17: 3, 19: 1, 20: 3, 21: 2, 23: 3, 24: 3, 25: 3, 26: 2, 27: 2, 28: 1, 31: 2, 32: 2, 33: 1,
    34: 2, 36: 2, 41: 3, 43: 1, 45: 3, 46: 1, 47: 1, 50: 1, 71: 1, 84: 1, 101: 1, 105: 1, 121: 1,
    124: 1, 146: 1, 162: 1, 193: 1, 199: 1, 224: 1, 226: 1, 254: 1, 257: 1, 339: 1, 421: 1, 456: 1,
    481: 1, 483: 1, 1140: 1, 1256: 1, 1322: 1, 1530: 1, 2131: 1, 2395: 1, 6925: 1, 7846: 1,
}  # fmt: skip
"""The prosody data of Gale and Sampson 1995, N = 30,902."""


def test_the_fish_of_the_textbook() -> None:
    of_counts = counts_of_counts(FISH)

    assert of_counts == {1: 3, 2: 1, 3: 1, 10: 1}
    assert unseen_probability(of_counts) == pytest.approx(3 / 18)
    assert turing_estimate(of_counts, 1) == pytest.approx(2 / 3)
    assert turing_estimate(of_counts, 1) / 18 == pytest.approx(1 / 27)


def test_turing_s_estimate_refuses_what_was_not_counted() -> None:
    with pytest.raises(ValueError, match="nothing was seen 4 times"):
        turing_estimate(counts_of_counts(FISH), 4)


def test_simple_good_turing_on_the_data_of_its_paper() -> None:
    adjusted = simple_good_turing(PROSODY)

    assert sum(r * n for r, n in PROSODY.items()) == 30_902
    assert unseen_probability(PROSODY) == pytest.approx(0.003883244, abs=1e-9)
    # The published r* are renormalised, so that all the seen share 1 - P0.
    seen = sum(n * adjusted[r] for r, n in PROSODY.items())
    published = {1: 0.7628079, 2: 1.706448, 3: 2.679796, 4: 3.663988, 5: 4.653366, 6: 5.645628}
    scale = 30_902 * (1 - 120 / 30_902) / seen
    for r, value in published.items():
        assert adjusted[r] * scale == pytest.approx(value, rel=1e-6)
    assert all(adjusted[r] < r for r in PROSODY)


def test_good_turing_falls_back_and_says_so() -> None:
    notes: list[str] = []

    ratios = good_turing_ratios(np.array([5, 5, 0]), 2, notes)

    assert ratios.tolist() == [1 - 1.5 / 5, 1 - 1.5 / 5, 1.0]
    assert len(notes) == 1
    assert "order 2" in notes[0]
    assert "fewer than two different counts" in notes[0]


def test_katz_discounts_counts_up_to_five_by_his_equation() -> None:
    numbers = {1: 100, 2: 40, 3: 22, 4: 15, 5: 11, 6: 8, 9: 3}
    counts = np.repeat(list(numbers), list(numbers.values()))
    notes: list[str] = []

    ratios = dict(zip(counts.tolist(), katz_ratios(counts, 1, notes).tolist(), strict=True))

    assert notes == []
    cut = 6 * 8 / 100
    assert ratios[1] == pytest.approx((2 * 40 / 100 / 1 - cut) / (1 - cut))
    assert ratios[3] == pytest.approx((4 * 15 / 22 / 3 - cut) / (1 - cut))
    assert ratios[5] == pytest.approx((6 * 8 / 11 / 5 - cut) / (1 - cut))
    assert ratios[6] == ratios[9] == 1
    # Katz chose them so that what is taken is what Good-Turing gives the unseen: N(1).
    taken = sum(n * r * (1 - ratios[r]) for r, n in numbers.items())
    assert taken == pytest.approx(numbers[1])


def test_katz_falls_back_and_says_so() -> None:
    notes: list[str] = []

    ratios = katz_ratios(np.array([2, 3, 9]), 3, notes)

    assert ratios.tolist() == [1 - 1 / 2, 1 - 1.5 / 3, 1]
    assert "order 3" in notes[0]
    assert "nothing was seen 1 times" in notes[0]


def test_kneser_ney_s_three_discounts_by_equation_26() -> None:
    notes: list[str] = []

    # Y = 100 / (100 + 2 x 40) = 5/9; D1 = 1 - 2 Y 40/100, D2 = 2 - 3 Y 22/40, D3+ = 3 - 4 Y 15/22.
    found = kneser_ney_discounts({1: 100, 2: 40, 3: 22, 4: 15, 5: 11}, 2, notes)

    assert found == pytest.approx((5 / 9, 13 / 12, 49 / 33))
    assert notes == []


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({1: 10, 2: 3}, "once, twice, or three times"),
        ({}, "once, twice, or three times"),
        ({1: 1, 2: 1, 3: 9, 4: 1}, "D2 is -7.000"),
    ],
)
def test_kneser_ney_falls_back_and_says_so(numbers: dict[int, int], why: str) -> None:
    notes: list[str] = []

    assert kneser_ney_discounts(numbers, 4, notes) == (0.5, 1.0, 1.5)
    assert "order 4" in notes[0]
    assert why in notes[0]
