"""Documents of a file, batch by batch, as flat ids."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from sentencex import segment

from pipelines.core.hashing import stable_fraction
from pipelines.core.store import Store
from pipelines.pack_sequences.spans import Spans, offsets_of


class RaggedEncoder(Protocol):
    """A vocabulary, of whichever kind."""

    def encode_ragged(
        self, texts: Sequence[str], /
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Ids of all texts, one after the other, shape (total,), and offsets, shape (n + 1,)."""
        ...


CHARACTERS_PER_BATCH = 2**20
"""Text that is encoded at once."""


@dataclass(slots=True)
class Texts:
    """Documents as read."""

    names: list[str]
    texts: list[str]
    languages: list[str]


def read_texts(store: Store, key: str, language: str) -> Iterator[Texts]:
    """Documents of a file in batches of about CHARACTERS_PER_BATCH characters, in its order.

    Raises:
        DamagedObject: the file's bytes are not those that were written.
    """
    for table in store.iterate_tables(key, columns=["id", "text"]):
        names, column = table["id"].to_pylist(), table["text"]
        begin, characters = 0, 0
        texts: list[str] = []
        for scalar in column:
            texts.append(scalar.as_py())
            characters += len(texts[-1])
            if characters >= CHARACTERS_PER_BATCH:
                part = names[begin : begin + len(texts)]
                yield Texts(part, texts, [language] * len(texts))
                begin, characters, texts = begin + len(texts), 0, []
        if texts:
            yield Texts(names[begin:], texts, [language] * len(texts))


def mixed_texts(
    store: Store, files: Sequence[tuple[str, str]], seed: int, rows: Sequence[int]
) -> Iterator[Texts]:
    """Documents of several files, shuffled together: each file's own stay in their order.

    The n-th document of a file of r rows stands at (n + u) / r of the way, with u a stable hash of
    its id: so each language is spread over the whole.

    Args:
        files: (key, language) of each file.
        rows: documents of each file.
    """

    def placed(number: int) -> Iterator[tuple[float, int, int, str, str, str]]:
        (key, language), count = files[number], rows[number]
        n = 0
        for part in read_texts(store, key, language):
            for name, text in zip(part.names, part.texts, strict=True):
                place = (n + stable_fraction(seed, "mix", name)) / count
                yield place, number, n, name, text, language
                n += 1

    batch, characters = Texts([], [], []), 0
    for _, _, _, name, text, language in heapq.merge(*(placed(i) for i in range(len(files)))):
        batch.names.append(name)
        batch.texts.append(text)
        batch.languages.append(language)
        characters += len(text)
        if characters >= CHARACTERS_PER_BATCH:
            yield batch
            batch, characters = Texts([], [], []), 0
    if batch.names:
        yield batch


def encode(vocabulary: RaggedEncoder, batch: Texts, *, sentences: bool) -> Spans:
    """Encode documents.

    Args:
        sentences: note where sentences begin. They are encoded one by one then, and found by the
            language's own rules (sentencex) inside each line.
    """
    firsts = np.zeros(len(batch.names), np.int64)
    if not sentences:
        return Spans(batch.names, firsts, *vocabulary.encode_ragged(batch.texts))
    units: list[str] = []
    counts = []
    for text, language in zip(batch.texts, batch.languages, strict=True):
        before = len(units)
        code = language.split("-")[0]
        for line in text.split("\n"):
            units.extend(part for part in segment(code, line) if part.strip())
        counts.append(len(units) - before)
    tokens, unit_offsets = vocabulary.encode_ragged(units)
    offsets = unit_offsets[offsets_of(counts)]
    # A sentence that has no token begins nothing.
    begins = unit_offsets[:-1][np.diff(unit_offsets) > 0]
    return Spans(batch.names, firsts, tokens, offsets, begins)
