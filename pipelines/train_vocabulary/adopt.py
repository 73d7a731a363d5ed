"""A vocabulary that is taken instead of trained (vocabulary.start_from).

It comes from a Hugging Face folder, of which a copy in this project's layout is put on the store so
that every worker can read it, or from another run of the store. Words are counted as its own rules
write them; then counts by id and the report are made as for a trained vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from pipelines.config import DataConfig, VocabularySection
from pipelines.core.attempt import Attempt
from pipelines.core.config import ConfigError
from pipelines.core.foreign import (
    TOKENIZER_FILES,
    CannotAdopt,
    ForeignVocabulary,
    foreign_vocabulary,
)
from pipelines.core.manifest import FileRef, Output, read_stage
from pipelines.core.run_file import is_run_name
from pipelines.core.shards import Step, Unit
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.core.tokenizer_file import tokenizer_files
from pipelines.core.vocabulary import Vocabulary, open_vocabulary, vocabulary_part
from pipelines.core.wordpiece import WordPieceVocabulary

VERSION = 1
SETTING = "vocabulary.start_from"


@dataclass(frozen=True)
class Adopted:
    """A vocabulary to start from, on the store."""

    vocabulary: Vocabulary | WordPieceVocabulary
    file: Output
    """Its file; the label `part` says of which kind."""

    @property
    def binding(self) -> dict[str, str]:
        """What the step that uses it reads."""
        return {"path": self.file.path, "part": self.file.labels["part"]}


def read_folder(folder: str, setting: str) -> ForeignVocabulary:
    """The vocabulary of a Hugging Face folder.

    Args:
        folder: a path or any fsspec URL.
        setting: that names the folder, for errors.

    Raises:
        ConfigError: it holds no tokenizer, or one that cannot be taken; with the reason.
    """
    return _read(folder, folder_files(folder, setting), setting)


def folder_files(folder: str, setting: str) -> dict[str, bytes]:
    """The files of a folder that say what its vocabulary is, by name.

    Raises:
        ConfigError: it has none.
    """
    try:
        files = Store(folder).read_many(TOKENIZER_FILES)
    except Exception as error:  # any driver's own error
        raise ConfigError(f"{setting} = {folder!r}: cannot be read: {error}") from error
    if not files:
        raise ConfigError(
            f"{setting} = {folder!r}: need a folder with one of {', '.join(TOKENIZER_FILES[:3])} "
            "(or the name of a run, which has no slash in it); there is none of these"
        )
    return files


def _read(folder: str, files: Mapping[str, bytes], setting: str) -> ForeignVocabulary:
    try:
        found = foreign_vocabulary(files)
        tokenizer_files(found.vocabulary)  # the stage will write them; better refused now
    except CannotAdopt as error:
        raise ConfigError(f"{setting} = {folder!r}: {error}") from error
    except ValueError as error:
        raise ConfigError(
            f"{setting} = {folder!r}: its vocabulary cannot be written for transformers: {error}"
        ) from error
    return found


def check_start(section: VocabularySection, store: Store) -> None:
    """Refuse what cannot be taken, before any work.

    Raises:
        ConfigError: see `read_folder`; or the store has no such run.
    """
    if section.start_from is None:
        return
    if is_run_name(section.start_from):
        vocabulary = _of_run(section.start_from, store).vocabulary
    else:
        vocabulary = read_folder(section.start_from, SETTING).vocabulary
    _check_kind(section, vocabulary)


def adopt(stage: StageRun, config: DataConfig) -> Adopted | None:
    """The vocabulary of vocabulary.start_from, on the store; None where one is to be trained.

    Raises:
        ConfigError: there is none, it cannot be taken, or vocabulary.kind is another.
    """
    section = config.vocabulary
    if section.start_from is None:
        return None
    if is_run_name(section.start_from):
        found = _of_run(section.start_from, stage.store)
    else:
        found = _of_folder(section.start_from, stage)
    _check_kind(section, found.vocabulary)
    return found


def _of_run(run: str, store: Store) -> Adopted:
    try:
        outputs = read_stage(store, run, "vocabulary").outputs
    except FileNotFoundError as error:
        raise ConfigError(
            f"{SETTING} = {run!r}: {error}; name a run of {store.url} whose vocabulary is made, or "
            "a folder, which has a slash in its path (./FOLDER)"
        ) from None
    files = {output.labels["part"]: output for output in outputs}
    part = vocabulary_part(files)
    if part is None:
        raise ConfigError(f"{SETTING} = {run!r}: its vocabulary stage wrote only {sorted(files)}")
    return _opened(store, files[part])


def _of_folder(folder: str, stage: StageRun) -> Adopted:
    # Read here and not by a worker: the folder may be one of this machine.
    files = folder_files(folder, SETTING)
    read = {"files": {name: sha256(content).hexdigest() for name, content in files.items()}}
    refs = tuple(
        FileRef(path=f"{folder.rstrip('/')}/{name}", size=len(content), checksum=digest)
        for (name, content), digest in zip(files.items(), read["files"].values(), strict=True)
    )
    folder_key = f"runs/{stage.run_name}/vocabulary"
    step = Step("vocabulary-adopt", VERSION, folder_key, read, write_adopted, "vocabulary")
    _read(folder, files, SETTING)
    record = replace(stage, inline=True).run(step, [Unit("adopted", refs, {"folder": folder})])
    return _opened(stage.store, record.outputs[0])


def _opened(store: Store, file: Output) -> Adopted:
    part = file.labels["part"]
    return Adopted(open_vocabulary(store, {part: file.path}, file.sha256), file)


def write_adopted(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Put a folder's vocabulary on the store, in this project's layout."""
    found = read_folder(unit.arguments["folder"], SETTING)
    part = "spm.model" if found.kind == "unigram" else "tokenizer.json"
    attempt.write_bytes(f"adopted-{attempt.unit_id}/{part}", found.vocabulary.model, part=part)
    moved = int((found.rows != range(len(found.rows))).sum())
    attempt.counters["rows"], attempt.counters["rows_moved"] = found.vocabulary.rows, moved
    attempt.notes.append(
        f"the vocabulary is that of {unit.arguments['folder']}: {found.vocabulary.rows:,} rows"
        + (f", {moved:,} of which have another id there" if moved else "")
    )


def _check_kind(section: VocabularySection, vocabulary: Vocabulary | WordPieceVocabulary) -> None:
    kind = "unigram" if isinstance(vocabulary, Vocabulary) else "wordpiece"
    if section.kind != kind:
        raise ConfigError(
            f"vocabulary.kind = {section.kind!r}, and the vocabulary of {SETTING} = "
            f"{section.start_from!r} is {kind}: set vocabulary.kind = {kind!r}"
        )
