"""Documents of invented words in several scripts, on a store, and the stage over them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.config import DataConfig
from pipelines.core.manifest import Output, StageRecord
from pipelines.core.records import Document, documents_to_table
from pipelines.core.shards import Attempt
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.rebalance import balance_step, balance_units
from pipelines.train_vocabulary import train_vocabulary

ALPHABETS = {
    "en": "abcdefghij",
    "ru": "абвгдежзик",
    "th": "กขคงจฉชซฌญ",
    "hi": "कखगघचछजझटठ",
    "ja": "あいうえおかきくけこ",
    "he": "אבגדהוזחטי",
}
RUN = "test"


def words_of(language: str, count: int = 150) -> list[str]:
    """Invented words of a language's alphabet."""
    rng = random.Random(language)
    return ["".join(rng.choices(ALPHABETS[language], k=rng.randint(2, 7))) for _ in range(count)]


def texts_of(language: str, count: int, seed: int = 1) -> list[str]:
    """Texts of three lines of twelve words."""
    rng, words = random.Random(f"{language}-{seed}"), words_of(language)
    return [
        "\n".join(" ".join(rng.choices(words, k=12)) + "." for _ in range(3)) for _ in range(count)
    ]


def write(store: Store, texts: Mapping[str, Sequence[str]], files: int = 1) -> list[Output]:
    """Write texts by language as the deduplication stage does, spread over so many files each."""
    attempt = Attempt(store, f"corpus/unique/{files}", "unit")
    for language, members in texts.items():
        for number in range(files):
            chosen = [
                Document(
                    id=f"{language}-{place}",
                    text=text,
                    source="test",
                    url="https://example.org/",
                    shard="shard",
                    offset=place,
                    language=language,
                )
                for place, text in enumerate(members)
                if place % files == number
            ]
            attempt.write_table(
                f"{language}/part-{number}",
                documents_to_table(chosen),
                part="unique",
                language=language,
            )
    return attempt.outputs


def config(**vocabulary: Any) -> DataConfig:
    """A configuration with a small vocabulary; other sections by their name with two underscores
    before the setting, such as balance__alpha."""
    tree: dict[str, Any] = {
        "run": {"name": RUN},
        "sources": [{"kind": "local_files", "paths": ["nothing"]}],
        "balance": {"min_sentences": 1},
        "vocabulary": {"size": 300, "num_threads": 1},
    }
    for name, value in vocabulary.items():
        section, _, setting = name.rpartition("__")
        tree.setdefault(section or "vocabulary", {})[setting] = value
    return DataConfig.model_validate(tree)


def balance(store: Store, settings: DataConfig, texts: Mapping[str, Sequence[str]]) -> Output:
    """The balance table of texts."""
    counters = {}
    for language, members in texts.items():
        counters[f"documents/{language}"] = len(members)
        counters[f"sentences/{language}"] = sum(len(text.split("\n")) for text in members)
        counters[f"characters/{language}"] = sum(map(len, members))
        counters[f"bytes/{language}"] = sum(len(text.encode()) for text in members)
    run = StageRun(store, RUN, inline=True, quiet=True)
    [output] = run.run(balance_step(settings, counters), balance_units([])).outputs
    return output


def run(
    store: Store,
    settings: DataConfig,
    texts: Mapping[str, Sequence[str]],
    files: int = 1,
    rows_at_once: int = 10**6,
    inline: bool = True,
) -> StageRecord:
    """The vocabulary stage over texts."""
    unique = write(store, texts, files)
    stage = StageRun(store, RUN, inline=inline, quiet=True)
    return train_vocabulary(stage, settings, balance(store, settings, texts), unique, rows_at_once)
