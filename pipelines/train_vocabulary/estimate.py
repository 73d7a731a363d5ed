"""What training a vocabulary will need, before it starts: memory, time, and the largest input that
fits.

The figures are fits to measurements with sentencepiece 0.2.3 and tokenizers 0.23; tests compare
them with the peak of a process that trains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError

Method = Literal["lines", "words", "wordpiece"]


@dataclass(frozen=True)
class Cost:
    """Peak memory and time as straight lines."""

    base_bytes: float
    """Of a process that has loaded what it needs."""
    bytes_per_piece: float
    bytes_per_character: float
    """Characters of the sample, or of all distinct words together."""
    seconds_per_million: float
    """On two threads, for a million such characters."""


COSTS: dict[Method, Cost] = {
    "lines": Cost(120e6, 0.0, 24.0, 0.6),
    "words": Cost(280e6, 300.0, 85.0, 3.5),
    "wordpiece": Cost(210e6, 0.0, 115.0, 3.0),
}
"""Measured on help pages in 35 languages, loaded modules (100 MB) included. lines: 1.7, 6.8 and 69
million characters 165, 280 and 1,760 MB. words: 150,000 words for 30,000 pieces 440 MB, 589,000 for
250,000 890 MB. wordpiece: 60,000, 200,000 and 800,000 invented words 280, 370 and 950 MB."""

CHARACTERS_PER_WORD = 11.0
"""Of a distinct word of a large corpus, on average; only where nothing is counted yet."""
GB = 1e9


@dataclass(frozen=True)
class Estimate:
    """What a training needs."""

    method: Method
    characters: int
    """What it depends on: characters of the sample, or of all distinct words together."""
    memory_bytes: int
    seconds: float

    @property
    def text(self) -> str:
        """One sentence for a person."""
        what = "of sample" if self.method == "lines" else "in distinct words"
        return (
            f"training the vocabulary on {self.characters:,} characters {what} needs about "
            f"{gigabytes(self.memory_bytes)} of memory and {duration(self.seconds)}"
        )


def method_of(section: VocabularySection) -> Method:
    """What a section trains on."""
    if section.kind == "wordpiece":
        return "wordpiece"
    return section.train_on


def estimate(section: VocabularySection, characters: int) -> Estimate:
    """Memory and time of a training.

    Args:
        characters: of the drawn lines with train_on = "lines", each as often as it is drawn; of
            all distinct words together otherwise, each once.
    """
    method = method_of(section)
    cost = COSTS[method]
    memory = fixed_bytes(section) + cost.bytes_per_character * characters
    threads = min(section.num_threads, 2) / 2
    return Estimate(
        method, characters, round(memory), 5 + cost.seconds_per_million * characters / 1e6 / threads
    )


def fixed_bytes(section: VocabularySection) -> float:
    """Memory that does not depend on the text."""
    cost = COSTS[method_of(section)]
    return cost.base_bytes + cost.bytes_per_piece * section.size


def largest(section: VocabularySection, limit_bytes: float) -> int:
    """The most characters (of sample, or in distinct words) that `limit_bytes` are enough for."""
    cost = COSTS[method_of(section)]
    return max(0, int((limit_bytes - fixed_bytes(section)) / cost.bytes_per_character))


def check_memory(
    section: VocabularySection, characters: int, words: int, limit_bytes: float, whose: str
) -> Estimate:
    """Refuse a training that does not fit.

    Args:
        characters: see `estimate`.
        words: distinct words of them; not used with train_on = "lines".
        limit_bytes: memory that training may need.
        whose: where the limit comes from, for people.

    Raises:
        ConfigError: with what is needed, what there is, and the largest setting that fits.
    """
    found = estimate(section, characters)
    if found.memory_bytes <= limit_bytes:
        return found
    fits = largest(section, limit_bytes)
    setting, value = "sample_characters", fits
    if found.method != "lines":
        setting, value = "max_words", fits * words // max(characters, 1)
    value = round_down(value)
    cure = f"set vocabulary.{setting} = {value} or less, or " if value else ""
    raise ConfigError(
        f"vocabulary: {found.text}; {whose} is {gigabytes(limit_bytes)}; {cure}give it more memory"
    )


def check_least_memory(section: VocabularySection) -> None:
    """Refuse a limit that no text, however small, could be trained in.

    Raises:
        ConfigError: vocabulary.max_memory_gb is below what the trainer needs without any text.
    """
    limit, least = section.max_memory_gb, fixed_bytes(section)
    if limit is not None and limit * GB < least:
        raise ConfigError(
            f"vocabulary.max_memory_gb = {limit:g}: training {section.size:,} pieces needs "
            f"{gigabytes(least)} of memory before any text is counted, and the limit is "
            f"{gigabytes(limit * GB)}; set it above {math.ceil(least / GB * 10) / 10:g}"
        )


def round_down(value: int) -> int:
    """The two leading digits of a number, for settings that people type."""
    power = int(10 ** max(len(str(value)) - 2, 0))
    return value // power * power


def memory_limit(section: VocabularySection) -> tuple[float, str]:
    """Memory that training may need, in bytes, and where the number comes from."""
    machine = available_memory()
    if section.max_memory_gb is not None and section.max_memory_gb * GB <= machine:
        return section.max_memory_gb * GB, "vocabulary.max_memory_gb"
    return machine, "the memory that is free on this machine"


def available_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> float:
    """Bytes that a process can still have here: free memory, within the container's limit."""
    free = float(psutil.virtual_memory().available)
    for limit, used, stat in (
        ("memory.max", "memory.current", "memory.stat"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
        ),
    ):
        try:
            most = int((cgroups / limit).read_text())
            now = int((cgroups / used).read_text())
            lines = (cgroups / stat).read_text().split("\n")
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
        # Files that were read count as used, and are given up before anything is refused.
        files = [int(line.split()[1]) for line in lines if line.startswith("inactive_file ")]
        free = min(free, float(max(most - now + sum(files), 0)))
    return free


def gigabytes(count: float) -> str:
    """Bytes in 10^9 bytes, with as many decimals as a small number needs."""
    number = count / GB
    return f"{number:.1f} GB" if number >= 0.1 or not number else f"{number:.2g} GB"


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
