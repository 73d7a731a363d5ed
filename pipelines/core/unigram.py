"""What every training of a SentencePiece Unigram model needs: its lines, and a model without names
of temporary files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import regex
from sentencepiece import sentencepiece_model_pb2

from pipelines.core.records import PARAGRAPH_BREAK

MAX_LINE_BYTES = 4000
"""SentencePiece leaves out lines above 4,192 bytes; longer ones are split before it sees them."""

NOT_TRAINED_ON = ("\0", "\u2585")
"""SentencePiece cuts text at U+0000 and leaves out every line with U+2585, which it uses itself.
Both are replaced by a blank."""


def lines_of(text: str) -> Iterator[str]:
    """The lines of a document as SentencePiece will see them, none above MAX_LINE_BYTES bytes.

    Longer lines are split, see `split_line`. Only blanks at the ends of lines are lost, and the
    characters of NOT_TRAINED_ON.
    """
    for line in whole_lines_of(text):
        yield from split_line(line)


def whole_lines_of(text: str) -> Iterator[str]:
    """The lines of a document that are not blank, of any length, without blanks at their ends."""
    for character in NOT_TRAINED_ON:
        text = text.replace(character, " ")
    for paragraph in text.split(PARAGRAPH_BREAK):
        for line in paragraph.splitlines():
            line = line.strip()
            if line:
                yield line


def split_line(line: str, limit: int = MAX_LINE_BYTES) -> Iterator[str]:
    """Cut a line into parts of at most `limit` bytes, in order.

    A part ends after a sentence where one ends in its second half (Unicode's Sentence_Terminal
    and the signs that close it), else at a blank, else where the script changes, else between
    two characters with their marks; a single character with more marks than fit is cut too.

    Args:
        limit: at least 4, the bytes of the longest character.
    """
    start = 0
    while start < len(line):
        head = line[start : start + limit]
        if len(head) * 4 > limit:
            head = head.encode("utf-8")[:limit].decode("utf-8", errors="ignore")
        stop = start + len(head)
        if stop < len(line):
            stop = start + _cut(head, line[stop])
        if part := line[start:stop].strip():
            yield part
        start = stop + len(line[stop : stop + limit]) - len(line[stop : stop + limit].lstrip())


@cache
def _boundaries() -> tuple[regex.Pattern[str], ...]:
    """Where a line may be cut, best first: every match ends at a cut."""
    letters = "|".join(
        rf"(?<=\p{{sc={script}}})(?!\p{{sc={script}}})(?=\p{{L}})"
        for script in ("Latn", "Cyrl", "Grek", "Arab", "Hani", "Hira", "Kana", "Hang", "Thai")
    )
    return (
        regex.compile(
            r"\p{STerm}[\p{Pe}\p{Pf}\p{Pi}\"']*(?=\s)|[\u3002\uff01\uff1f][\p{Pe}\p{Pf}]*"
        ),
        regex.compile(r"\s+"),
        regex.compile(letters),
        regex.compile(r"\X"),
    )


def _cut(head: str, after: str) -> int:
    """Where to cut a line whose first part can be `head` at most and is followed by `after`."""
    least = len(head) // 2
    seen = head + after
    sentences, *others = _boundaries()
    found = _last_end(sentences, seen, least, len(head))
    for pattern in others:
        found = found or _last_end(pattern, seen, 1, len(head))
    return found or len(head)


def _last_end(pattern: regex.Pattern[str], text: str, least: int, most: int) -> int:
    """The last end of a match in least ... most, 0 without one."""
    return max((m.end() for m in pattern.finditer(text) if least <= m.end() <= most), default=0)


def without_paths(model: bytes) -> bytes:
    """The model without the names of the trainer's temporary files, so that equal is equal."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.trainer_spec.ClearField("input")
    proto.trainer_spec.ClearField("model_prefix")
    return bytes(proto.SerializeToString(deterministic=True))
