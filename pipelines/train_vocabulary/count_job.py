"""Work of the counting step: the words of one file of documents, and lines kept for the report.

Documents that packing may hold out are not counted: the vocabulary is not trained on them, and its
report is made of their lines.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
from sentencepiece import SentencePieceNormalizer

from pipelines.config import DataConfig
from pipelines.core.attempt import Attempt
from pipelines.core.hashing import stable_uint64
from pipelines.core.held_out import held_out_of_file
from pipelines.core.manifest import FileRef, read_verified
from pipelines.core.shards import Unit
from pipelines.core.store import Store, local_file
from pipelines.core.unigram import lines_of
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import Cleaning, WordPieceVocabulary
from pipelines.train_vocabulary.bert_words import count_bert_words
from pipelines.train_vocabulary.normalizer import (
    UNNAMED,
    model_normalizer,
    rules_of,
    word_normalizer,
)
from pipelines.train_vocabulary.word_counts import count_words
from pipelines.train_vocabulary.word_tables import hashed, merged, summed, write_words

ROWS_IN_MEMORY = 1 << 21
"""Distinct words that are counted in memory before they go to the local disk."""
NEVER_IN_PIECES = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u2585]")
"""Control characters, and the one that SentencePiece uses itself: words end there."""
REPORT_LINES = 2000
"""Held-out lines of a language that the report is made of."""

HELD_OUT_SCHEMA = pa.schema(
    [
        pa.field("key", pa.uint64(), nullable=False),
        pa.field("line", pa.large_string(), nullable=False),
    ]
)


def count_settings(
    config: DataConfig, adopted: Vocabulary | WordPieceVocabulary | None = None
) -> dict[str, Any]:
    """What the counts of a file depend on; neither q_i nor the vocabulary's size is among it.

    Args:
        adopted: the vocabulary that the words are counted for, where none is trained.
    """
    section = config.vocabulary
    read: dict[str, Any] = {
        "kind": section.kind,
        "held_out_share": config.packing.held_out_share,
        "seed": config.run.seed,
    }
    if adopted is not None:
        return read | rules_of(adopted)
    if section.kind == "unigram":
        return read | {"normalization": section.normalization}
    return read | {"lowercase": section.lowercase}


def count_texts(
    texts: Iterable[str],
    config: Mapping[str, Any],
    rules: SentencePieceNormalizer | None = None,
) -> pa.Table:
    """Words of texts with their counts, each text once: columns `word`, `count`.

    Args:
        rules: of a Unigram vocabulary whose normalisation has no name.
    """
    if config["kind"] == "wordpiece":
        cleaning = Cleaning(**config["cleaning"]) if "cleaning" in config else None
        return count_bert_words(texts, config["lowercase"], cleaning)
    return count_words(texts, rules or word_normalizer(config["normalization"]))


def unnamed_rules(unit: Unit, config: Mapping[str, Any], store: Store) -> Any:
    """The rules of the vocabulary that the words are counted for, where they have no name."""
    if not config.get("normalization", "").startswith(UNNAMED):
        return None
    model = read_verified(store, FileRef.model_validate(unit.arguments["adopted"]))
    return model_normalizer(model)


def count_file(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Count the words of one file of documents of one language.

    Outputs: a table of words (word_tables.py), and the lines of held-out documents that could be
    among the REPORT_LINES of the language with the lowest keys.
    """
    language, [ref] = unit.arguments["language"], unit.inputs
    counters, lines = attempt.counters, LowestLines()
    share, seed = config["held_out_share"], config["seed"]
    rules = unnamed_rules(unit, config, attempt.store)
    held_out = held_out_of_file(attempt.store, ref.path, share, seed)
    with ExitStack() as stack:
        runs = Runs(stack)
        for table in attempt.store.iterate_tables(ref.path, columns=["id", "text"]):
            counted = []
            texts = zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True)
            for name, text in texts:
                if name in held_out:
                    counters[f"held_out_documents/{language}"] += 1
                    for number, line in enumerate(lines_of(text)):
                        lines.offer(stable_uint64(config["seed"], "report", name, number), line)
                    continue
                counted.append(text)
                counters[f"documents/{language}"] += 1
                counters[f"lines/{language}"] += sum(
                    1 for _ in filter(str.strip, text.splitlines())
                )
                counters[f"characters/{language}"] += len(text)
                counters[f"bytes/{language}"] += len(text.encode("utf-8"))
                if left_out := len(NEVER_IN_PIECES.findall(text)):
                    counters[f"replaced_characters/{language}"] += left_out
            runs.add(hashed(count_texts(counted, config, rules)))
        path = stack.enter_context(local_file(".parquet"))
        rows = write_words(path, runs.parts())
        name = f"{language}/words-{attempt.unit_id}.parquet"
        attempt.write_file(name, path, part="words", language=language, rows=str(rows))
    if kept := lines.lines():
        columns = [[key for key, _ in kept], [line for _, line in kept]]
        table = pa.table(columns, schema=HELD_OUT_SCHEMA)
        name = f"{language}/held-out-{attempt.unit_id}"
        attempt.write_table(name, table, part="held-out", language=language)


class Runs:
    """Sorted tables that are summed as they come, on the local disk when they grow."""

    def __init__(self, stack: ExitStack, rows_in_memory: int = ROWS_IN_MEMORY) -> None:
        self._stack, self._most = stack, rows_in_memory
        self._tables: list[pa.Table] = []
        self._rows = self._summed_rows = 0
        self._files: list[Path] = []
        self._file_rows = 0

    def add(self, table: pa.Table) -> None:
        """Take one more table in."""
        self._tables.append(table)
        self._rows += table.num_rows
        # Summing again and again costs time: wait until the new rows are as many as the old ones.
        if self._rows > 2 * max(self._summed_rows, self._most // 4):
            self._sum()
            if self._rows > self._most:
                self._spill()

    def _sum(self) -> None:
        self._tables = [summed(self._tables)] if self._tables else []
        self._rows = self._summed_rows = sum(table.num_rows for table in self._tables)

    def _spill(self) -> None:
        path = self._stack.enter_context(local_file(".parquet"))
        self._file_rows += write_words(path, self._tables)
        self._files.append(path)
        self._tables, self._rows, self._summed_rows = [], 0, 0

    def parts(self) -> Iterator[pa.Table]:
        """The sum of all tables, as sorted parts that follow one another."""
        self._sum()
        if not self._files:
            yield from self._tables
            return
        self._spill()
        yield from merged(self._files, self._file_rows, self._most)


class LowestLines:
    """The lines with the lowest keys of those that come, in whatever order they come."""

    def __init__(self, most: int = REPORT_LINES) -> None:
        self._kept: list[tuple[int, str]] = []  # (-key, line), a heap
        self._most = most

    def offer(self, key: int, line: str) -> None:
        """Offer one line with its key."""
        entry = (-key, line)
        if len(self._kept) < self._most:
            heapq.heappush(self._kept, entry)
        elif entry > self._kept[0]:
            heapq.heapreplace(self._kept, entry)

    def lines(self) -> list[tuple[int, str]]:
        """(key, line), lowest key first."""
        return sorted((-key, line) for key, line in self._kept)
