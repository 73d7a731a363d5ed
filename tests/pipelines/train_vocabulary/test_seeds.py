from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.train_vocabulary.seeds import find_seeds
from pipelines.train_vocabulary.substrings import maximal_substrings, numbered_text
from pipelines.train_vocabulary.word_counts import WORD_COUNTS

MOST = 16


def table(words: dict[str, int]) -> pa.Table:
    return pa.table([list(words), list(words.values())], schema=WORD_COUNTS)


def brute_force(words: dict[str, int], min_count: int = 2) -> dict[str, int]:
    """Every maximal substring of 2 to 16 characters with its weighted count, by enumeration."""
    counts: Counter[str] = Counter()
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    for word, count in words.items():
        for i in range(len(word)):
            for j in range(i + 2, min(len(word), i + MOST) + 1):
                part = word[i:j]
                counts[part] += count
                before.setdefault(part, set()).add(word[i - 1] if i else "")
                after.setdefault(part, set()).add(word[j] if j < len(word) else "")
    return {
        part: count
        for part, count in counts.items()
        if count >= min_count
        and all(len(side) > 1 or side == {""} for side in (before[part], after[part]))
    }


def net_scores(found: dict[str, int]) -> dict[str, int]:
    taken: Counter[str] = Counter()
    for longer, count in found.items():
        for inner in (
            next((longer[:k] for k in range(len(longer) - 1, 1, -1) if longer[:k] in found), ""),
            next((longer[k:] for k in range(1, len(longer) - 1) if longer[k:] in found), ""),
        ):
            taken[inner] = max(taken[inner], count)
    return {part: (count - taken[part]) * len(part) for part, count in found.items()}


def substrings(words: dict[str, int], min_count: int = 2, threads: int = 1) -> dict[str, int]:
    if not words:
        return {}
    text = numbered_text(table(words))
    found = maximal_substrings(text, min_count, threads)
    whole = "".join(map(chr, text.alphabet[text.characters]))
    parts = [
        whole[start : start + length]
        for start, length in zip(found.starts.tolist(), found.lengths.tolist(), strict=True)
    ]
    assert len(set(parts)) == len(parts)
    return dict(zip(parts, found.counts.tolist(), strict=True))


def seeds(words: dict[str, int], most: int = 10**6, **more: int) -> list[tuple[str, int]]:
    found = find_seeds(table(words), most, **more)
    return list(zip(found["word"].to_pylist(), found["count"].to_pylist(), strict=True))


def test_a_substring_counts_as_often_as_the_words_around_it() -> None:
    # "an" stands in both words, twice in the first one; "na" has an "a" before it each time.
    assert substrings({"banana": 5, "can": 7}) == {
        "banana": 5,
        "ana": 10,
        "an": 17,
        "can": 7,
    }


def test_a_part_of_one_longer_piece_is_no_seed() -> None:
    assert substrings({"▁the": 100}) == {"▁the": 100}
    assert substrings({"▁the": 100, "▁they": 3}) == {"▁the": 103, "▁they": 3}
    assert substrings({"x": 10}) == {}


def test_the_net_count_decides_the_order() -> None:
    words = {"▁benchmark": 990, "▁benchmar": 10, "▁be": 50}
    # ▁benchmark 990 x 10; ▁be (1050 - 1000) x 3; ▁benchmar (1000 - 990) x 9
    assert seeds(words) == [("▁benchmark", 990), ("▁be", 1050), ("▁benchmar", 1000)]
    assert seeds(words, most=1) == [("▁benchmark", 990)]


def test_ties_go_by_code_points() -> None:
    words = {"zz": 4, "ab": 4, "бв": 4, "😀😀": 4, "가나": 4}
    assert [seed for seed, _ in seeds(words)] == ["ab", "zz", "бв", "가나", "😀😀"]
    assert [seed for seed, _ in seeds(words, most=3)] == ["ab", "zz", "бв"]


def test_words_longer_than_a_piece() -> None:
    long = "abcdefghijklmnopqrstuvwxyz"
    assert substrings({long: 3}) == {}  # no window of 16 is maximal
    assert substrings({long: 3, "x" + long[3:]: 2}) == {}
    # All windows end with the same "o", and a prefix of 15 letters is followed by "p" or an end.
    assert substrings({long: 3, long[:15]: 1}) == {long[:15]: 4}


def test_no_words_give_no_seeds() -> None:
    assert seeds({}) == seeds({"a": 9}) == []
    assert find_seeds(table({}), 5).schema == WORD_COUNTS


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text("abé▁国😀", min_size=1, max_size=24), st.integers(1, 10**12), max_size=12
    )
)
def test_same_as_by_enumeration(words: dict[str, int]) -> None:
    found = brute_force(words)
    assert substrings(words) == found
    scores = net_scores(found)
    expected = sorted(found, key=lambda part: (-scores[part], part))
    assert seeds(words) == [(part, found[part]) for part in expected]


@pytest.mark.parametrize("letters", [2, 300, 70_000])
def test_same_as_by_enumeration_whatever_the_alphabet(letters: int) -> None:
    """The number of characters that are sorted at a time depends on the alphabet."""
    rng = random.Random(letters)
    alphabet = [chr(0x20000 + n) for n in range(letters)]
    common = alphabet[:6]
    words = {
        "".join(rng.choices(common, k=rng.randint(1, 30))): rng.randint(1, 9) for _ in range(400)
    }
    words |= dict.fromkeys(alphabet, 1)  # so that all of them are in the alphabet
    assert substrings(words, 3) == brute_force(words, 3)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_nothing(threads: int) -> None:
    rng = random.Random(5)
    words = {
        "".join(rng.choices("abcdefgh", k=rng.randint(1, 12))): rng.randint(1, 5)
        for _ in range(900)
    }
    assert seeds(words, threads=threads) == seeds(words)
    assert seeds({"aaaa": 3, "aa": 2}, threads=threads) == seeds({"aaaa": 3, "aa": 2})


def test_counts_beyond_32_bits_are_exact() -> None:
    [(seed, count)] = seeds({"ab": 3 * 2**60})
    assert (seed, count) == ("ab", 3 * 2**60)
    assert np.iinfo(np.int64).max > count
