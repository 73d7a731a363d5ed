"""What packing works on: documents and sequences as flat arrays, no object a token or a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipelines.core.manifest import Counters
from pipelines.core.masking import Ids

Offsets = npt.NDArray[np.int64]


@dataclass(slots=True)
class Spans:
    """Encoded documents, or pieces of them, one after the other."""

    names: list[str]
    """Document ids, n of them."""
    firsts: Offsets
    """Token of its document that each span begins with, shape (n,)."""
    tokens: Ids
    """Ordinary ids of all spans, shape (total,)."""
    offsets: Offsets
    """Span i is tokens[offsets[i] : offsets[i + 1]], shape (n + 1,)."""
    units: Offsets | None = None
    """Only for pairs: where sentences begin in `tokens`, rising; each span's own begin is one."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def lengths(self) -> Offsets:
        """Tokens of each span, shape (n,)."""
        return np.diff(self.offsets)

    def choose(self, wanted: npt.NDArray[np.bool_]) -> Spans:
        """The spans where `wanted`, shape (n,), is true, in their order."""
        if wanted.all():
            return self
        chosen = np.flatnonzero(wanted)
        lengths = self.lengths
        units = self.units
        if units is not None:
            owner = np.searchsorted(self.offsets, units, side="right") - 1
            moved = offsets_of(np.where(wanted, lengths, 0))
            units = (units - self.offsets[owner] + moved[owner])[wanted[owner]]
        return Spans(
            [self.names[i] for i in chosen],
            self.firsts[chosen],
            self.tokens[np.repeat(wanted, lengths)],
            offsets_of(lengths[chosen]),
            units,
        )


@dataclass(slots=True)
class Packed:
    """Packed sequences, one after the other."""

    ids: list[str]
    """Sequence ids, n of them: the first document's id and its token that the sequence begins with.
    """
    tokens: Ids
    """Ids, special ones included, shape (total,)."""
    offsets: Offsets
    """Sequence i is tokens[offsets[i] : offsets[i + 1]], shape (n + 1,)."""
    starts: npt.NDArray[np.int32]
    """Positions, inside their sequence, at which documents begin, shape (documents,)."""
    names: list[str]
    """Ids of those documents."""
    start_offsets: Offsets
    """Sequence i has the starts and names start_offsets[i] : start_offsets[i + 1], shape (n + 1,).
    """
    segments: npt.NDArray[np.uint8] | None = None
    """Only of pairs: 0 for the first segment, 1 for the second, shape (total,)."""
    is_next: npt.NDArray[np.bool_] | None = None
    """Only of pairs: whether the second segment follows the first, shape (n,)."""

    def __len__(self) -> int:
        return len(self.ids)


class Packer(Protocol):
    """A way of packing. It is fed documents and gives sequences as soon as they are complete."""

    counters: Counters
    """What happened to the text, in tokens or sequences."""

    def feed(self, spans: Spans) -> Packed:
        """Take documents; return what became complete, maybe nothing."""
        ...

    def finish(self) -> Packed:
        """Return all that is left."""
        ...


def offsets_of(lengths: Sequence[int] | Offsets) -> Offsets:
    """Offsets of parts of the given lengths, shape (n + 1,)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def join_spans(parts: Iterable[Spans]) -> Spans:
    """Spans one after the other, sentences left out."""
    members = [part for part in parts if len(part)]
    if len(members) == 1:
        return members[0]
    return Spans(
        [name for part in members for name in part.names],
        np.concatenate([np.empty(0, np.int64), *(part.firsts for part in members)]),
        np.concatenate([np.empty(0, np.uint32), *(part.tokens for part in members)]),
        offsets_of(np.concatenate([np.empty(0, np.int64), *(p.lengths for p in members)])),
    )


def empty_packed(*, pairs: bool = False) -> Packed:
    """No sequence."""
    return Packed(
        [],
        np.empty(0, np.uint32),
        np.zeros(1, np.int64),
        np.empty(0, np.int32),
        [],
        np.zeros(1, np.int64),
        np.empty(0, np.uint8) if pairs else None,
        np.empty(0, np.bool_) if pairs else None,
    )


@dataclass(slots=True)
class Pieces:
    """Pieces of spans in the order in which they are laid down, and the sequence of each."""

    spans: list[int] = field(default_factory=list)
    """Index of the span."""
    begins: list[int] = field(default_factory=list)
    """First token, inside the span."""
    sizes: list[int] = field(default_factory=list)
    """Tokens, above 0."""
    sequences: list[int] = field(default_factory=list)
    """Number of the sequence, never falling."""

    def add(self, span: int, begin: int, size: int, sequence: int) -> None:
        """Lay one piece down."""
        self.spans.append(span)
        self.begins.append(begin)
        self.sizes.append(size)
        self.sequences.append(sequence)

    def __len__(self) -> int:
        return len(self.spans)
