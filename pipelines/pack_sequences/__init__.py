"""Pack documents into sequences of fixed length and choose their masks."""

from pipelines.core.records import MIXED
from pipelines.pack_sequences.card import write_card
from pipelines.pack_sequences.document import DocumentPacker
from pipelines.pack_sequences.pairs import PairPacker
from pipelines.pack_sequences.parts import HELD_OUT_MASK_RATE
from pipelines.pack_sequences.spans import Packed, Packer, Spans
from pipelines.pack_sequences.stage import (
    mix_notes,
    model_part,
    pack_notes,
    pack_step,
    pack_units,
)
from pipelines.pack_sequences.stream import StreamPacker
from pipelines.pack_sequences.table import packed_to_table

__all__ = [
    "HELD_OUT_MASK_RATE",
    "MIXED",
    "DocumentPacker",
    "Packed",
    "Packer",
    "PairPacker",
    "Spans",
    "StreamPacker",
    "mix_notes",
    "model_part",
    "pack_notes",
    "pack_step",
    "pack_units",
    "packed_to_table",
    "write_card",
]
