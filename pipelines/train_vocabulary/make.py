"""Work of the last step of the vocabulary stage: weigh, train, count ids, measure, write."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.config import VocabularySection
from pipelines.core.attempt import Attempt
from pipelines.core.config import ConfigError
from pipelines.core.foreign import same_rules
from pipelines.core.shards import Unit
from pipelines.core.store import local_file
from pipelines.core.tokenizer_file import tokenizer_files
from pipelines.core.vocabulary import Vocabulary, open_vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary
from pipelines.train_vocabulary.corpus import Corpus, held_out_lines, read_corpus
from pipelines.train_vocabulary.coverage import (
    RESERVED,
    Required,
    allowed_characters,
    required_characters,
)
from pipelines.train_vocabulary.estimate import check_memory, memory_limit
from pipelines.train_vocabulary.grow import CANDIDATES_PER_PIECE, grow
from pipelines.train_vocabulary.mix import characters_of, mixed, weighed_words
from pipelines.train_vocabulary.report import vocabulary_report
from pipelines.train_vocabulary.sample import Sample, copies_wanted
from pipelines.train_vocabulary.unigram_trainer import train_on_lines, train_on_words
from pipelines.train_vocabulary.usage import Ints, count_ids_of_lines, count_ids_of_words
from pipelines.train_vocabulary.weigh import weights
from pipelines.train_vocabulary.wordpiece_trainer import train_wordpiece, wordpiece_vocabulary


@dataclass(frozen=True)
class Trained:
    """A vocabulary, how often its ids stand in the mix, and what the report says of both."""

    vocabulary: Vocabulary | WordPieceVocabulary
    by_id: Ints
    facts: dict[str, Any]


def make_vocabulary(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Train on what was counted, or on lines drawn by q_i, or take the vocabulary of
    vocabulary.start_from; and write all that belongs to it.

    Outputs: spm.model (unigram), tokenizer.json and what transformers reads beside it, counts by
    id, and the report.

    Raises:
        ConfigError: there is no text, it does not fit the machine's memory, or it does not support
            the size; each with what would be right.
    """
    section = VocabularySection.model_validate(
        {**config["vocabulary"], "max_memory_gb": unit.arguments["max_memory_gb"]}
    )
    other = compared(section)
    corpus = read_corpus(unit, config, attempt)
    required = required_characters(corpus.characters, section.character_coverage)
    if "adopted" in config:
        trained = from_adopted(section, unit, config, corpus, required, attempt)
    elif section.kind == "unigram" and section.train_on == "lines":
        trained = from_lines(section, config, corpus, required, attempt)
    else:
        trained = from_words(section, config, corpus, required, attempt)
    count = attempt.counters
    count["pieces"], count["rows"] = trained.vocabulary.piece_count, trained.vocabulary.rows
    count["required_characters"] = len(required.characters)
    report = vocabulary_report(
        trained.vocabulary,
        held_out_lines(attempt.store, config["held_out"]),
        {tag: without_marks(counts) for tag, counts in corpus.characters.items()},
        other,
    )
    training = {
        "kind": section.kind,
        "normalization": normalization_of(trained.vocabulary),
        "character_coverage": section.character_coverage,
        "shares": corpus.shares,
        "characters": corpus.sizes,
        "required_characters": {
            "total": len(required.characters),
            "languages": required.by_language,
            "scripts": required.by_script,
        },
        **trained.facts,
    }
    write_outputs(trained, {**report, "training": training}, attempt)


def compared(section: VocabularySection) -> Vocabulary | None:
    """The vocabulary that the report compares with, read before any time is spent.

    Raises:
        ConfigError: it cannot be read.
    """
    if section.compare_with is None:
        return None
    try:
        return Vocabulary(Path(section.compare_with).read_bytes())
    except (OSError, RuntimeError, ValueError) as error:
        # What the library says of other files names its own source code alone.
        why = "it is another file" if isinstance(error, RuntimeError) else error
        raise ConfigError(
            f"vocabulary.compare_with = {section.compare_with!r}: need a SentencePiece model with "
            f"the ids unk 0, bos 1, eos 2, on the machines that check and train: {why}"
        ) from error


def without_marks(counts: Counter[int]) -> Counter[int]:
    """Characters that are text: not the marks of words' beginnings."""
    return Counter({point: count for point, count in counts.items() if point not in RESERVED})


def normalization_of(vocabulary: Vocabulary | WordPieceVocabulary) -> str:
    """The rules that text is written by, as the report names them."""
    if isinstance(vocabulary, WordPieceVocabulary):
        return "bert"
    return same_rules(vocabulary.model) or "its own"


def from_words(
    section: VocabularySection,
    config: Mapping[str, Any],
    corpus: Corpus,
    required: Required,
    attempt: Attempt,
) -> Trained:
    """Train on counted words, weighed by q_i."""
    by_language = weights(corpus.sizes, corpus.shares)
    words, facts = weighed_words(section, config, corpus, attempt)
    facts |= budget(section, characters_of(words), len(words), attempt)
    vocabulary: Vocabulary | WordPieceVocabulary
    if section.kind == "unigram":
        vocabulary = Vocabulary(train_on_words(words, section, required.characters))
    else:
        mix = mixed(corpus.characters, by_language)
        alphabet = allowed_characters(mix, required.characters, section.character_coverage)
        pieces = train_wordpiece(words, section, alphabet)
        vocabulary = wordpiece_vocabulary(pieces, section.lowercase)
    return Trained(vocabulary, count_ids_of_words(vocabulary, words), facts)


def from_adopted(
    section: VocabularySection,
    unit: Unit,
    config: Mapping[str, Any],
    corpus: Corpus,
    required: Required,
    attempt: Attempt,
) -> Trained:
    """Take the vocabulary of vocabulary.start_from, with more pieces where they are asked for."""
    given = config["adopted"]
    file = unit.input(given["path"])
    old = open_vocabulary(attempt.store, {given["part"]: file.path}, file.checksum)
    words, facts = weighed_words(section, config, corpus, attempt)
    facts |= {"start_from": given["from"], "adopted_pieces": old.piece_count}
    vocabulary: Vocabulary | WordPieceVocabulary = old
    if given["add_pieces"] is not None:
        assert isinstance(old, Vocabulary)  # checked in the configuration and by `adopt`
        size = CANDIDATES_PER_PIECE * given["add_pieces"]
        trial = section.model_copy(update={"size": size})
        facts |= budget(trial, characters_of(words), len(words), attempt)
        grown = grow(old, words, section, required.characters, given["add_pieces"])
        vocabulary = grown.vocabulary
        facts["added"] = {
            "pieces": given["add_pieces"],
            "candidates": grown.candidates,
            "exchange": round(grown.exchange, 6),
        }
    tokens = {vocabulary.token(i) for i in range(vocabulary.rows)}
    lacking = [character for character in required.characters if character not in tokens]
    attempt.counters["required_characters_without_piece"] = len(lacking)
    if lacking:
        attempt.notes.append(
            f"{len(lacking)} characters that vocabulary.character_coverage asks for have no piece "
            f"in the vocabulary of {given['from']}: {''.join(lacking[:40])}"
            + (" ..." if len(lacking) > 40 else "")
            + ("; vocabulary.add_pieces would add them" if section.kind == "unigram" else "")
        )
    return Trained(vocabulary, count_ids_of_words(vocabulary, words), facts)


def from_lines(
    section: VocabularySection,
    config: Mapping[str, Any],
    corpus: Corpus,
    required: Required,
    attempt: Attempt,
) -> Trained:
    """Train on lines drawn by q_i, as plain SentencePiece does."""
    wanted = copies_wanted(
        corpus.shares, corpus.sizes, section.sample_characters, corpus.max_repeats
    )
    sample = Sample(attempt.store, config["files"], wanted, config)
    with local_file(".txt") as path:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for _, line, times in sample.draw():
                file.write(f"{line}\n" * times)
        drawn = Counter(sample.counters)
        characters = sum(n for name, n in drawn.items() if name.startswith("sample_characters/"))
        facts = budget(section, characters, 0, attempt)
        vocabulary = Vocabulary(train_on_lines(path, section, required.characters))
    attempt.counters.update(drawn)
    attempt.counters["sample_characters"] = characters
    by_language: dict[str, dict[str, int]] = {}
    for name, value in sorted(drawn.items()):
        measure, _, tag = name.partition("/")
        by_language.setdefault(tag, {})[measure] = value
    facts |= {"train_on": "lines", "sample_characters": characters, "lines": by_language}
    return Trained(vocabulary, count_ids_of_lines(vocabulary, sample.draw()), facts)


def budget(
    section: VocabularySection, characters: int, words: int, attempt: Attempt
) -> dict[str, Any]:
    """Say what training will need, before it starts.

    Raises:
        ConfigError: it does not fit.
    """
    found = check_memory(section, characters, words, *memory_limit(section))
    attempt.notes.append(found.text)
    return {"estimate": asdict(found)}


def write_outputs(trained: Trained, report: Mapping[str, Any], attempt: Attempt) -> None:
    """Publish a vocabulary's files, each under its own name."""
    files = dict(sorted(tokenizer_files(trained.vocabulary).items()))
    if isinstance(trained.vocabulary, Vocabulary):
        files["spm.model"] = trained.vocabulary.model
    files["report.json"] = (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode()
    parts = {"report.json": "report"}
    for name, content in files.items():
        attempt.write_bytes(f"{attempt.unit_id}/{name}", content, part=parts.get(name, name))
    counts = io.BytesIO()
    np.save(counts, trained.by_id)
    attempt.write_bytes(f"{attempt.unit_id}/unigram.npy", counts.getvalue(), part="unigram")
