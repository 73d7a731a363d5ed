"""The real vocabulary of XLM-R as a SentencePiece model, from a table of its pieces and scores."""

from __future__ import annotations

import lzma
from pathlib import Path

from sentencepiece import sentencepiece_model_pb2

from pipelines.core.normalizers import normalizer_spec
from pipelines.core.vocabulary import MASK_TOKEN, SPECIAL_TOKENS
from tests.benchmarks.machine import Skipped

PIECES = "models/xlmr_unigram_vocab.tsv.xz"
"""Lines `id <tab> piece <tab> score` in XLM-R's ids; the README beside it says where it is from."""


def xlmr_model(data: Path) -> bytes:
    """XLM-R's vocabulary: 250,000 pieces, three of them control, with its normalisation.

    Args:
        data: the folder of public data that holds PIECES.

    Raises:
        Skipped: the table is not there.
        ValueError: the table is not one of XLM-R's layout.
    """
    path = data / PIECES
    if not path.is_file():
        raise Skipped(f"no table of XLM-R's pieces at {path}")
    rows = [
        line.split("\t")
        for line in lzma.decompress(path.read_bytes()).decode("utf-8").split("\n")
        if line
    ]
    if [int(row[0]) for row in rows] != list(range(len(rows))):
        raise ValueError(f"{path}: ids are not 0 ... {len(rows) - 1} in order")
    first, last = tuple(row[1] for row in rows[:4]), rows[-1][1]
    if first != SPECIAL_TOKENS or last != MASK_TOKEN:
        raise ValueError(f"{path}: begins with {first} and ends with {last!r}, not as XLM-R does")
    model = sentencepiece_model_pb2.ModelProto()
    kinds = model.SentencePiece
    for piece, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
        model.pieces.add(piece=piece, score=0.0, type=kind)
    for _, piece, score in rows[4:-1]:
        model.pieces.add(piece=piece, score=float(score), type=kinds.NORMAL)
    trainer = model.trainer_spec
    trainer.model_type = trainer.UNIGRAM
    trainer.vocab_size = len(model.pieces)
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, 1, 2, -1
    model.normalizer_spec.CopyFrom(normalizer_spec("nmt_nfkc"))
    return bytes(model.SerializeToString(deterministic=True))
