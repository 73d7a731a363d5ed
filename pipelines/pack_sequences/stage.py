"""The pack stage: files of documents to files of packed, masked sequences.

A file is read row group by row group, encoded in batches, packed as a stream and masked in batches,
so that memory does not grow with it. One unit is one file; with `mix_languages` it is a bucket of
files whose documents are shuffled together.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipelines.config import DataConfig
from pipelines.core.held_out import held_out_of_file
from pipelines.core.manifest import FileRef, Output, read_verified
from pipelines.core.masking import rule_and_sampler
from pipelines.core.records import MIXED, PackedFormat
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary, open_vocabulary, vocabulary_part
from pipelines.core.wordpiece import WordPieceVocabulary
from pipelines.pack_sequences.encode import Texts, encode, mixed_texts, read_texts
from pipelines.pack_sequences.parts import Masking, Part, packer_for

FILES_PER_BUCKET = 16
"""Files that are mixed together; each takes a row group of memory."""


def model_part(vocabulary: Sequence[Output]) -> Output:
    """The file that the vocabulary is read from."""
    by_part = {output.labels.get("part", ""): output for output in vocabulary}
    part = vocabulary_part(by_part)
    if part is None:
        raise LookupError(f"the vocabulary stage wrote only {sorted(by_part)}")
    return by_part[part]


def pack_file(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Tokenise, pack and mask one file of deduplicated documents, or one bucket of files."""
    model = tuple(sorted(config["vocabulary"].items()))
    unigram = unit.input(config["vocabulary"]["unigram"])
    vocabulary, counts = _opened(attempt.store, model, config["vocabulary_sha256"], unigram)
    masking = _masking(config, vocabulary, counts)
    stored = PackedFormat(
        vocabulary.rows, config["mode"], config["length"], config["vocabulary_sha256"]
    )
    files = unit.arguments["files"]
    held_out = {
        name
        for key, language, _ in files
        for name in held_out_of_file(
            attempt.store, key, config["held_out"][language], config["seed"]
        )
    }
    parts: dict[str, Part] = {}

    def part_of(part: str, language: str) -> Part:
        """Held-out sequences never mix languages, so that losses are each language's own."""
        name = f"{language}/{part}-{attempt.unit_id}"
        if name not in parts:
            use = masking if part == "train" else masking.held_out
            parts[name] = Part(part, language, name, packer_for(dict(config)), use, stored)
        return parts[name]

    with attempt.tables(stored.schema) as tables:
        for batch in _texts(attempt.store, files, config):
            spans = encode(vocabulary, batch, sentences=config["mode"] == "pairs")
            held = np.array([name in held_out for name in batch.names], dtype=np.bool_)
            languages = np.array(batch.languages)
            for language in sorted(set(batch.languages)) if held.any() else ():
                own = held & (languages == language)
                if own.any():
                    tags = [language] * int(own.sum())
                    part_of("held-out", language).take(spans.choose(own), tags, tables)
            if not held.all():
                row_language = MIXED if config["mix_languages"] else files[0][1]
                tags = languages[~held].tolist()
                part_of("train", row_language).take(spans.choose(~held), tags, tables)
        for _, part in sorted(parts.items()):
            attempt.counters.update(part.finish(tables))


def _texts(store: Store, files: Sequence[Any], config: Mapping[str, Any]) -> Iterator[Texts]:
    if config["mix_languages"]:
        yield from mixed_texts(
            store, [(key, tag) for key, tag, _ in files], config["seed"], [n for *_, n in files]
        )
        return
    for key, language, _ in files:
        yield from read_texts(store, key, language)


@lru_cache(maxsize=1)
def _opened(
    store: Store, paths: tuple[tuple[str, str], ...], sha256: str, unigram: FileRef
) -> tuple[Vocabulary | WordPieceVocabulary, Any]:
    """A run's vocabulary and unigram counts; a worker keeps them for its next file.

    Raises:
        DamagedObject: bytes are not those that were written.
    """
    counts = np.load(io.BytesIO(read_verified(store, unigram)))
    return open_vocabulary(store, dict(paths), sha256), counts


def _masking(
    config: Mapping[str, Any], vocabulary: Vocabulary | WordPieceVocabulary, counts: Any
) -> Masking:
    section = config["masking"]
    rule, sampler = rule_and_sampler(section, vocabulary.rows, vocabulary.special_ids, counts)
    starts = None if rule.unit == "token" else vocabulary.word_starts
    return Masking(rule, sampler, config["seed"], section["views"], starts)


def pack_step(
    config: DataConfig,
    balance: Mapping[str, Any],
    vocabulary: Sequence[Output],
) -> Step:
    """The packing stage under a configuration, a balance table and a vocabulary."""
    packing = config.packing
    documents = {row["language"]: row["documents"] for row in balance["rows"]}
    model = model_part(vocabulary)
    read = {
        "mode": packing.mode,
        "length": packing.length,
        "mix_languages": packing.mix_languages,
        "true_next_share": packing.true_next_share,
        "short_pair_share": packing.short_pair_share,
        # Phases change what is computed while training, not what is stored.
        "masking": config.masking.model_dump(mode="json", exclude={"phases"}),
        "seed": config.run.seed,
        "vocabulary": {
            output.labels["part"]: output.path
            for output in vocabulary
            if output.labels.get("part") in (model.labels["part"], "unigram")
        },
        "vocabulary_sha256": model.sha256,
        "held_out": {
            language: min(packing.held_out_share, packing.max_held_out_documents / count)
            for language, count in documents.items()
        },
    }
    return Step("pack", 2, f"runs/{config.run.name}/packed", read, pack_file, "file")


def pack_units(
    balance: Mapping[str, Any],
    vocabulary: Sequence[Output],
    unique: Sequence[Output],
    *,
    mix_languages: bool = False,
) -> list[Unit]:
    """One unit for each file of a language that is in the balance, or for each bucket of files.

    Args:
        mix_languages: as in [packing].
    """
    model = model_part(vocabulary)
    shared = [
        output.ref
        for output in vocabulary
        if output.labels.get("part") in (model.labels["part"], "unigram")
    ]
    return [
        Unit(
            key,
            (*(output.ref for output in files), *shared),
            # Language and rows are the files' own, so that these need not bind anything.
            {"files": [[o.path, o.labels["language"], o.rows] for o in files]},
        )
        for key, files in _files_by_unit(balance, unique, mix_languages).items()
    ]


def _files_by_unit(
    balance: Mapping[str, Any], unique: Sequence[Output], mix_languages: bool
) -> dict[str, list[Output]]:
    """Files by the name of their unit. Buckets are dealt out, so that each has many languages."""
    languages = {row["language"] for row in balance["rows"]}
    files = [output for output in unique if output.labels["language"] in languages]
    if not mix_languages:
        return {output.path: [output] for output in files}
    files.sort(key=lambda output: (output.labels["language"], output.path))
    count = -(-len(files) // FILES_PER_BUCKET)
    return {f"bucket-{n:05d}-of-{count:05d}": files[n::count] for n in range(count)}


def pack_notes(
    config: DataConfig, balance: Mapping[str, Any], counters: Mapping[str, int]
) -> list[str]:
    """What a person should know of the stage as a whole.

    Args:
        balance: the balance table.
        counters: of all units.
    """
    notes = [*mix_notes(config), *lost_languages(config, balance, counters)]
    phases = config.masking.phases
    if phases and config.masking.views:
        rates = ", ".join(f"{phase.rate:g} until {phase.until:g}" for phase in phases)
        notes.append(
            f"masking.phases ({rates}): the {config.masking.views} stored view(s) are made at "
            f"masking.rate = {config.masking.rate:g}; masks of other rates are computed while "
            "training"
        )
    return notes


def mix_notes(config: DataConfig) -> list[str]:
    """Settings of the balance that do nothing in training, because rows hold several languages."""
    balance = config.balance
    unused = [f"alpha = {balance.alpha:g}"] if balance.alpha < 1 else []
    unused += [name for name in ("phases", "weights") if getattr(balance, name)]
    if not config.packing.mix_languages or not unused:
        return []
    return [
        "packing.mix_languages: rows of several languages are trained on in the text's own shares; "
        f"of [balance], {', '.join(unused)} do not act on them; the vocabulary's mix is as set"
    ]


def lost_languages(
    config: DataConfig, balance: Mapping[str, Any], counters: Mapping[str, int]
) -> list[str]:
    """A note that names the languages of the balance that gave no row of training."""
    # Rows of several languages are of none: there, those without a token gave nothing.
    gave = "tokens" if config.packing.mix_languages else "sequences"
    lost = [
        f"{tag} ({counters.get(f'documents/{tag}', 0):,} documents of training with "
        f"{counters.get(f'tokens/{tag}', 0):,} tokens, "
        f"{counters.get(f'held_out_documents/{tag}', 0):,} held out)"
        for tag in sorted(row["language"] for row in balance["rows"])
        if not counters.get(f"{gave}/{tag}", 0)
    ]
    return [f"in the balance, but without a row of training: {', '.join(lost)}"] if lost else []
