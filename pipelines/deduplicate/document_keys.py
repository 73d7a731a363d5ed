"""Keys of one shard's documents: the whole, its paragraphs, and its MinHash bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.config import DeduplicationSection
from pipelines.core.attempt import Attempt
from pipelines.core.manifest import Counters
from pipelines.core.records import split_paragraphs
from pipelines.core.shards import Unit
from pipelines.deduplicate.minhash import (
    WordHashes,
    band_keys,
    bands_of,
    shingle_hashes,
    signatures,
)
from pipelines.deduplicate.normalise import document_key, key_of, normalise, words
from pipelines.deduplicate.sorted_output import sorted_output
from pipelines.deduplicate.sorted_records import RECORD, Records, empty

DOCUMENT, BAND, PARAGRAPH = 0, 1, 2
"""Kinds of keys: the two highest bits of `low`, so that no key of one kind equals another's."""

KIND_SHIFT = np.uint64(62)
LARGEST = np.uint32(2**32 - 1)
"""The value of a document that always survives: one of the base run."""

BATCH_CHARACTERS = 2**20
COLUMNS = ["text", "language", "language_score"]

U32 = npt.NDArray[np.uint32]


def kind_of(records: Records) -> npt.NDArray[np.uint64]:
    """DOCUMENT, BAND or PARAGRAPH for each record."""
    return np.asarray(records["low"] >> KIND_SHIFT, dtype=np.uint64)


def preferences(keep: str, texts: Sequence[str], scores: npt.NDArray[np.float32]) -> U32:
    """How much each document is to be kept: of a cluster, the largest value survives."""
    if keep == "longest":
        return np.array([min(len(text), 2**32 - 2) for text in texts], dtype=np.uint32)
    if keep == "highest_score":  # bits of floats that are not negative rise with the floats
        return np.maximum(scores, np.float32(0)).view(np.uint32)
    return np.zeros(len(texts), dtype=np.uint32)


class KeyMaker:
    """Makes the keys of documents, batch after batch, in the order of their rows."""

    def __init__(self, section: DeduplicationSection, counters: Counters) -> None:
        self.section, self.counters = section, counters
        self.bands, _ = bands_of(section.near)
        self.word_hashes = WordHashes()
        self.row = 0

    def keys(
        self, texts: Sequence[str], languages: Sequence[str], scores: npt.NDArray[np.float32]
    ) -> Records:
        """Records of the next documents: row = the document's, value = its preference.

        For paragraphs, value is the paragraph's number inside the document.
        """
        kinds: dict[int, list[tuple[int, bytes]]] = {DOCUMENT: [], PARAGRAPH: []}
        places: list[int] = []
        preferred = preferences(self.section.keep, texts, scores)
        compared: list[tuple[int, list[str]]] = []
        for position, text in enumerate(texts):
            paragraphs = split_paragraphs(text)
            if not paragraphs:
                self.counters["empty_documents"] += 1
                continue
            normalised = [normalise(part, self.section.ignore_digits) for part in paragraphs]
            kinds[DOCUMENT].append((position, document_key(paragraphs)))
            if self.section.paragraphs:
                kinds[PARAGRAPH] += [(position, key_of(part)) for part in normalised]
                places += range(len(normalised))
            if self.section.near.enabled:
                units = words(" ".join(normalised))
                if len(units) < self.section.near.shingle_words:
                    self.counters["too_short_to_compare"] += 1
                    self.counters[f"too_short_to_compare/{languages[position]}"] += 1
                else:
                    compared.append((position, units))
        parts = [self._exact(kind, found) for kind, found in kinds.items()]
        parts[1]["value"] = places
        rows = [part["row"] for part in parts]
        parts[0]["value"] = preferred[rows[0]]
        near = self._near(compared)
        near["value"] = preferred[near["row"]]
        records: Records = np.concatenate([*parts, near])
        records["row"] += np.uint32(self.row)
        self.row += len(texts)
        self.counters["documents"] += len(texts)
        self.counters["paragraph_keys"] += len(parts[1])
        self.counters["band_keys"] += len(near)
        return records

    def _exact(self, kind: int, found: Sequence[tuple[int, bytes]]) -> Records:
        halves = np.frombuffer(b"".join(key for _, key in found), "<u8").reshape(-1, 2)
        records = np.zeros(len(found), RECORD)
        records["key"] = halves[:, 0]
        records["low"] = with_kind(halves[:, 1], kind)
        records["row"] = [position for position, _ in found]
        return records

    def _near(self, compared: Sequence[tuple[int, list[str]]]) -> Records:
        if not compared:
            return empty()
        near = self.section.near
        shingles, offsets = shingle_hashes(
            [units for _, units in compared], near.shingle_words, self.word_hashes
        )
        key, low = band_keys(signatures(shingles, offsets, near.hashes), self.bands)
        records = np.zeros(key.size, RECORD)
        records["key"] = key.ravel()
        records["low"] = with_kind(low.ravel(), BAND)
        records["row"] = np.repeat([position for position, _ in compared], self.bands)
        return records


def with_kind(low: npt.NDArray[np.uint64], kind: int) -> npt.NDArray[np.uint64]:
    """Put the kind into the two highest bits."""
    mask = np.uint64(2**62 - 1)
    return (low & mask) | np.uint64(kind << 62)


def write_keys(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the keys of one shard's kept documents; rows count through all its files."""
    section = DeduplicationSection.model_validate(config["deduplication"])
    maker = KeyMaker(section, attempt.counters)
    with sorted_output(attempt, f"keys-{attempt.unit_id}", part="keys") as output:
        for ref in unit.inputs:
            for table in attempt.store.iterate_tables(ref.path, COLUMNS):
                for batch in batches(table):
                    output.add(maker.keys(*batch))
    attempt.counters["keys"] += output.count


def batches(
    table: pa.Table,
) -> list[tuple[list[str], list[str], npt.NDArray[np.float32]]]:
    """Cut a table of COLUMNS into batches of about BATCH_CHARACTERS."""
    texts = table.column("text").to_pylist()
    languages = table.column("language").to_pylist()
    scores = table.column("language_score").to_numpy()
    found, start, size = [], 0, 0
    for end, text in enumerate(texts, 1):
        size += len(text)
        if size >= BATCH_CHARACTERS or end == len(texts):
            found.append((texts[start:end], languages[start:end], scores[start:end]))
            start, size = end, 0
    return found
