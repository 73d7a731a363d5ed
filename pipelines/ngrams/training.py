"""Work of the steps that make a language's model: draw the text, count it, smooth the counts."""

from __future__ import annotations

import gc
import json
from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from pipelines.config import PerplexitySection
from pipelines.core.attempt import Attempt
from pipelines.core.hashing import stable_uint64
from pipelines.core.manifest import FileRef, read_json, read_verified
from pipelines.core.shards import Unit
from pipelines.core.store import Store, local_file
from pipelines.ngrams.arpa import in_log10, write_arpa
from pipelines.ngrams.count import count_ngrams, with_rare_words_unknown
from pipelines.ngrams.pieces import train_pieces
from pipelines.ngrams.runs import blocks_of, counts_from, local_run, merge_in_rounds, write_run
from pipelines.ngrams.scorer import write_model
from pipelines.ngrams.smoothing import smooth
from pipelines.ngrams.tables import Ints
from pipelines.ngrams.tokens import Sentence, Tokenizer, sentences_of, tokenize, tokenizer_for

PIECE_BYTES = 20_000_000
"""Text that the pieces of a language are trained on; SentencePiece holds it in memory."""
TOKENS_AT_ONCE = 2_000_000
"""Tokens whose n-grams are counted in memory before they go to the local disk."""


@dataclass(frozen=True)
class Draw:
    """Which documents of a language the model is trained on."""

    seed: int
    train_on: str

    def read(self, store: Store, ref: FileRef, highest: int) -> Iterator[tuple[int, str]]:
        """(place, text) of the documents of a file that are drawn, in the file's order.

        A document's place is a hash of the seed and its id; the lowest places are taken.
        """
        for table in store.iterate_tables(ref.path, columns=["id", "source", "text"]):
            if self.train_on != "all":
                table = table.filter(pc.equal(table.column("source"), self.train_on))
            texts = table.column("text")
            for row, name in enumerate(table.column("id").to_pylist()):
                place = stable_uint64(self.seed, "perplexity", name)
                if place <= highest:
                    yield place, texts[row].as_py()


def draw_training_text(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Decide which documents of one language are trained on, and train its pieces on them.

    Inputs: all files of the language. A language with too little text gets no output, but a note.
    """
    section, language = PerplexitySection.model_validate(config["perplexity"]), unit.key
    draw = Draw(config["seed"], section.train_on)
    places, sizes, lengths = _places(attempt.store, unit.inputs, draw)
    taken = min(
        int(np.searchsorted(np.cumsum(sizes), section.max_training_bytes)) + 1,
        section.max_training_documents,
        len(sizes),
    )
    characters = int(lengths[:taken].sum())
    attempt.counters[f"eligible_documents/{language}"] = len(sizes)
    if characters < section.min_training_characters:
        attempt.counters["languages_without_model"] += 1
        if not characters:
            return  # a language without any such document is counted; a note each would be noise
        attempt.notes.append(
            f"{language}: {characters} characters to train a language model on, fewer than "
            f"perplexity.min_training_characters = {section.min_training_characters}; its "
            "documents get no perplexity"
        )
        return
    attempt.counters["languages_with_model"] += 1
    attempt.counters[f"training_documents/{language}"] = taken
    attempt.counters[f"training_characters/{language}"] = characters
    name = f"{language}/{attempt.unit_id}"
    cut = (json.dumps({"highest": int(places[taken - 1])}) + "\n").encode("utf-8")
    attempt.write_bytes(f"{name}/draw.json", cut, part="draw", language=language)
    if section.tokens == "pieces":
        enough = int(np.searchsorted(np.cumsum(sizes[:taken]), PIECE_BYTES))
        highest = int(places[min(enough, taken - 1)])
        texts = sorted(
            item for ref in unit.inputs for item in draw.read(attempt.store, ref, highest)
        )
        sentences = (s for _, text in texts for s in sentences_of(text, language))
        model, notes = train_pieces(sentences, section.pieces)
        attempt.notes.extend(f"{language}: {note}" for note in notes)
        attempt.write_bytes(f"{name}/spm.model", model, part="pieces", language=language)


def _places(
    store: Store, refs: tuple[FileRef, ...], draw: Draw
) -> tuple[npt.NDArray[np.uint64], Ints, Ints]:
    """Places, bytes and characters of all eligible documents, in the order of the draw."""
    places, sizes, lengths = array("Q"), array("q"), array("q")
    for ref in refs:
        for place, text in draw.read(store, ref, 2**64):
            places.append(place)
            sizes.append(len(text.encode("utf-8")))
            lengths.append(len(text))
    found = np.array(places, dtype=np.uint64)
    order = np.argsort(found, kind="stable")
    return found[order], np.array(sizes, np.int64)[order], np.array(lengths, np.int64)[order]


def read_tokenizer(
    section: PerplexitySection, store: Store, refs: tuple[FileRef, ...]
) -> Tokenizer:
    """The tokenizer of a language; its SentencePiece model is the last of `refs`, if any."""
    model = read_verified(store, refs[-1]) if section.tokens == "pieces" else None
    return tokenizer_for(section.tokens, model)


def count_file(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Count the n-grams of the drawn documents of one file, as one sorted run.

    Inputs: the file, the language's draw, and its pieces if it has any.
    """
    section, language = (
        PerplexitySection.model_validate(config["perplexity"]),
        unit.arguments["language"],
    )
    tokenizer = read_tokenizer(section, attempt.store, unit.inputs)
    highest = read_json(attempt.store, unit.inputs[1])["highest"]
    draw = Draw(config["seed"], section.train_on)
    texts = (text for _, text in draw.read(attempt.store, unit.inputs[0], highest))
    with ExitStack() as stack:
        runs = []
        for sentences in _batches(tokenize(texts, language, tokenizer)):
            attempt.counters[f"training_sentences/{language}"] += len(sentences)
            attempt.counters[f"training_tokens/{language}"] += sum(map(len, sentences))
            counts = count_ngrams(sentences, section.order)
            path = stack.enter_context(local_file(".parquet"))
            write_run(path, counts.tables.vocabulary, section.order, blocks_of(counts))
            runs.append(path)
        if not runs:
            return
        if len(runs) > 1:
            opened = [partial(local_run, path) for path in runs]
            vocabulary, blocks = merge_in_rounds(opened, section.order, stack)
            path = stack.enter_context(local_file(".parquet"))
            write_run(path, vocabulary, section.order, blocks)
        name = f"{language}/counts-{attempt.unit_id}.parquet"
        attempt.write_file(name, path, part="counts", language=language)


def _batches(texts: Iterator[list[list[Sentence]]]) -> Iterator[list[Sentence]]:
    batch: list[Sentence] = []
    tokens = 0
    for group in texts:
        for text in group:
            batch.extend(text)
            tokens += sum(map(len, text))
        if tokens >= TOKENS_AT_ONCE:
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch


def make_model(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Merge the counts of one language, smooth them, and write the model twice.

    Inputs: the language's runs. Outputs: an ARPA file, and the same in tables for the built-in
    scorer. All n-grams of the language are in memory; perplexity.max_training_bytes bounds it.
    """
    section, language = PerplexitySection.model_validate(config["perplexity"]), unit.key
    with ExitStack() as stack:
        opened = [partial(attempt.store.on_disk, ref.path) for ref in unit.inputs]
        vocabulary, blocks = merge_in_rounds(opened, section.order, stack)
        counts = with_rare_words_unknown(
            counts_from(vocabulary, section.order, blocks), section.min_count
        )
    for order, keys in enumerate(counts.tables.keys, start=1):
        attempt.counters[f"ngrams_{order}/{language}"] = len(keys)
    model, notes = smooth(counts, section.smoothing, section.k)
    attempt.notes.extend(f"{language}: {note}" for note in notes)
    logs = in_log10(model)
    del counts, model
    gc.collect()
    name = f"{language}/{attempt.unit_id}"
    with local_file(".arpa.gz") as path:
        write_arpa(path, logs)
        attempt.write_file(f"{name}/model.arpa.gz", path, part="arpa", language=language)
    with local_file(".parquet") as path:
        write_model(path, logs)
        attempt.write_file(f"{name}/model.parquet", path, part="model", language=language)
