"""SentencePiece models whose every piece is known."""

from __future__ import annotations

from collections.abc import Sequence

from sentencepiece import sentencepiece_model_pb2

from pipelines.core.normalizers import normalizer_spec


def model_of(
    pieces: Sequence[str], normalization: str = "nmt_nfkc", byte_fallback: bool = False
) -> bytes:
    """A model whose pieces are all equally likely, so that the path of fewest pieces wins."""
    model = sentencepiece_model_pb2.ModelProto()
    kinds = model.SentencePiece
    for piece, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
        model.pieces.add(piece=piece, score=0.0, type=kind)
    if byte_fallback:
        for byte in range(256):
            model.pieces.add(piece=f"<0x{byte:02X}>", score=0.0, type=kinds.BYTE)
    for piece in dict.fromkeys(pieces):
        model.pieces.add(piece=piece, score=-8.0, type=kinds.NORMAL)
    trainer = model.trainer_spec
    trainer.model_type, trainer.vocab_size = trainer.UNIGRAM, len(model.pieces)
    trainer.byte_fallback = byte_fallback
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, 1, 2, -1
    model.normalizer_spec.CopyFrom(normalizer_spec(normalization))
    return bytes(model.SerializeToString(deterministic=True))
