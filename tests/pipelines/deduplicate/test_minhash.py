from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.config import NearSection
from pipelines.core.manifest import read_stage
from pipelines.core.store import Store
from pipelines.deduplicate.minhash import (
    WordHashes,
    band_keys,
    bands_of,
    choose_bands,
    detection_probability,
    shingle_hashes,
    signatures,
)
from tests.pipelines.deduplicate.corpus import (
    NEAR,
    config,
    document,
    left,
    planted_pair,
    run,
    survivors,
    word,
    write_kept,
)


@pytest.mark.parametrize(
    ("similarity", "bands", "rows", "probability"),
    [
        (0.8, 60, 13, 0.9664),
        (0.8, 13, 60, 0.00002),
        (0.5, 14, 8, 0.0533),
        (0.75, 14, 8, 0.7716),
        (0.8, 14, 8, 0.9235),
    ],
)
def test_detection_probability(
    similarity: float, bands: int, rows: int, probability: float
) -> None:
    """Case C17."""
    digits = 5 if probability < 0.001 else 4
    assert round(detection_probability(similarity, bands, rows), digits) == probability


def test_bands_that_do_not_fit_the_hashes_are_refused() -> None:
    with pytest.raises(ValueError, match="14 x 9 = 126, and hashes = 112"):
        NearSection(bands=14, rows_per_band=9)


def test_the_default_is_fineweb_s() -> None:
    assert bands_of(NearSection()) == (14, 8)
    assert bands_of(NearSection(bands=8, rows_per_band=14)) == (8, 14)


@given(st.floats(0.05, 0.99), st.integers(1, 300))
def test_chosen_bands_find_the_threshold_and_no_longer_rows_would(
    threshold: float, hashes: int
) -> None:
    bands, rows = choose_bands(threshold, hashes)

    assert bands * rows == hashes
    if rows > 1:
        assert detection_probability(threshold, bands, rows) >= 0.9
    for longer in range(rows + 1, hashes + 1):
        if hashes % longer == 0:
            assert detection_probability(threshold, hashes // longer, longer) < 0.9


def test_shingles_are_the_runs_of_words_and_do_not_cross_documents() -> None:
    documents = [list("abcdef"), [], list("abc"), list("bcdeabcd"), list("abcd")]

    hashes, offsets = shingle_hashes(documents, 4, WordHashes())

    assert offsets.tolist() == [0, 3, 3, 3, 8, 9]
    runs = ["abcd", "bcde", "cdef", "bcde", "cdea", "deab", "eabc", "abcd", "abcd"]
    for i, one in enumerate(runs):
        for j, other in enumerate(runs):
            assert (hashes[i] == hashes[j]) == (one == other)


def test_order_of_words_counts() -> None:
    hashes, _ = shingle_hashes(
        [list("abc"), list("acb"), list("cba"), list("aab")], 3, WordHashes()
    )

    assert len(set(hashes.tolist())) == 4


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=9), max_size=9), st.integers(1, 6))
def test_a_batch_gives_what_each_document_gives_alone(
    documents: list[list[str]], size: int
) -> None:
    together, offsets = shingle_hashes(documents, size, WordHashes())

    for number, units in enumerate(documents):
        alone, _ = shingle_hashes([units], size, WordHashes())
        assert len(alone) == max(len(units) - size + 1, 0)
        assert (together[int(offsets[number]) : int(offsets[number + 1])] == alone).all()


def test_forgetting_words_changes_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [[word(n % 50) for n in range(500)]]
    expected, _ = shingle_hashes(units, 5, WordHashes())
    monkeypatch.setattr("pipelines.deduplicate.minhash.REMEMBERED_WORDS", 7)

    found, _ = shingle_hashes(units, 5, WordHashes())

    assert (found == expected).all()


def test_signatures_stay_what_they_were() -> None:
    """What a base run stored must be comparable for ever; other values need another SIGNATURE."""
    hashes, offsets = shingle_hashes([list("abcdef"), list("abcdeg")], 5, WordHashes())
    values = signatures(hashes, offsets, 8)
    key, low = band_keys(values, 2)

    assert values.tolist() == SIGNATURES
    assert key.tolist() == KEYS
    assert low.shape == (2, 2)


SIGNATURES = [
    [3678941152, 3669950517, 351818194, 575155149, 1078843803, 3528500352, 3556257727, 2929048568],
    [3560539326, 3285426993, 3705873597, 207776422, 1078843803, 3528500352, 3393628659, 2330997498],
]
KEYS = [[1213276289703595214, 14308478822281776999], [14194743774900612916, 4236056187096504792]]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_bands_are_equal_where_all_their_rows_are(bands: int, rows: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 2, (6, bands * rows)).astype(np.uint32)

    key, low = band_keys(values, bands)

    for i in range(6):
        for j in range(6):
            for band in range(bands):
                part = slice(band * rows, (band + 1) * rows)
                same = (values[i, part] == values[j, part]).all()
                assert (key[i, band] == key[j, band]) == same
                assert (low[i, band] == low[j, band]) == same
    assert len(set(key[0].tolist())) == bands  # another band, another key


@pytest.mark.parametrize(("similarity", "pairs"), [(0.9, 200), (0.8, 600), (0.6, 600)])
def test_planted_pairs_are_found_at_the_predicted_rate(
    store: Store, similarity: float, pairs: int
) -> None:
    """Case C17, from texts to documents: within 5 points of 1 - (1 - s^r)^b, and no false pair."""
    draw = random.Random(17)
    planted = [planted_pair(draw, number, similarity) for number in range(pairs)]
    predicted = np.mean([detection_probability(s, 14, 8) for _, _, s in planted])
    assert abs(np.mean([s for _, _, s in planted]) - similarity) < 0.015
    corpus = {
        "a": [document(one, id=f"{n}") for n, (one, _, _) in enumerate(planted)],
        "b": [document(other, id=f"{n}'") for n, (_, other, _) in enumerate(planted)],
    }

    record = run(store, write_kept(store, corpus), config())

    found = record.counters.get("dropped.near_duplicates", 0)
    assert abs(found / pairs - predicted) <= 0.05
    ids = {d.id for d in left(store, record)}
    assert {str(n) for n in range(pairs)} <= ids
    assert len(ids) == 2 * pairs - found


def test_the_detection_curve_is_told(store: Store) -> None:
    survivors(store, [NEAR])

    notes = read_stage(store, "r", "deduplicate-plan").notes
    assert "14 bands x 8 rows" in notes[0]
    assert "0.75: 0.7716, 0.80: 0.9235" in notes[0]
    assert notes[1].startswith("0 of 1 documents")


def test_keys_are_those_that_earlier_snapshots_are_stored_with() -> None:
    shingles, _ = shingle_hashes([["a", "b", "c"], ["ж", "人", "x"]], 2, WordHashes())
    assert [hex(value) for value in shingles.tolist()] == [
        "0xc1e9ec697cbc041c",
        "0x5dfae57ec5290d8a",
        "0x98ab2505499dffd9",
        "0xdcf98d54710c9317",
    ]
    first, second = band_keys(np.arange(8, dtype=np.uint32).reshape(1, 8), 2)
    assert [hex(value) for value in first[0].tolist()] == [
        "0xec74daffb16585ea",
        "0x8632de3ee0147d04",
    ]
    assert [hex(value) for value in second[0].tolist()] == [
        "0x8259248d6c7dd796",
        "0x6eb0be4f6e49b3d8",
    ]
