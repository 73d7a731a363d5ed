"""What pretraining.start_from names, looked at in the driver, before any worker starts: everything
that can be wrong is found here, the folder, the sizes, the vocabulary."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from model.checkpoint.files import MODEL
from model.checkpoint.made_with import KEY, differences, made_with, training_record
from model.checkpoint.names import NoSuchCheckpoint, find_named, is_checkpoint_name
from model.config import EncoderSection, preset_names, preset_values
from model.start.grown_vocabulary import AnyVocabulary
from model.start.origin import recorded_start
from model.start.start_point import SETTING, WEIGHTS, StartPoint, identified
from pipelines.core.config import ConfigError
from pipelines.core.foreign import TOKENIZER_FILES, CannotAdopt, foreign_vocabulary
from pipelines.core.manifest import FileRef, StageRecord, read_manifests
from pipelines.core.run_file import is_run_name
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary, vocabulary_part

if TYPE_CHECKING:
    from model.plan import RunInputs

SIZES = (
    *("layers", "hidden_size", "heads", "feed_forward_size", "norm", "positions"),
    *("first_position", "rotary_base", "feed_forward", "biases", "segments", "norm_epsilon"),
)
"""Settings of [encoder] that weights were made for. Those of a preset that fits are named."""


@dataclass(frozen=True)
class Wanted:
    """What weights have to fit."""

    store: Store
    run: str
    encoder: EncoderSection
    length: int
    """packing.length"""
    vocabulary: AnyVocabulary | None
    """None before it is made: then it is not compared."""


def start_point(inputs: RunInputs) -> StartPoint | None:
    """What pretraining.start_from names, after looking at it; None where it names nothing.

    Raises:
        ConfigError: it is not there, or does not fit the run's [encoder], packing.length or
            vocabulary; each setting is named with what would be right.
    """
    name = inputs.config.pretraining.start_from
    if name is None:
        return None
    length = inputs.setting("packing", "length")
    encoder, vocabulary = inputs.config.encoder, inputs.vocabulary
    return find_start(name, Wanted(inputs.store, inputs.run, encoder, length, vocabulary))


def find_start(name: str, wanted: Wanted) -> StartPoint:
    """Look at weights to start from; see `start_point`.

    Args:
        name: a Hugging Face folder, NAME, or NAME@STEP.
    """
    if is_run_name(name) or is_checkpoint_name(name):
        return _of_run(name, wanted)
    return _of_folder(name, wanted)


def _of_run(name: str, wanted: Wanted) -> StartPoint:
    from model.plan import RunInputs  # it imports this module

    where = f"{SETTING} = {name!r}"
    if is_checkpoint_name(name):
        name, weights, made = _of_checkpoint(name, wanted)
        run = name.partition("/")[0]
    elif name == wanted.run:
        raise ConfigError(f"{where} is this run: name another, or one of its checkpoints")
    else:
        run = name
        try:
            record = RunInputs(wanted.store, run).stage("pretrain")
            [output] = record.outputs_of(part="model")
        except FileNotFoundError as error:
            raise ConfigError(
                f"{where}: {error}. Name a run of {wanted.store.url} that has finished, one of its "
                f"checkpoints (RUN@STEP), or a folder, which has a slash in its path"
            ) from None
        weights, made = output.ref, _of_binding(wanted.store, record)
    source = RunInputs(wanted.store, run)
    try:
        length, files = source.setting("packing", "length"), source.vocabulary_files
        section = source.config.encoder
    except FileNotFoundError as error:
        raise ConfigError(f"{where}: {error}") from None
    own = made_with(section, length, source.vocabulary_sha256)
    if made is not None and (wrong := differences(made, own)):
        raise ConfigError(
            f"{where}: run {run!r} was changed since these weights were made: "
            f"{'; '.join(wrong)}. Set it back, or name weights that it made since"
        )
    _check_encoder(wanted, section, length, where)
    _check_kind(wanted.vocabulary, source.vocabulary, where)
    part = vocabulary_part(files)
    assert part is not None  # it was opened
    return StartPoint(
        name=name,
        weights=[weights],
        vocabulary={part: files[part].ref},
        notes=_length_notes(wanted, section, length),
    )


def _of_binding(store: Store, record: StageRecord) -> dict[str, Any] | None:
    """What a finished pretraining was made with; None where it does not say."""
    [manifest, *_] = read_manifests(store, record)
    config = manifest.binding.config
    if "encoder" not in config:
        return None
    encoder = EncoderSection.model_validate(config["encoder"])
    return made_with(encoder, config["length"], config["vocabulary_sha256"])


def _of_checkpoint(name: str, wanted: Wanted) -> tuple[str, FileRef, dict[str, Any] | None]:
    """A checkpoint's full name, its weights and what it was made with, where it says so; of one
    that is gone, what the weights were."""
    try:
        key, manifest = find_named(wanted.store, name, setting=SETTING)
    except NoSuchCheckpoint:
        # A run that has a checkpoint of its own does not read the start again.
        recorded = recorded_start(wanted.store, wanted.run, name)
        if recorded is None:
            raise
        return recorded.name, recorded.weights[0], None
    [model] = [file for file in manifest.files if file.name == MODEL]
    path = f"{key}/{manifest.attempt}/{model.name}"
    _, run, _, unit, _ = key.split("/")
    weights = FileRef(path=path, size=model.bytes, checksum=model.sha256)
    made = training_record(wanted.store, key, manifest).get(KEY)
    return f"{run}/{unit}@{manifest.step}", weights, made


def _of_folder(folder: str, wanted: Wanted) -> StartPoint:
    from model.hugging_face.configs import section_of  # transformers is heavy

    where, place = f"{SETTING} = {folder!r}", Store(folder)
    try:
        found = place.read_many(["config.json", *TOKENIZER_FILES])
    except Exception as error:  # any driver's own error
        raise ConfigError(f"{where}: cannot be read: {error}") from error
    if "config.json" not in found:
        raise ConfigError(
            f"{where}: no config.json there. Need a Hugging Face folder (a path with a slash in "
            "it, or a URL), a run of the store (NAME) or one of its checkpoints (NAME@STEP)"
        )
    try:
        config = json.loads(found.pop("config.json"))
        section, rows, length = section_of(config)
    except (ValueError, RecursionError) as error:  # ConfigError among them
        raise ConfigError(f"{where}: config.json: {error}") from None
    if config.get("tie_word_embeddings", True) is False:
        raise ConfigError(
            f"{where}: config.json says tie_word_embeddings = false; this model reads and writes "
            "words with one matrix, so one of the two would be lost"
        )
    _check_encoder(wanted, section, length, where)
    try:
        old = foreign_vocabulary(found)
    except CannotAdopt as error:
        raise ConfigError(
            f"{where}: {error}. Without its vocabulary nobody knows which row is whose"
        ) from None
    _check_kind(wanted.vocabulary, old.vocabulary, where)
    if int(old.rows.max()) >= rows:
        raise ConfigError(
            f"{where}: config.json has vocab_size = {rows}, and the tokenizer beside it ids up to "
            f"{int(old.rows.max())}: they do not belong together"
        )
    notes = _length_notes(wanted, section, length)
    if spare := rows - len(old.rows):
        notes.append(f"{spare} rows of {folder} belong to no piece and are left behind")
    return StartPoint(
        name=folder,
        folder=folder,
        layout=section.layout,
        weights=[identified(place, name) for name in _weight_files(place, where)],
        vocabulary={name: identified(place, name) for name in sorted(found)},
        rows=rows,
        notes=notes,
    )


def _weight_files(place: Store, where: str) -> list[str]:
    """Names of the files that hold the weights of a Hugging Face folder."""
    for name in WEIGHTS:
        if place.exists(name):
            return [name]
        index = f"{name}.index.json"
        if place.exists(index):
            parts = _parts(place.read_bytes(index), f"{where}: {index}")
            if missing := [part for part in parts if not place.exists(part)]:
                raise ConfigError(f"{where}: {index} names {missing}, which are not there")
            return parts
    raise ConfigError(f"{where}: no weights there; need {' or '.join(WEIGHTS)}, or their index")


def _parts(content: bytes, where: str) -> list[str]:
    """Names of the files that an index of weights names, sorted."""
    try:
        index = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not JSON: {error}") from None
    places = index.get("weight_map") if isinstance(index, dict) else None
    names = [*places.values()] if isinstance(places, dict) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(
            f'{where}: need an object with "weight_map", that names the file of each tensor'
        )
    return sorted(set(names))


def _check_encoder(wanted: Wanted, source: EncoderSection, length: int, where: str) -> None:
    """Refuse another architecture, and fewer positions than packed sequences have."""
    own, sizes = wanted.encoder, {name: getattr(source, name) for name in SIZES}
    if source.positions == "learned":
        del sizes["rotary_base"]
    if wrong := {name: v for name, v in sizes.items() if getattr(own, name) != v}:
        fitting = [
            preset
            for preset in preset_names()
            if all(
                getattr(EncoderSection(**preset_values(preset)), name) == value
                for name, value in sizes.items()
            )
        ]
        cure = ", ".join(f"encoder.{name} = {value!r}" for name, value in wrong.items())
        if fitting:
            cure = f"encoder.preset = {fitting[0]!r} (which sets {cure})"
        have = ", ".join(f"encoder.{name} = {getattr(own, name)!r}" for name in wrong)
        raise ConfigError(f"{where} does not fit {have}: set {cure}")
    packed = wanted.length
    if source.positions == "learned" and length < packed:
        raise ConfigError(
            f"{where} has positions for {length} tokens, and packing.length = {packed}: set "
            f"packing.length = {length} or less"
        )


def _length_notes(wanted: Wanted, source: EncoderSection, length: int) -> list[str]:
    packed = wanted.length
    if source.positions != "learned" or length == packed:
        return []
    return [f"of {length} learnt positions the first {packed} are kept (packing.length)"]


def _check_kind(own: AnyVocabulary | None, old: AnyVocabulary, where: str) -> None:
    if own is None:
        return
    kinds = ["unigram" if isinstance(v, Vocabulary) else "wordpiece" for v in (own, old)]
    if kinds[0] != kinds[1]:
        raise ConfigError(
            f"{where} has a {kinds[1]} vocabulary, and this run a {kinds[0]} one: set "
            f"vocabulary.kind = {kinds[1]!r}, and vocabulary.start_from to the same place to take "
            "its pieces too"
        )
