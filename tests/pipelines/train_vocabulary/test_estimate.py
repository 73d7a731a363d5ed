from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.train_vocabulary.estimate import (
    available_memory,
    check_memory,
    duration,
    estimate,
    largest,
    memory_limit,
    method_of,
    round_down,
)


def section(**settings: Any) -> VocabularySection:
    return VocabularySection.model_validate({"size": 8000, "num_threads": 2, **settings})


METHODS: dict[str, dict[str, Any]] = {
    "lines": {"train_on": "lines"},
    "words": {"train_on": "words"},
    "wordpiece": {"kind": "wordpiece"},
}

CHILD = """
import json, sys
from pathlib import Path
import pyarrow as pa
from pipelines.config import VocabularySection
from pipelines.train_vocabulary import make
from pipelines.train_vocabulary.wordpiece_trainer import train_wordpiece
from tests.peak_memory import peak_megabytes

section = VocabularySection.model_validate_json(sys.argv[1])
peaks = []
for path in map(Path, sys.argv[2:]):
    if section.train_on == "lines":
        make.train_on_lines(path, section)
    else:
        rows = [line.split("\\t") for line in path.read_text(encoding="utf-8").splitlines()]
        words = pa.table({"word": [row[0] for row in rows], "count": [int(row[1]) for row in rows]})
        del rows
        if section.kind == "wordpiece":
            train_wordpiece(words, section, "abcdefghijklmnopqrstuvwxyz")
        else:
            make.train_on_words(words, section)
        del words
    peaks.append(peak_megabytes() * 1e6)
print(json.dumps(peaks))
"""


def peaks(settings: VocabularySection, paths: Sequence[Path]) -> list[float]:
    """Peak memory of a process of its own after each training, in bytes; the smallest first."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, settings.model_dump_json(), *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(value) for value in json.loads(done.stdout)]


def invented_words(count: int) -> list[str]:
    rng = random.Random(4)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    syllables = ["".join(rng.choices(letters[:20], k=rng.randint(1, 3))) for _ in range(700)]
    found: set[str] = set()
    while len(found) < count:
        found.add("".join(rng.choices(syllables, k=rng.randint(2, 6))))
    return rng.sample(sorted(found), count)


def written(path: Path, method: str, count: int) -> int:
    """Write invented text of so many words, or lines; returns the characters that count."""
    if method == "lines":
        rng, words = random.Random(5), invented_words(10_000)
        lines = [" ".join(rng.choices(words, k=12)) for _ in range(count)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return sum(map(len, lines))
    mark, words = "▁" if method == "words" else "", invented_words(count)
    pairs = [f"{mark}{word}\t{10**6 // (place + 1) + 1}" for place, word in enumerate(words)]
    path.write_text("\n".join(pairs) + "\n", encoding="utf-8")
    return sum(len(mark) + len(word) for word in words)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("method", "counts"),
    [("lines", (4000, 12_000)), ("words", (25_000, 45_000)), ("wordpiece", (10_000, 30_000))],
)
def test_the_estimate_is_near_the_peak_of_a_process(
    tmp_path: Path, method: str, counts: tuple[int, int]
) -> None:
    settings = section(**METHODS[method], size=4000)
    paths = [tmp_path / str(count) for count in counts]
    characters = [written(*each) for each in zip(paths, (method, method), counts, strict=True)]
    few, many = (estimate(settings, number).memory_bytes for number in characters)

    less, more = peaks(settings, paths)
    assert 1 / 1.3 < less / few < 1.3
    assert 1 / 1.3 < more / many < 1.3
    # Memory grows with the text: the part that does not grow cannot hide it. It grows faster than
    # the line for words, whose first 100,000 cost more than the next.
    assert (more - less) / (many - few) > 1 / 2


@pytest.mark.parametrize("method", METHODS)
def test_what_fits_fits_and_a_little_more_does_not(method: str) -> None:
    settings = section(**METHODS[method])
    for limit in (1e9, 16e9, 1e12):
        most = largest(settings, limit)
        assert estimate(settings, most).memory_bytes <= limit + 1
        assert estimate(settings, most + 10_000).memory_bytes > limit
    assert largest(settings, 1e6) == 0
    assert method_of(settings) == method


def test_a_refusal_has_the_numbers_and_a_setting_that_fits() -> None:
    lines = section(train_on="lines")
    with pytest.raises(
        ConfigError, match=r"600,000,000 characters of sample needs about \d\d\.\d GB .* is 4\.0 GB"
    ) as failure:
        check_memory(lines, 600_000_000, 0, 4e9, "the limit")
    fits = int(str(failure.value).split("sample_characters = ")[1].split()[0])
    assert 100_000_000 < fits < 200_000_000
    assert check_memory(lines, fits, 0, 4e9, "the limit").memory_bytes <= 4e9

    words = section()
    with pytest.raises(
        ConfigError, match=r"in distinct words .*set vocabulary\.max_words = "
    ) as failure:
        check_memory(words, 220_000_000, 20_000_000, 2e9, "the limit")
    fits = int(str(failure.value).split("max_words = ")[1].split()[0])
    assert check_memory(words, fits * 11, fits, 2e9, "the limit").memory_bytes <= 2e9
    with pytest.raises(ConfigError, match=r"is 0\.001 GB; give it more memory"):
        check_memory(words, 1000, 100, 1e6, "the limit")


def test_the_limit_is_the_setting_or_what_the_machine_has() -> None:
    free = available_memory(Path("/nonexistent"))
    assert 0 < free <= psutil.virtual_memory().total
    assert memory_limit(section(max_memory_gb=0.001)) == (1e6, "vocabulary.max_memory_gb")
    limit, whose = memory_limit(section(max_memory_gb=1e6))
    assert limit <= psutil.virtual_memory().total and "machine" in whose


def test_a_container_s_limit_counts_and_its_cache_does_not(tmp_path: Path) -> None:
    for name, content in {
        "memory.max": "30000000\n",
        "memory.current": "25000000\n",
        "memory.stat": "anon 1\ninactive_file 4000000\nactive_file 7\n",
    }.items():
        (tmp_path / name).write_text(content)
    assert available_memory(tmp_path) == 9_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path) > 30_000_000
    old = tmp_path / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("20000000")
    (old / "memory.usage_in_bytes").write_text("21000000")
    (old / "memory.stat").write_text("total_inactive_file 5\n")
    assert available_memory(tmp_path) == 0


def test_numbers_for_people() -> None:
    assert [round_down(value) for value in (0, 7, 99, 123, 187_654_321)] == [
        0,
        7,
        99,
        120,
        180_000_000,
    ]
    assert [duration(seconds) for seconds in (5, 89, 600, 7200)] == [
        "5 s",
        "89 s",
        "10 min",
        "2.0 h",
    ]
