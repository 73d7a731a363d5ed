"""The perplexity stage: its steps, one after the other.

    perplexity-tokens   a language   which documents are trained on; the language's pieces
    perplexity-counts   a file       n-grams of the drawn documents, sorted
    perplexity-models   a language   merged, smoothed, written as ARPA and as tables
    perplexity-scores   a file       perplexity of each document
    perplexity-cuts     a language   exact percentiles
    perplexity          a file       documents with perplexity and bucket, kept or rejected

How a language's documents are spread over files changes neither its model nor its scores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipelines.config import DataConfig
from pipelines.core.attempt import Attempt
from pipelines.core.hashing import digest
from pipelines.core.manifest import FileRef, Output, StageRecord
from pipelines.core.shards import Step, Unit
from pipelines.core.stages import StageRun
from pipelines.ngrams.scoring import cut_language, score_file, split_file
from pipelines.ngrams.training import count_file, draw_training_text, make_model

VERSION = 2
DRAW_SETTINGS = (
    "tokens",
    "pieces",
    "train_on",
    "max_training_documents",
    "max_training_bytes",
    "min_training_characters",
)
COUNT_SETTINGS = ("tokens", "train_on", "order")
MODEL_SETTINGS = ("order", "smoothing", "k", "min_count")
SCORE_SETTINGS = ("tokens", "scorer", "order")

Work = Callable[[Unit, Mapping[str, Any], Attempt], None]


def _step(name: str, read: Mapping[str, Any], work: Work, noun: str) -> Step:
    """A step whose results live below corpus/perplexity; the last one has no name of its own."""
    whole = f"perplexity-{name}" if name else "perplexity"
    folder = f"corpus/{whole}/{digest(whole, VERSION, read)[:12]}"
    return Step(whole, VERSION, folder, read, work, noun)


def steps_of(config: DataConfig) -> dict[str, Step]:
    """The steps of a configuration by their short names; each reads the settings that it needs."""
    section = config.perplexity.model_dump(mode="json")

    def some(names: Sequence[str]) -> dict[str, Any]:
        return {name: section[name] for name in names}

    drawn = {"perplexity": some(DRAW_SETTINGS), "seed": config.run.seed}
    counted = {"perplexity": some(COUNT_SETTINGS), "seed": config.run.seed}
    smoothed = {"perplexity": some(MODEL_SETTINGS)}
    scored = {"perplexity": some(SCORE_SETTINGS)}
    cut = {"percentiles": [section["head_percentile"], section["middle_percentile"]]}
    return {
        "tokens": _step("tokens", drawn, draw_training_text, "language"),
        "counts": _step("counts", counted, count_file, "file"),
        "models": _step("models", smoothed, make_model, "language"),
        "scores": _step("scores", scored, score_file, "file"),
        "cuts": _step("cuts", cut, cut_language, "language"),
        "": _step("", {"keep": sorted(section["keep"])}, split_file, "file"),
    }


def score_perplexity(
    stage: StageRun, config: DataConfig, documents: Sequence[Output]
) -> StageRecord:
    """Train a model for each language, score every document, and split by bucket.

    Args:
        documents: files of documents of one language each, with the label `language`.

    Returns:
        The record of the last step; its outputs with part="unique" stand in place of `documents`.

    Raises:
        StageFailed: units failed; they are named.
    """
    steps, languages = steps_of(config), by_language(documents)
    drawn = stage.run(steps["tokens"], language_units(languages))
    draws, pieces = one_each(drawn, "draw"), one_each(drawn, "pieces")
    taught = [output for output in documents if output.labels["language"] in draws]
    counted = stage.run(steps["counts"], [file_unit(o, draws, pieces) for o in taught])
    runs = by_language(counted.outputs)
    made = stage.run(steps["models"], language_units(runs))
    models = one_each(made, "arpa" if config.perplexity.scorer == "kenlm" else "model")
    known = [output for output in documents if output.labels["language"] in models]
    scored = stage.run(steps["scores"], [file_unit(o, models, pieces) for o in known])
    tables = {output.labels["documents"]: output.ref for output in scored.outputs}
    cut = stage.run(steps["cuts"], language_units(by_language(scored.outputs)))
    cuts = one_each(cut, "cuts")
    units = []
    for output in documents:
        language, refs = output.labels["language"], [output.ref]
        if language in cuts:
            refs += [tables[output.path], cuts[language]]
        units.append(Unit(output.path, tuple(refs), {"language": language}))
    return stage.run(steps[""], units)


def by_language(outputs: Sequence[Output]) -> dict[str, tuple[FileRef, ...]]:
    """Files of each language, sorted by name."""
    found: dict[str, list[FileRef]] = defaultdict(list)
    for output in sorted(outputs, key=lambda output: output.path):
        found[output.labels["language"]].append(output.ref)
    return {language: tuple(refs) for language, refs in sorted(found.items())}


def language_units(files: Mapping[str, tuple[FileRef, ...]]) -> list[Unit]:
    """One unit for each language, of all its files."""
    return [Unit(language, refs) for language, refs in files.items()]


def one_each(record: StageRecord, part: str) -> dict[str, FileRef]:
    """The one file of each language that has that part."""
    return {output.labels["language"]: output.ref for output in record.outputs_of(part=part)}


def file_unit(
    documents: Output, needed: Mapping[str, FileRef], pieces: Mapping[str, FileRef]
) -> Unit:
    """A unit of one file of documents, with what it needs of its language."""
    language = documents.labels["language"]
    refs = [documents.ref, needed[language]]
    if language in pieces:
        refs.append(pieces[language])
    return Unit(documents.path, tuple(refs), {"language": language})
