"""What the earlier steps found in the corpus, as the training step reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.core.attempt import Attempt
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Output, read_json
from pipelines.core.shards import Unit
from pipelines.core.store import Store
from pipelines.train_vocabulary.count_job import LowestLines
from pipelines.train_vocabulary.merge import read_plan


@dataclass(frozen=True)
class Corpus:
    """The text that is trained on, and how it is to be mixed."""

    languages: list[str]
    """The plan's; merged tables name a language by its number here."""
    characters: dict[str, Counter[int]]
    """Code points of the normalised words with their counts, by language of the mix."""
    shares: dict[str, float]
    """q_i of these languages; they sum to 1."""
    max_repeats: float

    @property
    def sizes(self) -> dict[str, int]:
        """n_i: characters of words, their marks (one for each blank) among them, by language."""
        return {language: counts.total() for language, counts in self.characters.items()}


def read_corpus(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> Corpus:
    """Read the tables of characters and the balance.

    Languages of the balance that have no words left are noted and counted.

    Raises:
        ConfigError: no language has any.
        DamagedObject: the plan's or a table's bytes are not those that were written.
    """
    plan = read_plan(attempt.store, unit.input(config["plan"]))
    tables = (attempt.store.read_table(key) for key in config["characters"])
    found = characters_by_language(tables, plan.languages)
    q = config["shares"]
    with_words = sorted(tag for tag in q if found.get(tag))
    for tag in sorted(q.keys() - set(with_words)):
        attempt.counters["languages_without_words"] += 1
        attempt.notes.append(
            f"{tag}: no text is left to train the vocabulary on; the other languages share its part"
        )
    if not with_words:
        raise ConfigError(
            "vocabulary: no language of the balance has text to train on; look at the outputs of "
            "deduplication, and at packing.held_out_share"
        )
    whole = sum(q[tag] for tag in with_words)
    return Corpus(
        plan.languages,
        {tag: found[tag] for tag in with_words},
        {tag: q[tag] / whole for tag in with_words},
        config["max_repeats"],
    )


def shares_of(store: Store, balance: Output) -> tuple[dict[str, float], float]:
    """q_i of the vocabulary's sample by language, and the cap on repeats, from a balance table.

    Raises:
        DamagedObject: the table's bytes are not those that were written.
    """
    table = read_json(store, balance)
    rows = table["vocabulary"]["rows"]
    return {row["language"]: float(row["q"]) for row in rows}, float(table["max_repeats"])


def characters_by_language(
    tables: Iterable[pa.Table], languages: Sequence[str]
) -> dict[str, Counter[int]]:
    """Code points with their counts, by language, from the merge's tables of characters."""
    found: dict[str, Counter[int]] = {language: Counter() for language in languages}
    for table in tables:
        columns = (table[name].to_pylist() for name in ("language", "code_point", "count"))
        for number, point, count in zip(*columns, strict=True):
            found[languages[number]][point] += count
    return found


def held_out_lines(store: Store, files: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """(language, line) of the held-out lines that the report is made of.

    Args:
        files: the counting step's tables of held-out lines, by language.
    """
    for language in sorted(files):
        lowest = LowestLines()
        for key in files[language]:
            table = store.read_table(key)
            for name, line in zip(table["key"].to_pylist(), table["line"].to_pylist(), strict=True):
                lowest.offer(name, line)
        for _, line in lowest.lines():
            yield language, line
