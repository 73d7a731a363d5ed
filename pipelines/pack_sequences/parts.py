"""Two parts of a file, training and held-out text: packed, masked, written and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.core.attempt import TableSet
from pipelines.core.manifest import Counters
from pipelines.core.masking import (
    MaskingRule,
    Masks,
    Sampler,
    mask_keys,
    mask_sequences,
)
from pipelines.core.records import PackedFormat
from pipelines.core.vocabulary import UNK_ID
from pipelines.pack_sequences.document import DocumentPacker
from pipelines.pack_sequences.pairs import PairPacker
from pipelines.pack_sequences.spans import Packed, Packer, Spans
from pipelines.pack_sequences.stream import StreamPacker
from pipelines.pack_sequences.table import packed_to_table

HELD_OUT_MASK_RATE = 0.15
"""Held-out text is always masked at this rate, token by token, so that losses of different runs
compare."""

SEQUENCES_AT_ONCE = 4096
"""Sequences that are masked and laid out together."""


@dataclass(frozen=True)
class Masking:
    """How sequences are masked, and how often."""

    rule: MaskingRule
    sampler: Sampler
    seed: int
    views: int
    word_starts: Any = None
    """bool, shape (rows,): which pieces begin a word; only for units of words."""

    def masks(self, packed: Packed) -> list[Masks]:
        """The stored views: those of the passes 0 to views - 1."""
        found = []
        for view in range(self.views):
            keys = mask_keys(self.seed, np.full(len(packed), view, np.int64), packed.ids)
            found.append(
                mask_sequences(
                    packed.tokens, packed.offsets, keys, self.rule, self.sampler, self.word_starts
                )
            )
        return found

    @property
    def held_out(self) -> Masking:
        """The same for held-out text."""
        rule = replace(self.rule, rate=HELD_OUT_MASK_RATE, unit="token")
        return replace(self, rule=rule, views=1, word_starts=None)


def packer_for(config: dict[str, Any]) -> Packer:
    """The packer of a mode, from the settings of the step."""
    if config["mode"] == "document":
        return DocumentPacker(config["length"])
    if config["mode"] == "pairs":
        return PairPacker(
            config["length"],
            config["seed"],
            config["true_next_share"],
            config["short_pair_share"],
        )
    return StreamPacker(config["length"])


class Part:
    """Takes encoded documents, writes rows and counts.

    Args:
        part: `train` or `held-out`.
        language: of the rows.
        name: of the table.
    """

    def __init__(
        self,
        part: str,
        language: str,
        name: str,
        packer: Packer,
        masking: Masking,
        stored: PackedFormat,
    ) -> None:
        self.part, self.language, self.name = part, language, name
        self.packer, self.masking, self.stored = packer, masking, stored
        self.counters: Counters = Counter()
        self._prefix = "" if part == "train" else "held_out_"

    def take(self, spans: Spans, languages: list[str], tables: TableSet) -> None:
        """Pack documents.

        Args:
            languages: of each span.
        """
        lengths = spans.lengths
        unknown = np.flatnonzero(spans.tokens == UNK_ID)
        owners = np.searchsorted(spans.offsets, unknown, side="right") - 1
        for language in sorted(set(languages)):
            own = np.array([tag == language for tag in languages], dtype=np.bool_)
            self._count("documents", int(own.sum()), language)
            self._count("tokens", int(lengths[own].sum()), language)
            self._count("unknown_tokens", int(own[owners].sum()), language)
        self.counters[f"{self._prefix}empty_documents"] += int((lengths == 0).sum())
        self._write(self.packer.feed(spans), tables)

    def finish(self, tables: TableSet) -> Counters:
        """Pack what is left; return all counts."""
        self._write(self.packer.finish(), tables)
        for name, count in self.packer.counters.items():
            self._count(name, count, self.language)
        return self.counters

    def _write(self, packed: Packed, tables: TableSet) -> None:
        for rows in parts_of(packed, SEQUENCES_AT_ONCE):
            masks = self.masking.masks(rows)
            table = packed_to_table(rows, self.language, masks, self.stored)
            tables.write(self.name, table, part=self.part, language=self.language)
            self._count("sequences", len(rows), self.language)
            self._count("slots", len(rows) * self.stored.length, self.language)
            self._count("row_tokens", len(rows.tokens), self.language)
            self._count("maskable_tokens", int((rows.tokens > UNK_ID).sum()), self.language)
            if masks:
                self._count("masked_tokens", len(masks[0].tokens), self.language)

    def _count(self, name: str, count: int, language: str) -> None:
        self.counters[f"{self._prefix}{name}/{language}"] += count


def parts_of(packed: Packed, size: int) -> Iterator[Packed]:
    """Packed sequences in parts of at most `size` sequences."""
    if 0 < len(packed) <= size:
        yield packed
        return
    for begin in range(0, len(packed), size):
        end = min(begin + size, len(packed))
        first, last = int(packed.offsets[begin]), int(packed.offsets[end])
        head, tail = int(packed.start_offsets[begin]), int(packed.start_offsets[end])
        yield Packed(
            packed.ids[begin:end],
            packed.tokens[first:last],
            packed.offsets[begin : end + 1] - first,
            packed.starts[head:tail],
            packed.names[head:tail],
            packed.start_offsets[begin : end + 1] - head,
            None if packed.segments is None else packed.segments[first:last],
            None if packed.is_next is None else packed.is_next[begin:end],
        )
