"""Hashes whose values are stored: another value would be another corpus."""

from __future__ import annotations

import numpy as np

from pipelines.core.hashing import finalise64, mix64

NUMBERS = np.array([0, 1, 2, 2**63, 2**64 - 1], dtype=np.uint64)


def test_the_finaliser_is_that_of_splitmix64() -> None:
    assert [hex(value) for value in finalise64(NUMBERS).tolist()] == [
        "0x0",
        "0x5692161d100b05e5",
        "0xdbd238973a2b148a",
        "0x25c26ea579cea98a",
        "0xb4d055fcf2cbbd7b",
    ]


def test_a_step_of_splitmix64_goes_before_it() -> None:
    # The first output of the generator from seed 0, as its reference implementation prints it.
    assert mix64(NUMBERS)[0] == 0xE220A8397B1DCDAF
    assert (mix64(NUMBERS) == finalise64(NUMBERS + np.uint64(0x9E3779B97F4A7C15))).all()
