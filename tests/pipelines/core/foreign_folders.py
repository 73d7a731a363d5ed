"""Hugging Face folders with small vocabularies, as the models' authors write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pipelines.core.normalizers import normalizer_spec

BERT_PIECES = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert_folder(folder: Path, pieces: list[str], **settings: Any) -> Path:
    """vocab.txt with BERT's special tokens in front, and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*BERT_PIECES, *pieces]) + "\n", encoding="utf-8")
    told = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def unigram_folder(folder: Path, model: bytes) -> Path:
    """A SentencePiece model under XLM-R's name for it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def xlmr_model(lines: Iterable[str]) -> bytes:
    """The SentencePiece model of a table `id, piece, score` in XLM-R's ids (shared/data/models)."""
    model = ModelProto()
    kinds = model.SentencePiece
    for name, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
        model.pieces.add(piece=name, score=0.0, type=kind)
    for line in lines:
        number, piece, score = line.rstrip("\n").split("\t")
        if 4 <= int(number) <= 250_000:
            model.pieces.add(piece=piece, score=float(score), type=kinds.NORMAL)
    trainer = model.trainer_spec
    trainer.model_type, trainer.vocab_size = trainer.UNIGRAM, len(model.pieces)
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, 1, 2, -1
    model.normalizer_spec.CopyFrom(normalizer_spec("nmt_nfkc"))
    return bytes(model.SerializeToString(deterministic=True))
