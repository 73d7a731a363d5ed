"""Help pages as the documents and the vocabulary that the pack stage reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.core.hashing import digest
from pipelines.core.manifest import Output
from pipelines.core.records import (
    DOCUMENT_SCHEMA,
    PARAGRAPH_BREAK,
    Document,
    documents_to_table,
)
from pipelines.core.shards import Attempt
from pipelines.core.store import Store, local_file
from pipelines.core.vocabulary import Vocabulary
from pipelines.train_vocabulary.quantise import quantise_scores
from tests.benchmarks.help_pages import CACHE, help_pages
from tests.benchmarks.xlmr_vocabulary import xlmr_model

LANGUAGES = ["de", "en-us", "fi", "fr", "hi", "ja", "pl", "ru", "tr", "zh-cn"]
PAGES = 1200
"""Of each language: about 3 million tokens in all."""

TRAINED = CACHE / "vocabulary-250k.model"


def page_texts(language: str, pages: int = PAGES) -> Iterator[str]:
    """Pages of a language: one paragraph a line of the page."""
    taken = 0
    for page in help_pages([language]):
        lines = (" ".join(line.split()) for line in (page.body or "").split("\n"))
        text = PARAGRAPH_BREAK.join(line for line in lines if line)
        if text and taken < pages:
            taken += 1
            yield text


def write_documents(store: Store, copies: int) -> list[Output]:
    """One file of documents a language, its pages so often over with ids of their own."""
    attempt = Attempt(store, f"corpus/unique/{copies}", "bench")
    with attempt.tables(DOCUMENT_SCHEMA) as tables:
        for language in LANGUAGES:
            texts = list(page_texts(language))
            for copy in range(copies):
                members = [
                    Document(
                        id=digest(language, copy, number),
                        text=text,
                        source="help",
                        url="",
                        shard="",
                        offset=number,
                        language=language,
                    )
                    for number, text in enumerate(texts)
                ]
                table = documents_to_table(members)
                tables.write(f"{language}/part", table, part="unique", language=language)
    return attempt.outputs


def write_vocabulary(store: Store, data: Path) -> list[Output]:
    """The vocabulary of 250,000 pieces: the one that was trained here, else XLM-R's.

    Its scores are quantised, as the vocabulary stage does.
    """
    model = quantise_scores(TRAINED.read_bytes() if TRAINED.is_file() else xlmr_model(data))
    vocabulary = Vocabulary(model)
    counts = np.bincount(
        vocabulary.encode_ragged([t for tag in LANGUAGES for t in page_texts(tag, 100)])[0],
        minlength=vocabulary.rows,
    )
    attempt = Attempt(store, "vocabulary", "bench")
    with local_file() as path:
        path.write_bytes(model)
        attempt.write_file("spm.model", path, part="spm.model")
        with path.open("wb") as file:
            np.save(file, counts.astype(np.int64))
        attempt.write_file("unigram.npy", path, part="unigram")
    return attempt.outputs


def balance_of(outputs: list[Output]) -> dict[str, Any]:
    """What the pack stage reads of the balance table."""
    return {
        "rows": [
            {"language": output.labels["language"], "documents": output.rows} for output in outputs
        ]
    }
