"""Mode `pairs`: `<s> A </s> B </s>` for BERT's next sentence prediction.

Source: create_pretraining_data in Devlin et al. 2019 (BERT): A and B are runs of sentences, B
follows A in half of the pairs and comes from another document in the others; then what stood
behind A is put back and used again. What differs from BERT: sentences are taken while they fit, so
no text of a document's own is ever cut away; a document of one sentence is cut in two where B must
follow, so that the share of true pairs is what is asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipelines.core.hashing import generator
from pipelines.core.manifest import Counters
from pipelines.core.masking import Ids
from pipelines.core.vocabulary import BOS_ID, EOS_ID
from pipelines.pack_sequences.spans import Packed, Spans, empty_packed, offsets_of

WINDOW_TOKENS = 2**21
"""So many tokens of documents are held together; the other document is one of these."""

SPECIALS = 3
"""<s>, </s> and </s>."""


@dataclass(slots=True, frozen=True)
class _Document:
    name: str
    tokens: Ids
    bounds: list[int]
    """Where sentences begin, and the end of the last; the first is 0."""


@dataclass(slots=True, frozen=True)
class _Pair:
    document: int
    begin: int
    middle: int
    """End of A."""
    other: int
    """Document of B."""
    other_begin: int
    other_end: int
    is_next: bool


class PairPacker:
    """Makes pairs of segments from documents with known sentences.

    Every token of a document is in exactly one segment that is its own: an A, or a B that follows.
    A B from another document is a copy: counted as `borrowed_tokens`; `borrowed_tokens_cut` is what
    its sentence has beyond the room. Text tokens + borrowed = ordinary tokens in rows + dropped;
    `dropped.lone_tokens` are single ones left at the end of a file's only document.

    Args:
        length: most tokens per sequence, special ones included, at least 5.
        seed: of the run; choices depend on it and on the pair's id, and for the other document on
            the documents of the same window.
        true_next_share: share of pairs whose B follows A.
        short_share: share of pairs that are made for a length drawn evenly from 2 up.
        window_tokens: tokens of documents that are held together.
    """

    def __init__(
        self,
        length: int,
        seed: int,
        true_next_share: float = 0.5,
        short_share: float = 0.1,
        window_tokens: int = WINDOW_TOKENS,
    ) -> None:
        self.counters: Counters = Counter()
        self._room = length - SPECIALS
        self._seed = seed
        self._true_next_share, self._short_share = true_next_share, short_share
        self._window = window_tokens
        self._pool: list[_Document] = []
        self._pool_tokens = 0
        self._done = 0

    def feed(self, spans: Spans) -> Packed:
        """Take documents with `units`; return pairs once the window is filled."""
        for document in _documents(spans, self._room // 2):
            self._pool.append(document)
            self._pool_tokens += len(document.tokens)
        if self._pool_tokens < self._window or len(self._pool) < 2:
            return empty_packed(pairs=True)
        return self._pack()

    def finish(self) -> Packed:
        """Return the pairs of all that is left."""
        return self._pack()

    def _pack(self) -> Packed:
        numbers = range(self._done, len(self._pool))
        pairs = [pair for number in numbers for pair in self._pairs(number)]
        packed = _lay_out(self._pool, pairs)
        # The last one stays to be drawn from, so that no later document is the only one there is.
        self._pool, self._done = self._pool[-1:], len(self._pool[-1:])
        self._pool_tokens = sum(len(document.tokens) for document in self._pool)
        self.counters["pairs_next"] += sum(pair.is_next for pair in pairs)
        self.counters["pairs_other"] += sum(not pair.is_next for pair in pairs)
        return packed

    def _pairs(self, number: int) -> Iterator[_Pair]:
        """All pairs of one document, whose A are its own."""
        document = self._pool[number]
        bounds, last, unit = document.bounds, len(document.bounds) - 1, 0
        while unit < last:
            begin = bounds[unit]
            key = f"{document.name}:{begin}"
            short, length, follows, split, which, where = (
                generator(self._seed, "pair", key).random(6).tolist()
            )
            target = self._room
            if short < self._short_share:
                target = 2 + int(length * (self._room - 1))
            end = _end_of_chunk(bounds, unit, target, self._room)
            is_next = follows < self._true_next_share
            alone, whole = len(self._pool) == 1, bounds[end] - begin
            if whole == 1 and alone:
                self.counters["dropped.lone_tokens"] += 1
                unit = end
                continue
            if whole == 1 or (alone and not is_next):
                is_next = alone
                self.counters["pairs_next_for_want_of_documents"] += alone
            if is_next:
                if end - unit > 1:
                    middle = bounds[unit + 1 + int(split * (end - unit - 1))]
                else:
                    middle = begin + 1 + int(split * (bounds[end] - begin - 1))
                yield _Pair(number, begin, middle, number, middle, bounds[end], True)
                unit = end
            else:
                stop, wanted = self._end_of_first(bounds, unit, end, split)
                yield self._with_other(number, begin, bounds[stop], wanted, which, where)
                unit = stop

    def _end_of_first(
        self, bounds: list[int], unit: int, end: int, split: float
    ) -> tuple[int, int]:
        """Where A ends when B is another document's, and how long B should be.

        B gets the length that the text behind A has, so that lengths do not tell what B is. A never
        leaves a single sentence behind if it has room for it.
        """
        last, stop = len(bounds) - 1, unit + 1 + int(split * (end - unit - 1))
        wanted = bounds[end] - bounds[stop] if stop < end else bounds[end] - bounds[unit]
        if stop == last - 1 and bounds[last] - bounds[unit] < self._room:
            stop = last
        return stop, wanted

    def _with_other(
        self, number: int, begin: int, middle: int, wanted: int, which: float, where: float
    ) -> _Pair:
        other = int(which * (len(self._pool) - 1))
        other += other >= number
        bounds = self._pool[other].bounds
        unit = int(where * (len(bounds) - 1))
        room = self._room - (middle - begin)
        end = bisect_right(bounds, bounds[unit] + min(wanted, room)) - 1
        stop = bounds[end] if end > unit else min(bounds[unit + 1], bounds[unit] + room)
        self.counters["borrowed_tokens_cut"] += max(bounds[unit + 1] - stop, 0)
        self.counters["borrowed_tokens"] += stop - bounds[unit]
        return _Pair(number, begin, middle, other, bounds[unit], stop, False)


def _end_of_chunk(bounds: list[int], unit: int, target: int, room: int) -> int:
    """Index of the bound at which the sentences of a pair end: as many as `target` holds.

    At least two where there are two, and never all but one of those that are left: a sentence that
    stands alone has nothing to be followed by. The chunk is never longer than `room`.
    """
    last = len(bounds) - 1
    end = bisect_right(bounds, bounds[unit] + target) - 1
    end = min(max(end, unit + 2), last)
    if last - end == 1:
        if bounds[last] - bounds[unit] <= room:
            return last
        if end - unit > 2:
            return end - 1
    return end


def _documents(spans: Spans, longest: int) -> Iterator[_Document]:
    """Documents with the bounds of their sentences, none longer than `longest` tokens."""
    assert spans.units is not None
    units = np.append(spans.units, spans.offsets[-1])
    places = np.searchsorted(units, spans.offsets).tolist()
    for number, name in enumerate(spans.names):
        begin, end = int(spans.offsets[number]), int(spans.offsets[number + 1])
        if begin == end:
            continue
        inner = units[places[number] : places[number + 1]].tolist()
        bounds: list[int] = []
        for first, after in zip([begin, *inner], [*inner, end], strict=True):
            # Sentences without a token make no bound.
            bounds.extend(range(first - begin, after - begin, longest))
        yield _Document(name, spans.tokens[begin:end].copy(), [*bounds, end - begin])


def _lay_out(pool: list[_Document], pairs: list[_Pair]) -> Packed:
    if not pairs:
        return empty_packed(pairs=True)
    firsts = [pool[pair.document].tokens[pair.begin : pair.middle] for pair in pairs]
    seconds = [pool[pair.other].tokens[pair.other_begin : pair.other_end] for pair in pairs]
    first_sizes = np.array([len(part) for part in firsts], dtype=np.int64)
    second_sizes = np.array([len(part) for part in seconds], dtype=np.int64)
    offsets = offsets_of(first_sizes + second_sizes + SPECIALS)
    heads, middles = offsets[:-1], offsets[:-1] + 1 + first_sizes
    tokens = np.full(int(offsets[-1]), EOS_ID, dtype=np.uint32)
    ordinary = np.ones(len(tokens), dtype=np.bool_)
    ordinary[heads] = ordinary[middles] = ordinary[offsets[1:] - 1] = False
    tokens[heads] = BOS_ID
    parts = [part for both in zip(firsts, seconds, strict=True) for part in both]
    tokens[ordinary] = np.concatenate(parts)
    sizes = np.stack([first_sizes + 2, second_sizes + 1], axis=1).ravel()
    segments = np.repeat(np.tile(np.array([0, 1], np.uint8), len(pairs)), sizes)
    starts = np.stack([np.ones_like(first_sizes), first_sizes + 2], axis=1).ravel()
    names = [pool[n].name for pair in pairs for n in (pair.document, pair.other)]
    return Packed(
        [f"{pool[pair.document].name}:{pair.begin}" for pair in pairs],
        tokens,
        offsets,
        starts.astype(np.int32),
        names,
        np.arange(len(pairs) + 1, dtype=np.int64) * 2,
        segments,
        np.array([pair.is_next for pair in pairs]),
    )
