from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.filters.repetition import duplicate_shares, ngram_shares, units_in
from tests.pipelines.filters.pages import document, judged, reason

SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 10]


def brute_force(words: list[str], n: int) -> tuple[float, float]:
    """Top and duplicate shares by the definition, one n-gram after the other."""
    grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    whole = sum(map(len, words))
    counts = Counter(grams)
    most = max(counts.values(), default=0)
    top: set[int] = set()
    if most > 1:
        among = [gram for gram in counts if counts[gram] == most]
        best = max(among, key=lambda gram: sum(map(len, gram)))  # the first of equals
        top = {i + k for i, gram in enumerate(grams) if gram == best for k in range(n)}
    again = {i + k for i, gram in enumerate(grams) if gram in grams[:i] for k in range(n)}
    return tuple(sum(len(words[i]) for i in places) / whole for places in (top, again))  # type: ignore[return-value]


def shares(words: list[str], sizes: list[int], harmless: float = 0.0):
    """Top and duplicate shares by size; a share that was left out is missing."""
    numbers = {word: i for i, word in enumerate(dict.fromkeys(words))}
    ids = np.array([numbers[word] for word in words])
    lengths = np.array([len(word) for word in words])
    none: set[int] = set()
    tops = dict(ngram_shares(ids, lengths, set(sizes), none, harmless))
    duplicates = dict(ngram_shares(ids, lengths, none, set(sizes), harmless))
    assert tops.keys() == duplicates.keys()
    return {n: (tops[n], duplicates[n]) for n in tops}


@given(st.lists(st.sampled_from(["a", "bb", "ccc", "dd"]), min_size=1, max_size=60))
def test_ngram_shares_are_those_of_the_definition(words: list[str]) -> None:
    found = shares(words, SIZES)
    for n in SIZES:
        assert found.get(n, (0.0, 0.0)) == pytest.approx(brute_force(words, n)), n


@given(
    st.lists(st.sampled_from(["a", "bb", "ccc", "dd", "e", "f"]), min_size=1, max_size=60),
    st.floats(0, 1),
)
def test_what_is_left_out_early_is_harmless(words: list[str], harmless: float) -> None:
    found = shares(words, SIZES, harmless)
    for n in set(SIZES) - set(found):
        assert max(brute_force(words, n)) <= harmless


def test_known_shares() -> None:
    words = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "one",
        "two",
        "three",
        "four",
        "five",
        "seven",
    ]
    found = shares(words, [2, 5, 6])
    # 46 characters: one 3, two 3, three 5, four 4, five 4 = 19; twice 38; six 3, seven 5
    assert sum(map(len, words)) == 46
    assert found[5] == (38 / 46, 19 / 46)
    assert 6 not in found or found[6] == (0.0, 0.0)
    assert found[2] == (2 * 9 / 46, 19 / 46)  # "three four", the longest of those that occur twice


def test_an_ngram_that_overlaps_itself_covers_its_characters_once() -> None:
    assert shares(["ha"] * 4, [2])[2] == (1.0, 0.75)


def test_duplicate_parts_are_counted_by_number_and_by_characters() -> None:
    assert duplicate_shares(["aaaa", "aaaa"]) == (0.5, 0.5)
    assert duplicate_shares(["a", "a", "bbbbbb"]) == (pytest.approx(1 / 3), 0.125)
    assert duplicate_shares([]) == (0.0, 0.0)


def varied(words: int) -> str:
    return " ".join(f"w{number}" for number in range(words))


def test_repeated_lines_and_paragraphs_reach_their_thresholds() -> None:
    lines = [f"{varied(3)} line{i}" for i in range(7)]
    three_of_ten = "\n".join([*lines, lines[0], lines[1], lines[2]])
    settings = {
        "max_duplicate_line_characters": 1,
        "max_top_ngram": [1, 1, 1],
        "max_duplicate_ngrams": [1] * 6,
    }
    assert reason(three_of_ten, "repetition", **settings) is None  # exactly 0.3
    assert reason(f"{three_of_ten}\n{lines[3]}", "repetition", **settings) == "duplicate_lines"
    settings["max_duplicate_line_characters"] = 0.2
    assert reason(three_of_ten, "repetition", **settings) == "duplicate_line_characters"
    paragraph = "aaaa bbbb\n\naaaa bbbb"
    settings |= {"max_duplicate_lines": 1, "max_duplicate_line_characters": 1}
    assert reason(paragraph, "repetition", **settings) == "duplicate_paragraphs"
    settings["max_duplicate_paragraphs"] = 0.5
    assert reason(paragraph, "repetition", **settings) == "duplicate_paragraph_characters"


def test_repeated_ngrams_name_their_figure() -> None:
    page = document(f"{varied(40)} {'buy now ' * 20}")
    found, _ = judged(page, "repetition")
    assert found == "top_ngram"
    # w0..w9: 10 x 2, w10..w39: 30 x 3 = 110; "buy now" 6 x 20 = 120
    assert found.because == "share of characters in the most frequent 2-gram 0.5217 > 0.2"
    phrase = "alpha beta gamma delta epsilon"
    found, _ = judged(document(f"{phrase} {varied(20)} {phrase}"), "repetition")
    assert found == "top_ngram"
    found, _ = judged(
        document(f"{phrase} {varied(20)} {phrase}"), "repetition", max_top_ngram=[1, 1, 1]
    )
    assert found == "duplicate_ngrams"
    assert found.because == "share of characters in duplicate 5-grams 0.2549 > 0.15"  # 26 of 102


def test_the_settings_of_each_size_are_its_own() -> None:
    phrase = "alpha beta gamma delta epsilon zeta"
    text = f"{phrase} {varied(20)} {phrase}"
    loose = [1.0] * 6
    for place in range(6):
        strict = [*loose[:place], 0.01, *loose[place + 1 :]]
        expected = "duplicate_ngrams" if place <= 1 else None  # 5 and 6 words
        assert (
            reason(text, "repetition", max_top_ngram=[1, 1, 1], max_duplicate_ngrams=strict)
            == expected
        )


def test_scripts_without_blanks_scale_the_sizes() -> None:
    assert [units_in(n, 1.5) for n in (2, 3, 4, 5)] == [3, 5, 6, 8]
    assert [units_in(n, 1.0) for n in SIZES] == SIZES
    phrase = "春眠不觉晓处处闻啼鸟"
    other = "".join(chr(0x4E00 + 3 * i) for i in range(60))
    found, _ = judged(
        document(f"{phrase}{other}{phrase}", "zh-Hans"), "repetition", max_top_ngram=[1, 1, 1]
    )
    assert found is None  # 10 of 80 characters
    found, _ = judged(
        document(f"{phrase}{other}{phrase}", "zh-Hans"),
        "repetition",
        max_top_ngram=[1, 1, 1],
        max_duplicate_ngrams=[0.1, *[1] * 5],
    )
    assert found.because == "share of characters in duplicate 5-grams 0.125 > 0.1"
    assert reason("ที่นี่" * 40, "repetition", "th") == "top_ngram"


def test_ordinary_text_passes_and_a_text_without_words_does_not() -> None:
    assert reason(varied(200), "repetition") is None
    assert reason("a", "repetition") is None
    assert reason(" -- \n\n ...", "repetition") == "no_words"
