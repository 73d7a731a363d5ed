"""A small corpus, its vocabulary and its balance table on a store, and the pack stage over them."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import sentencepiece as spm

from pipelines.config import DataConfig
from pipelines.core.hashing import digest, generator
from pipelines.core.manifest import Output, StageRecord
from pipelines.core.records import PARAGRAPH_BREAK, Document, documents_to_table
from pipelines.core.shards import Attempt
from pipelines.core.stages import StageRun
from pipelines.core.store import Store, local_file
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import wordpiece_tokenizer
from pipelines.pack_sequences import (
    model_part,
    pack_notes,
    pack_step,
    pack_units,
    write_card,
)

SYLLABLES = {
    "en": ["th", "ing", "er", "on", "st", "ea", "ck", "ble", "ou", "wh"],
    "fi": ["kaa", "nen", "lli", "suo", "tta", "yö", "mää", "ksi", "ä", "pu"],
    "sw": ["wa", "ki", "mbo", "nya", "li", "tu", "sha", "ngo", "ku", "ji"],
}
DOCUMENTS = {"en": 160, "fi": 90, "sw": 40}


def text(language: str, number: int) -> str:
    """A few paragraphs of invented sentences; document 3 is empty but for blanks."""
    if number == 3:
        return "  "
    rng = generator("pack tests", language, number)
    syllables = SYLLABLES[language]
    paragraphs = []
    for _ in range(1 + rng.poisson(2)):
        sentences = []
        for _ in range(1 + rng.poisson(2)):
            words = [
                "".join(rng.choice(syllables, 1 + rng.integers(3)).tolist())
                for _ in range(3 + rng.poisson(6))
            ]
            sentences.append(" ".join(words).capitalize() + ".")
        paragraphs.append(" ".join(sentences))
    return PARAGRAPH_BREAK.join(paragraphs)


@cache
def model() -> bytes:
    """A SentencePiece model in the layout of the vocabulary stage."""
    lines = [
        line
        for language, count in DOCUMENTS.items()
        for number in range(count)
        for line in text(language, number).splitlines()
        if line.strip()
    ]
    written = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=300,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return written.getvalue()


@dataclass
class Corpus:
    store: Store
    unique: list[Output]
    balance: dict[str, Any]
    vocabulary: list[Output]

    def pack(
        self, *, inline: bool = True, run: str = "packing", **sections: Mapping[str, Any]
    ) -> StageRecord:
        """Run the stage, as pipelines/run_stage.py does."""
        config = data_config(run, **sections)
        stage = StageRun(self.store, run, inline=inline, quiet=True)
        step = pack_step(config, self.balance, self.vocabulary)
        units = pack_units(
            self.balance,
            self.vocabulary,
            self.unique,
            mix_languages=config.packing.mix_languages,
        )
        record = stage.run(step, units, notes=partial(pack_notes, config, self.balance))
        write_card(stage, config, step, record, model_part(self.vocabulary))
        return record


def data_config(run: str = "packing", **sections: Mapping[str, Any]) -> DataConfig:
    tree: dict[str, Any] = {
        "run": {"name": run, "seed": 7},
        "sources": [{"kind": "wikipedia", "wikis": ["en"], "date": "20261101"}],
        **sections,
    }
    tree["packing"] = {"length": 48, "held_out_share": 0.1, **sections.get("packing", {})}
    return DataConfig.model_validate(tree)


def make_corpus(store: Store, *, kind: str = "unigram", files: int = 2) -> Corpus:
    """Documents in three languages, each in some files, as deduplication leaves them."""
    attempt = Attempt(store, "corpus/unique/made", "unit")
    for language, count in DOCUMENTS.items():
        for part in range(files):
            members = [
                Document(
                    id=digest(language, number),
                    text=text(language, number),
                    source="made",
                    url="",
                    shard="s",
                    offset=number,
                    language=language,
                )
                for number in range(part, count, files)
            ]
            table = documents_to_table(members)
            attempt.write_table(f"{language}/part-{part}", table, part="unique", language=language)
    balance = {"rows": [{"language": tag, "documents": count} for tag, count in DOCUMENTS.items()]}
    vocabulary = _vocabulary(store) if kind == "unigram" else _word_pieces(store)
    return Corpus(store, attempt.outputs, balance, vocabulary)


def _vocabulary(store: Store) -> list[Output]:
    vocabulary = Vocabulary(model())
    texts = [text(tag, n) for tag, count in DOCUMENTS.items() for n in range(count)]
    ids, _ = vocabulary.encode_ragged(texts)
    attempt = Attempt(store, "runs/packing/vocabulary", "unit")
    with local_file() as path:
        path.write_bytes(model())
        attempt.write_file("unit/spm.model", path, part="spm.model")
    _write_counts(attempt, np.bincount(ids, minlength=vocabulary.rows))
    return attempt.outputs


def _word_pieces(store: Store) -> list[Output]:
    found: Counter[str] = Counter()
    for language in DOCUMENTS:
        for syllable in SYLLABLES[language]:
            found.update([syllable, f"##{syllable}", f"##{syllable[-1]}"])
    pieces = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", *"abcdefghijklmnopqrstuvwxyzäöABEKLMNOPSTWY."]
    pieces += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyzäö"]
    pieces = list(dict.fromkeys([*pieces, *sorted(found), "[MASK]"]))
    tokenizer = wordpiece_tokenizer({piece: n for n, piece in enumerate(pieces)}, False)
    attempt = Attempt(store, "runs/packing/vocabulary", "pieces")
    with local_file() as path:
        path.write_text(tokenizer.to_str(), encoding="utf-8")
        attempt.write_file("pieces/tokenizer.json", path, part="tokenizer.json")
    _write_counts(attempt, np.ones(len(pieces), np.int64))
    return attempt.outputs


def _write_counts(attempt: Attempt, counts: Any) -> None:
    with local_file(".npy") as path:
        with path.open("wb") as file:
            np.save(file, counts.astype(np.int64))
        attempt.write_file(f"{attempt.unit_id}/unigram.npy", path, part="unigram")


def rows_of(store: Store, record: StageRecord, **labels: str) -> list[dict[str, Any]]:
    """All rows of a record's files as plain Python, in its order."""
    return [
        row
        for output in record.outputs_of(**labels)
        for row in store.read_table(output.path).to_pylist()
    ]
