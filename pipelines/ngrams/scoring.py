"""Work of the steps that use the models: score documents, cut at percentiles, split by bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.config import PerplexitySection
from pipelines.core.attempt import Attempt
from pipelines.core.document_counts import count_document
from pipelines.core.manifest import read_json
from pipelines.core.records import (
    DOCUMENT_SCHEMA,
    REJECT_SCHEMA,
    documents_to_table,
    table_to_documents,
)
from pipelines.core.shards import Unit
from pipelines.ngrams.scorer import (
    BuiltInScorer,
    KenlmScorer,
    Scorer,
    model_from,
    perplexities,
)
from pipelines.ngrams.tables import Floats
from pipelines.ngrams.tokens import tokenize
from pipelines.ngrams.training import read_tokenizer

UNSCORED = "unscored"
SCORE_SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), pa.field("perplexity", pa.float64())]
)
"""`perplexity` is null for a document without any token."""


def score_file(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the perplexity of each document of one file, in its order.

    Inputs: the file, the language's model (ARPA for kenlm, else tables), and its pieces if any.
    """
    section = PerplexitySection.model_validate(config["perplexity"])
    language = unit.arguments["language"]
    documents, model = unit.inputs[:2]
    tokenizer = read_tokenizer(section, attempt.store, unit.inputs)
    scorer: Scorer
    if section.scorer == "kenlm":
        with attempt.store.on_disk(model.path) as local:
            scorer = KenlmScorer(local)
    else:
        scorer = BuiltInScorer(model_from(attempt.store.read_table(model.path)))
    ids: list[str] = []
    found: list[Floats] = []
    for table in attempt.store.iterate_tables(documents.path, columns=["id", "text"]):
        ids.extend(table.column("id").to_pylist())
        texts = (text.as_py() for text in table.column("text"))
        for batch in tokenize(texts, language, tokenizer):
            found.append(perplexities(scorer, batch))
    values = np.concatenate([*found, np.zeros(0)])
    scored = int(np.isfinite(values).sum())
    attempt.counters[f"scored/{language}"] = scored
    attempt.counters[f"without_tokens/{language}"] = len(values) - scored
    table = pa.Table.from_arrays(
        [pa.array(ids, pa.string()), pa.array(values, mask=np.isnan(values))], schema=SCORE_SCHEMA
    )
    attempt.write_table(
        f"{language}/scores-{attempt.unit_id}",
        table,
        part="scores",
        language=language,
        documents=documents.path,
    )


def percentile_cuts(values: Floats, percentiles: Sequence[float]) -> list[float]:
    """Exact percentiles, linear between neighbours (numpy's default, Hyndman and Fan's type 7)."""
    return [float(cut) for cut in np.percentile(values, percentiles)]


def cut_language(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write where head and middle of one language end. Inputs: all its score tables."""
    language = unit.key
    columns = [attempt.store.read_table(ref.path, ["perplexity"]) for ref in unit.inputs]
    values = pa.concat_tables(columns).column("perplexity").drop_null().to_numpy()
    if not len(values):
        return
    head, middle = percentile_cuts(values, config["percentiles"])
    cuts = {"documents": len(values), "head": head, "middle": middle}
    content = (json.dumps(cuts, indent=1) + "\n").encode("utf-8")
    name = f"{language}/cuts-{attempt.unit_id}.json"
    attempt.write_bytes(name, content, part="cuts", language=language)


def bucket_of(perplexity: float | None, cuts: Mapping[str, float] | None) -> str:
    """head, middle or tail of its language (CCNet), or unscored."""
    if perplexity is None or cuts is None:
        return UNSCORED
    if perplexity < cuts["head"]:
        return "head"
    return "middle" if perplexity < cuts["middle"] else "tail"


def split_file(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write perplexity and bucket into each document's metadata, and part kept from rejected.

    Inputs: the file, and where its language has a model, the file's scores and the cuts. The text
    stays as it is. `perplexity` is rounded to 4 significant digits; buckets go by the whole value.
    """
    language, count = unit.arguments["language"], attempt.counters
    cuts: dict[str, float] | None = None
    scores: list[float | None] = []
    if len(unit.inputs) == 3:
        scores = attempt.store.read_table(unit.inputs[1].path).column("perplexity").to_pylist()
        cuts = read_json(attempt.store, unit.inputs[2])
    with attempt.tables(DOCUMENT_SCHEMA) as kept, attempt.tables(REJECT_SCHEMA) as rejects:
        position = 0
        for table in attempt.store.iterate_tables(unit.inputs[0].path):
            stays, goes, reasons = [], [], []
            for document in table_to_documents(table):
                value = scores[position] if scores else None
                position += 1
                bucket = bucket_of(value, cuts)
                count[f"bucket.{bucket}/{document.language}"] += 1
                metadata = {**document.metadata, "perplexity_bucket": bucket}
                if value is not None:
                    metadata["perplexity"] = f"{value:.4g}"
                document = replace(document, metadata=metadata)
                if bucket in config["keep"]:
                    stays.append(document)
                    count["kept"] += 1
                    count_document(document, count)
                else:
                    goes.append(document)
                    reasons.append(f"perplexity_{bucket}")
                    count[f"rejected.perplexity_{bucket}"] += 1
                    count[f"rejected.perplexity_{bucket}/{document.language}"] += 1
            kept.write(
                f"{language}/part-{attempt.unit_id}",
                documents_to_table(stays),
                part="unique",
                language=language,
            )
            rejects.write(
                f"rejects/{language}/part-{attempt.unit_id}",
                documents_to_table(goes, reasons),
                part="rejects",
                language=language,
            )
