"""The vocabulary stage: its steps, one after the other.

    vocabulary-adopt    once             only with start_from a folder: its vocabulary, to the store
    vocabulary-words    a file           words and their counts, by hash; lines for the report
    vocabulary-plan     once             which tables of words there are, of which language
    vocabulary-merge    a range of hashes   counts of all files summed, word by word
    vocabulary          once             weigh by q_i, train (or grow), measure, write

Those before the last know nothing of q_i, of the size or of the trainer: another alpha or size does
the last step alone, and a corpus with one file more has that file counted. How the corpus lies in
files, and how many ranges there are, changes no byte of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from pipelines.config import DataConfig
from pipelines.core.hashing import digest
from pipelines.core.manifest import FileRef, Output, StageRecord
from pipelines.core.shards import Step, Unit
from pipelines.core.stages import StageRun
from pipelines.train_vocabulary.adopt import Adopted, adopt
from pipelines.train_vocabulary.corpus import shares_of
from pipelines.train_vocabulary.count_job import count_file, count_settings
from pipelines.train_vocabulary.make import compared, make_vocabulary
from pipelines.train_vocabulary.merge import (
    ROWS_AT_ONCE,
    merge_range,
    merge_units,
    plan_of,
    write_plan,
)
from pipelines.train_vocabulary.word_tables import parts_for

VERSION = 2

NOT_READ = {"max_memory_gb", "start_from", "add_pieces"}
"""Settings that decide whether a vocabulary is trained, not which; and those that are read as
`adopted`, where a vocabulary is taken."""


def train_vocabulary(
    stage: StageRun,
    config: DataConfig,
    balance: Output,
    unique: Sequence[Output],
    rows_at_once: int = ROWS_AT_ONCE,
) -> StageRecord:
    """Count the words of the corpus, and train the vocabulary on their balanced mix.

    Args:
        balance: the balance table.
        unique: files of documents of one language each, with the label `language`.
        rows_at_once: rows of word tables that a unit of the merge holds, on average.

    Returns:
        The record of the last step; see `make_vocabulary` for its outputs.

    Raises:
        ConfigError: what vocabulary.compare_with names is no SentencePiece model, or what
            vocabulary.start_from names cannot be taken.
        StageFailed: units failed; they are named.
    """
    compared(config.vocabulary)  # before hours of counting, not after them
    adopted = adopt(stage, config)
    shares, max_repeats = shares_of(stage.store, balance)
    files = sorted(
        (output for output in unique if output.labels["language"] in shares),
        key=lambda output: output.path,
    )
    words = count_step(config, adopted)
    counted = stage.run(words, [count_unit(output, adopted) for output in files])
    plan = plan_of(counted.outputs_of(part="words"))
    refs = tuple(file.ref for file in plan.files)
    arguments = {"plan": plan.model_dump(mode="json")}
    planned = stage.run(inner_step("plan", words, write_plan), [Unit("corpus", refs, arguments)])
    [plan_output] = planned.outputs
    merged = stage.run(
        inner_step("merge", words, merge_range, "range"),
        merge_units(plan_output.ref, parts_for(plan.rows, rows_at_once)),
    )
    read: dict[str, Any] = {
        "vocabulary": config.vocabulary.model_dump(mode="json", exclude=NOT_READ),
        "seed": config.run.seed,
        "held_out_share": config.packing.held_out_share,
        "trainer": {name: version(name) for name in ("sentencepiece", "tokenizers")},
        "shares": shares,
        "max_repeats": max_repeats,
        "plan": plan_output.path,
        "merged": [output.path for output in merged.outputs_of(part="merged")],
        "characters": [output.path for output in merged.outputs_of(part="characters")],
        "held_out": by_language(counted.outputs_of(part="held-out")),
    }
    inputs: list[FileRef] = [plan_output.ref, *(output.ref for output in merged.outputs)]
    inputs += [output.ref for output in counted.outputs_of(part="held-out")]
    if adopted is not None:
        start = {"from": config.vocabulary.start_from, "add_pieces": config.vocabulary.add_pieces}
        read["adopted"] = {**adopted.binding, **start}
        inputs.append(adopted.file.ref)
    elif config.vocabulary.kind == "unigram" and config.vocabulary.train_on == "lines":
        read["files"] = by_language(files)
        inputs += [output.ref for output in files]
    folder = f"runs/{config.run.name}/vocabulary"
    step = Step("vocabulary", VERSION, folder, read, make_vocabulary, "model")
    limits = {"max_memory_gb": config.vocabulary.max_memory_gb}
    return stage.run(step, [Unit("vocabulary", tuple(inputs), limits)])


def count_step(config: DataConfig, adopted: Adopted | None = None) -> Step:
    """The step that counts words; its results belong to the corpus, not to a run."""
    read = count_settings(config, None if adopted is None else adopted.vocabulary)
    folder = f"corpus/vocabulary/{digest('vocabulary-words', VERSION, read)[:12]}/words"
    return Step("vocabulary-words", VERSION, folder, read, count_file, "file")


def inner_step(name: str, words: Step, work: Any, noun: str = "plan") -> Step:
    """A step between counting and training; all it reads is its inputs."""
    folder = words.folder.removesuffix("words") + name
    return Step(f"vocabulary-{name}", VERSION, folder, words.config, work, noun)


def count_unit(output: Output, adopted: Adopted | None = None) -> Unit:
    """The unit of one file of documents."""
    arguments: dict[str, Any] = {"language": output.labels["language"]}
    if adopted is not None:  # its rules bind the step's configuration already
        arguments["adopted"] = adopted.file.ref.model_dump(mode="json")
    return Unit(output.path, (output.ref,), arguments)


def by_language(outputs: Sequence[Output]) -> dict[str, list[str]]:
    """Keys of files by their language, sorted."""
    found: dict[str, list[str]] = {}
    for output in sorted(outputs, key=lambda output: output.path):
        found.setdefault(output.labels["language"], []).append(output.path)
    return dict(sorted(found.items()))
