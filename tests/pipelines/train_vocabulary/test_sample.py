from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipelines.core.held_out import is_held_out
from pipelines.core.store import Store
from pipelines.core.unigram import lines_of
from pipelines.train_vocabulary.sample import Sample, copies, copies_wanted
from tests.pipelines.train_vocabulary.corpus import texts_of, write

CONFIG = {"held_out_share": 0.1, "seed": 7}


def test_copies_average_to_what_is_wanted() -> None:
    taken = [copies(2.25, 7, "vocabulary", f"d{n}", 0) for n in range(4000)]

    assert set(taken) == {2, 3}
    assert np.mean(taken) == pytest.approx(2.25, abs=0.03)
    assert copies(0.0, 7, "x") == 0
    assert copies(3.0, 7, "x") == 3


def test_the_sample_has_the_shares_of_the_balance_and_no_more_repeats() -> None:
    shares, sizes = {"en": 0.6, "sw": 0.4}, {"en": 900, "sw": 100}

    assert copies_wanted(shares, sizes, 10**9, 4.0) == {
        "en": pytest.approx(0.6 * 1000 / 900),
        "sw": 4.0,
    }
    assert copies_wanted(shares, sizes, 500, 4.0)["sw"] == pytest.approx(0.4 * 500 / 100)


def sample(store: Store, wanted: dict[str, float], texts: dict[str, list[str]]) -> Sample:
    files = {output.labels["language"]: [output.path] for output in write(store, texts)}
    return Sample(store, files, wanted, CONFIG)


def test_lines_are_drawn_as_often_as_wanted_and_the_same_every_time(store: Store) -> None:
    texts = {"en": texts_of("en", 200), "ru": texts_of("ru", 50)}
    drawn = sample(store, {"en": 0.5, "ru": 3.0}, texts)
    found = list(drawn.draw())
    counted = Counter(drawn.counters)

    assert found == list(drawn.draw()) and drawn.counters == counted
    expected = {
        tag: [
            line
            for number, text in enumerate(members)
            if not is_held_out(f"{tag}-{number}", 0.1, 7)
            for line in lines_of(text)
        ]
        for tag, members in texts.items()
    }
    russian = [(line, times) for tag, line, times in found if tag == "ru"]
    assert russian == [(line, 3) for line in expected["ru"]]
    english = [line for tag, line, times in found if tag == "en" and times == 1]
    assert 0.42 < len(english) / len(expected["en"]) < 0.58
    assert set(english) <= set(expected["en"])
    assert counted["sample_lines/ru"] == 3 * len(expected["ru"])
    assert counted["sample_characters/en"] == sum(map(len, english))


def test_split_and_replaced_text_is_counted_by_language(store: Store) -> None:
    texts = {"th": ["กขคง" * 1100 + "\nกข\u2585คง\0"], "en": ["abcd"]}
    drawn = sample(store, {"th": 1.0, "en": 1.0}, texts)
    lines = [line for tag, line, _ in drawn.draw() if tag == "th"]

    assert len(lines) == 5 and "".join(lines[:4]) == "กขคง" * 1100
    assert lines[4] == "กข คง"
    assert {name: drawn.counters[name] for name in sorted(drawn.counters)} == {
        "replaced_characters/th": 2,
        "sample_characters/en": 4,
        "sample_characters/th": 4405,
        "sample_lines/en": 1,
        "sample_lines/th": 5,
        "skipped_bytes/en": 0,
        "skipped_bytes/th": 0,
        "skipped_lines/en": 0,
        "skipped_lines/th": 0,
        "split_lines/en": 0,
        "split_lines/th": 1,
    }
