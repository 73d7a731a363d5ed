"""Mode `document`: whole documents side by side, by best fit; none sees another.

Each document, or each chunk of one that is longer than a sequence, is `<s> … </s>`. Attention is
meant to stay inside it and positions to restart at each `<s>`, which `document_starts` gives.
Source: best-fit packing in Ding et al. 2024, "Fewer Truncations Improve Language Modeling"; only
documents longer than a sequence are cut.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from pipelines.core.manifest import Counters
from pipelines.core.vocabulary import BOS_ID, EOS_ID
from pipelines.pack_sequences.spans import (
    Offsets,
    Packed,
    Spans,
    empty_packed,
    join_spans,
    offsets_of,
)

WINDOW_TOKENS = 2**22
"""Look-ahead: so many tokens are packed together, so that memory does not grow with the file."""

SPECIALS = 2
"""<s> and </s> of each document."""


class DocumentPacker:
    """Puts documents together so that sequences of at most `length` tokens are nearly full.

    Nothing is dropped. Chunks of one document hold different tokens.

    Args:
        length: most tokens per sequence, special ones included, at least 3.
        window_tokens: look-ahead in tokens.
    """

    def __init__(self, length: int, window_tokens: int = WINDOW_TOKENS) -> None:
        self.counters: Counters = Counter()
        self._length = length
        self._window = window_tokens
        self._pool: list[Spans] = []
        self._pool_tokens = 0

    def feed(self, spans: Spans) -> Packed:
        """Take documents; return sequences once the look-ahead is filled."""
        self._pool.append(chunks_of(spans, self._length - SPECIALS))
        self._pool_tokens += len(spans.tokens)
        if self._pool_tokens < self._window:
            return empty_packed()
        return self._pack(last=False)

    def finish(self) -> Packed:
        """Return all that is left."""
        return self._pack(last=True)

    def _pack(self, *, last: bool) -> Packed:
        chunks = join_spans(self._pool)
        if not len(chunks):
            return empty_packed()
        needs = chunks.lengths + SPECIALS
        bins = best_fit(needs, self._length)
        count = int(bins.max()) + 1
        filled = np.bincount(bins, weights=needs, minlength=count).astype(np.int64)
        ready = np.ones(count, dtype=np.bool_)
        if not last:
            # The emptiest ones wait for what may still fit, in half of the window at most.
            emptiest = np.argsort(filled, kind="stable")
            held = np.cumsum(filled[emptiest])
            room = filled[emptiest] <= self._length * 0.995
            ready[emptiest[room & (held <= self._window // 2)]] = False
        going = ready[bins]
        waiting = chunks.choose(~going) if not going.all() else join_spans([])
        self._pool, self._pool_tokens = [waiting], len(waiting.tokens)
        return _lay_out(chunks, bins, going)


def chunks_of(spans: Spans, room: int) -> Spans:
    """Cut spans into chunks of `room` tokens and a rest; empty ones go."""
    lengths = spans.lengths
    counts = -(-lengths // room)
    total = int(counts.sum())
    owner = np.repeat(np.arange(len(spans)), counts)
    number = np.arange(total) - np.repeat(offsets_of(counts)[:-1], counts)
    begins = number * room
    sizes = np.minimum(lengths[owner] - begins, room)
    return Spans(
        [spans.names[i] for i in owner.tolist()],
        spans.firsts[owner] + begins,
        spans.tokens,
        offsets_of(sizes),
    )


def best_fit(needs: Offsets, length: int) -> Offsets:
    """Best-fit decreasing: the bin of each part, shape (n,), numbered by their first part.

    The largest part first; each goes to the bin with the least room that is enough. Equal ones
    keep their order, so the result is a function of `needs` alone.

    Args:
        needs: sizes, shape (n,), from 1 to `length`.
        length: size of a bin.
    """
    order = np.argsort(-needs, kind="stable")
    placed = [0] * len(needs)
    # Bins by the room that is left in them, and one bit for each room that some bin has.
    by_room: list[list[int]] = [[] for _ in range(length + 1)]
    rooms, count = 0, 0
    for part, need in zip(order.tolist(), needs[order].tolist(), strict=True):
        fitting = rooms >> need
        if fitting:
            room = need + (fitting & -fitting).bit_length() - 1
            bins = by_room[room]
            chosen = bins.pop()
            if not bins:
                rooms &= ~(1 << room)
        else:
            room, chosen = length, count
            count += 1
        placed[part] = chosen
        left = room - need
        if left:
            by_room[left].append(chosen)
            rooms |= 1 << left
    bins_of_parts = np.array(placed, dtype=np.int64)
    _, firsts = np.unique(bins_of_parts, return_index=True)
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(firsts, kind="stable")] = np.arange(count)
    return rank[bins_of_parts]


def _lay_out(chunks: Spans, bins: Offsets, going: np.ndarray) -> Packed:
    """The chunks that go, each between <s> and </s>, sorted by bin, in a bin by their order."""
    chosen = np.flatnonzero(going)
    if not len(chosen):
        return empty_packed()
    order = chosen[np.argsort(bins[chosen], kind="stable")]
    _, heads = np.unique(bins[order], return_index=True)
    sizes = chunks.lengths[order]
    before = offsets_of(sizes)
    places = before[:-1] + SPECIALS * np.arange(len(order))
    total = int(before[-1]) + SPECIALS * len(order)
    tokens = np.full(total, EOS_ID, dtype=np.uint32)
    ordinary = np.ones(total, dtype=np.bool_)
    ordinary[places] = False
    ordinary[places + sizes + 1] = False
    tokens[places] = BOS_ID
    source = np.repeat(chunks.offsets[order] - before[:-1], sizes) + np.arange(int(before[-1]))
    tokens[ordinary] = chunks.tokens[source]
    offsets = np.append(places[heads], total)
    start_offsets = np.append(heads, len(order)).astype(np.int64)
    first = order[heads]
    return Packed(
        [
            f"{chunks.names[i]}:{begin}"
            for i, begin in zip(first.tolist(), chunks.firsts[first].tolist(), strict=True)
        ],
        tokens,
        offsets,
        (places - np.repeat(offsets[:-1], np.diff(start_offsets))).astype(np.int32),
        [chunks.names[i] for i in order.tolist()],
        start_offsets,
    )
