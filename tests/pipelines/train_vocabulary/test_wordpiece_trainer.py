from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pytest

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.train_vocabulary.usage import count_ids_of_words
from pipelines.train_vocabulary.wordpiece_trainer import (
    scaled,
    train_wordpiece,
    wordpiece_vocabulary,
)

SYLLABLES = ["ka", "lo", "mi", "ter", "an", "ge", "stu", "ра", "но", "ті", "漢", "字"]


def counted_words(count: int = 3000) -> pa.Table:
    """Words of syllables with few different counts, so that many pairs are equally frequent."""
    rng = random.Random(1)
    words = sorted({"".join(rng.choices(SYLLABLES, k=rng.randint(1, 5))) for _ in range(count)})
    return table({word: rng.randint(1, 3) for word in words})


def table(counts: dict[str, int]) -> pa.Table:
    words, values = pa.array(list(counts), pa.string()), pa.array(list(counts.values()), pa.int64())
    return pa.table({"word": words, "count": values})


def section(size: int = 700, threads: int = 1) -> VocabularySection:
    return VocabularySection(kind="wordpiece", size=size, num_threads=threads)


ALPHABET = "".join(sorted(set("".join(SYLLABLES))))


def test_pieces_are_joined_by_frequency_as_by_hand() -> None:
    """low x5, lower x2, newest x6, widest x3: the example of Sennrich et al. 2016, figure 1."""
    words = table({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    letters = sorted(set("lowernewestwidest"))
    size = 2 * len(letters) + 3
    vocab = train_wordpiece(
        words, section(100).model_copy(update={"size": size + 3}), "".join(letters)
    )
    joined = [piece for piece in vocab if piece not in {*letters, *("##" + c for c in letters)}]
    # e-s (9), es-t (9); then l-o (7) or o-w (7): of equal pairs the one whose letters come first.
    assert joined[:2] == ["##es", "##est"]
    assert joined[2] in ("lo", "##ow")
    assert len(vocab) == size


def test_counts_count() -> None:
    few, many = {"abab": 1, "cdcd": 1000}, {"abab": 1000, "cdcd": 1}
    for counts, piece in ((few, "cd"), (many, "ab")):
        size = 2 * 4 + 1 + 3
        vocab = train_wordpiece(table(counts), section().model_copy(update={"size": size}), "abcd")
        assert [found for found in vocab if len(found.removeprefix("##")) > 1] in (
            [piece],
            ["##" + piece],
            ["##" + piece[::-1]],
        )


PROGRAM = """
import sys
from tests.pipelines.train_vocabulary.test_wordpiece_trainer import checksum
print(checksum(int(sys.argv[1])))
"""


def checksum(threads: int) -> str:
    vocab = train_wordpiece(counted_words(), section(threads=threads), ALPHABET)
    return hashlib.sha256(json.dumps(vocab).encode()).hexdigest()


def test_processes_and_threads_give_the_same_vocabulary() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, threads],
            env={**os.environ, "RAYON_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert found == {checksum(1) + "\n"}


def test_only_the_alphabet_gets_pieces() -> None:
    words = table({"abx": 50, "ab": 50, "xyz": 50})
    vocab = train_wordpiece(words, section().model_copy(update={"size": 8}), "ab")
    assert list(vocab) == ["a", "b", "##a", "##b", "ab"]


def test_a_size_that_does_not_fit_is_refused_with_what_does() -> None:
    words = counted_words()
    with pytest.raises(ConfigError, match=r"size = 30: the text has 21 characters .* above 42"):
        train_wordpiece(words, section().model_copy(update={"size": 30}), ALPHABET)
    with pytest.raises(ConfigError, match=r"size = 100000: .* at most (\d+) pieces") as failure:
        train_wordpiece(words, section(100_000), ALPHABET)
    most = int(str(failure.value).split("at most ")[1].split()[0])
    assert len(train_wordpiece(words, section(most), ALPHABET)) == most - 3
    with pytest.raises(ConfigError, match=f"at most {most} pieces"):
        train_wordpiece(words, section(most + 1), ALPHABET)


def test_large_counts_are_scaled_without_favour() -> None:
    words = table({f"word{n}": 1 + n % 7 for n in range(50_000)})
    counts = scaled(words, 20_000)
    whole = sum(words["count"].to_pylist())
    assert sum(counts.tolist()) == pytest.approx(20_000, rel=0.03)
    by_count: Counter[int] = Counter()
    for count, taken in zip(words["count"].to_pylist(), counts.tolist(), strict=True):
        by_count[count] += taken
    for count in range(1, 8):
        expected = count * (50_000 / 7) * 20_000 / whole
        assert by_count[count] == pytest.approx(expected, rel=0.15)
    assert scaled(words, 10**9).tolist() == words["count"].to_pylist()


def test_ids_are_counted_with_the_words_weights() -> None:
    words = counted_words()
    vocabulary = wordpiece_vocabulary(train_wordpiece(words, section(), ALPHABET), False)
    by_id = count_ids_of_words(vocabulary, words)

    expected: Counter[int] = Counter()
    for word, count in zip(words["word"].to_pylist(), words["count"].to_pylist(), strict=True):
        for number in vocabulary.encode(word).tolist():
            expected[number] += count
    assert {number: count for number, count in enumerate(by_id.tolist()) if count} == expected
