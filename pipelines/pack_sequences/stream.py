"""Mode `stream`: contiguous text, `</s>` between documents.

Source: FULL-SENTENCES in Liu et al. 2019 (RoBERTa), section 4.2. `<s>` stands first and `</s>` last
in every sequence.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from pipelines.core.manifest import Counters
from pipelines.core.vocabulary import BOS_ID, EOS_ID
from pipelines.pack_sequences.spans import (
    Packed,
    Pieces,
    Spans,
    empty_packed,
    join_spans,
    offsets_of,
)


class StreamPacker:
    """Cuts a stream of documents into sequences of `length` tokens.

    Nothing is dropped or padded: ordinary tokens in = ordinary tokens out, in their order, and the
    last sequence may be shorter. A sequence never begins or ends with the separator of a document
    that lies wholly outside it; one that would is a token shorter.

    Args:
        length: tokens per sequence, <s> and </s> included, at least 3.
    """

    def __init__(self, length: int) -> None:
        self.counters: Counters = Counter()
        self._room = length - 2
        self._open: list[Spans] = []
        self._open_tokens = 0

    def feed(self, spans: Spans) -> Packed:
        """Take documents; return the sequences that they fill."""
        self._open.append(spans)
        self._open_tokens += len(spans.tokens)
        return self._pack(last=False)

    def finish(self) -> Packed:
        """Return the last sequence, if text is left."""
        return self._pack(last=True)

    def _pack(self, *, last: bool) -> Packed:
        if not self._open or (self._open_tokens < self._room and not last):
            return empty_packed()
        spans = join_spans(self._open)
        pieces, complete = _cut(spans, self._room)
        if last and len(pieces):
            complete = pieces.sequences[-1] + 1
        count = int(np.searchsorted(pieces.sequences, complete))
        left = _left_over(spans, pieces, count)
        self._open, self._open_tokens = [left], len(left.tokens)
        return _lay_out(spans, pieces, count, complete) if complete else empty_packed()


def _cut(spans: Spans, room: int) -> tuple[Pieces, int]:
    """Pieces of all spans, and how many sequences are complete without what follows."""
    pieces, used, sequence = Pieces(), 0, 0
    for span, length in enumerate(spans.lengths.tolist()):
        if not length:
            continue
        if used:
            # A separator needs a token behind it, or it would only repeat the closing </s>.
            if room - used < 2:
                sequence, used = sequence + 1, 0
            else:
                used += 1
        taken = 0
        while taken < length:
            size = min(length - taken, room - used)
            pieces.add(span, taken, size, sequence)
            taken += size
            used += size
            if used == room:
                sequence, used = sequence + 1, 0
    return pieces, sequence


def _left_over(spans: Spans, pieces: Pieces, count: int) -> Spans:
    """The text behind the first `count` pieces; only its first span may be cut."""
    if count == len(pieces):
        return Spans([], np.empty(0, np.int64), np.empty(0, np.uint32), np.zeros(1, np.int64))
    span, begin = pieces.spans[count], pieces.begins[count]
    firsts = spans.firsts[span:].copy()
    firsts[0] += begin
    offset = int(spans.offsets[span]) + begin
    offsets = spans.offsets[span:] - offset
    offsets[0] = 0
    return Spans(spans.names[span:], firsts, spans.tokens[offset:].copy(), offsets)


def _lay_out(spans: Spans, pieces: Pieces, count: int, sequences: int) -> Packed:
    """Tokens of the first `count` pieces with the special ids around and between them."""
    sizes = np.array(pieces.sizes[:count], dtype=np.int64)
    owner = np.array(pieces.sequences[:count], dtype=np.int64)
    before = offsets_of(sizes)
    # Each earlier piece is followed by one </s>; each sequence so far begins with one <s>.
    places = before[:-1] + np.arange(count) + owner + 1
    heads = np.searchsorted(owner, np.arange(sequences))
    offsets = np.append(places[heads] - 1, before[-1] + count + sequences)
    tokens = np.full(int(offsets[-1]), EOS_ID, dtype=np.uint32)
    ordinary = np.ones(len(tokens), dtype=np.bool_)
    ordinary[offsets[:-1]] = False
    ordinary[places + sizes] = False
    tokens[offsets[:-1]] = BOS_ID
    # Pieces lie in the order of the text, with nothing between them.
    tokens[ordinary] = spans.tokens[: int(before[-1])]
    heads_list = heads.tolist()
    ids = [
        f"{spans.names[pieces.spans[h]]}:{int(spans.firsts[pieces.spans[h]]) + pieces.begins[h]}"
        for h in heads_list
    ]
    return Packed(
        ids,
        tokens,
        offsets,
        (places - offsets[owner]).astype(np.int32),
        [spans.names[span] for span in pieces.spans[:count]],
        np.append(heads, count).astype(np.int64),
    )
