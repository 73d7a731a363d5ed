"""What every training of a SentencePiece Unigram model needs: its lines, and a model without names
of temporary files."""

from __future__ import annotations

from collections.abc import Iterator

from sentencepiece import sentencepiece_model_pb2

from pipelines.core.records import PARAGRAPH_BREAK

MAX_LINE_BYTES = 4000
"""SentencePiece leaves out lines above 4,192 bytes; longer ones are split before it sees them."""


def lines_of(text: str) -> Iterator[str]:
    """The lines of a document as SentencePiece will see them, none above MAX_LINE_BYTES bytes.

    Longer lines are split at blanks where there are any, else between characters.
    """
    for paragraph in text.split(PARAGRAPH_BREAK):
        for line in paragraph.splitlines():
            line = line.replace("\0", "").strip()
            while len(line.encode("utf-8")) > MAX_LINE_BYTES:
                head = line.encode("utf-8")[:MAX_LINE_BYTES].decode("utf-8", errors="ignore")
                blank = head.rfind(" ")
                cut = blank if blank > 0 else len(head)
                yield line[:cut]
                line = line[cut:].lstrip()
            if line:
                yield line


def without_paths(model: bytes) -> bytes:
    """The model without the names of the trainer's temporary files, so that equal is equal."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.trainer_spec.ClearField("input")
    proto.trainer_spec.ClearField("model_prefix")
    return bytes(proto.SerializeToString(deterministic=True))
