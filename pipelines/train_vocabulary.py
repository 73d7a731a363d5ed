"""Train the Unigram vocabulary on text drawn by q_i, and write it in XLM-R's layout."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece as spm

from pipelines.config import DataConfig, VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.hashing import stable_fraction
from pipelines.core.manifest import Output, read_json
from pipelines.core.masking import Ids
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.core.store import Store, local_file
from pipelines.core.tokenizer_file import tokenizer_json
from pipelines.core.unigram import MAX_LINE_BYTES, lines_of, without_paths
from pipelines.core.vocabulary import UNK_ID, Vocabulary


def copies(share_wanted: float, seed: int, *stable_id: Any) -> int:
    """How often a text is taken when each is wanted `share_wanted` times on average.

    Full copies, and one more for the fraction, drawn by the text's own id: 2.25 gives every text
    two copies and a quarter of them a third one.
    """
    full = int(share_wanted)
    return full + (stable_fraction(seed, *stable_id) < share_wanted - full)


def draw_sample(
    store: Store, files: Mapping[str, Sequence[str]], wanted: Mapping[str, float], seed: int
) -> Iterator[tuple[str, str, int]]:
    """Yield (language, line, copies) for every line that is drawn at least once.

    Args:
        files: keys of deduplicated documents by language.
        wanted: average copies of a line, by language.
    """
    for language in sorted(wanted):
        for key in files[language]:
            table = store.read_table(key, columns=["id", "text"])
            for row in table.to_pylist():
                for number, line in enumerate(lines_of(row["text"])):
                    times = copies(wanted[language], seed, "vocabulary", row["id"], number)
                    if times:
                        yield language, line, times


def train(sample: Path, section: VocabularySection) -> bytes:
    """Train a SentencePiece Unigram model on a file of lines.

    Raises:
        ConfigError: the text does not support vocabulary.size, with the size it does support.
    """
    with local_file() as prefix:
        try:
            spm.SentencePieceTrainer.train(
                input=str(sample),
                model_prefix=str(prefix),
                model_type="unigram",
                vocab_size=section.size,
                character_coverage=section.character_coverage,
                normalization_rule_name=section.normalization,
                num_threads=section.num_threads,
                max_sentence_length=MAX_LINE_BYTES + 192,
                unk_id=0,
                bos_id=1,
                eos_id=2,
                pad_id=-1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _explained(error, section) from error
        return without_paths(prefix.with_suffix(".model").read_bytes())


def _explained(error: RuntimeError, section: VocabularySection) -> Exception:
    """Turn the trainer's message about sizes into one about the setting."""
    text = str(error)
    high = re.search(r"Vocabulary size too high.*?<= *(\d+)", text, re.DOTALL)
    low = re.search(r"smaller than required_chars\.? *(\d+) vs (\d+)", text)
    if high:
        return ConfigError(
            f"vocabulary.size = {section.size}: the text supports at most "
            f"{high.group(1)} pieces; set vocabulary.size to that or less"
        )
    if low:
        return ConfigError(
            f"vocabulary.size = {section.size}: the text has {low.group(2)} characters "
            f"at character_coverage {section.character_coverage}, and each needs a "
            f"piece; set vocabulary.size well above {low.group(2)}"
        )
    return error


class Usage:
    """Counts of ids over the sample, and what each language needs in tokens."""

    def __init__(self, rows: int) -> None:
        self.by_id: npt.NDArray[np.int64] = np.zeros(rows, dtype=np.int64)
        self.languages: dict[str, dict[str, int]] = {}

    def add(self, language: str, line: str, times: int, ids: Ids) -> None:
        """Count one line: its ids as often as it was drawn, its sizes once."""
        np.add.at(self.by_id, ids, times)
        sizes = self.languages.setdefault(
            language, {"tokens": 0, "characters": 0, "words": 0, "unknown": 0}
        )
        sizes["tokens"] += len(ids)
        sizes["characters"] += len(line)
        sizes["words"] += len(line.split())
        sizes["unknown"] += int((ids == UNK_ID).sum())


def measure(vocabulary: Vocabulary, sample: Iterable[tuple[str, str, int]]) -> Usage:
    """Encode the sample once more and count."""
    usage, batch = Usage(vocabulary.rows), []
    for item in sample:
        batch.append(item)
        if len(batch) == 10_000:
            _add_batch(usage, vocabulary, batch)
            batch = []
    _add_batch(usage, vocabulary, batch)
    return usage


def _add_batch(usage: Usage, vocabulary: Vocabulary, batch: list[tuple[str, str, int]]) -> None:
    encoded = vocabulary.encode_batch([line for _, line, _ in batch])
    for (language, line, times), ids in zip(batch, encoded, strict=True):
        usage.add(language, line, times, ids)


def copies_wanted(balance: Mapping[str, Any], sample_characters: int) -> dict[str, float]:
    """Average copies of a line by language, so that the sample has the shares q_i in characters.

    The sample holds `sample_characters`, or as much as the corpus has. No language is repeated
    more often than the balance allows, even when characters and sentences disagree.
    """
    rows = balance["rows"]
    whole = min(sample_characters, sum(row["characters"] for row in rows))
    return {
        row["language"]: min(row["q"] * whole / row["characters"], balance["max_repeats"])
        for row in rows
    }


def vocabulary_unit(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Draw the sample, train, and write model, tokenizer, unigram counts and report."""
    section = VocabularySection.model_validate(config["vocabulary"])
    balance = read_json(attempt.store, config["balance"])
    wanted = copies_wanted(balance, section.sample_characters)
    drawn_characters = 0

    def draw() -> Iterator[tuple[str, str, int]]:
        return draw_sample(attempt.store, config["files"], wanted, config["seed"])

    with local_file(".txt") as sample:
        with sample.open("w", encoding="utf-8", newline="\n") as file:
            for language, line, times in draw():
                file.write(f"{line}\n" * times)
                drawn_characters += len(line) * times
                attempt.counters[f"sample_characters/{language}"] += len(line) * times
        vocabulary = Vocabulary(train(sample, section))
    usage = measure(vocabulary, draw())
    attempt.counters["sample_characters"] = drawn_characters
    attempt.counters["pieces"] = vocabulary.piece_count
    attempt.counters["rows"] = vocabulary.rows
    report = {
        "pieces": vocabulary.piece_count,
        "rows": vocabulary.rows,
        "sample_characters": drawn_characters,
        "languages": dict(sorted(usage.languages.items())),
    }
    with local_file() as path:
        path.write_bytes(vocabulary.model)
        attempt.write_file(f"{attempt.unit_id}/spm.model", path, part="spm.model")
        path.write_text(tokenizer_json(vocabulary), encoding="utf-8")
        attempt.write_file(f"{attempt.unit_id}/tokenizer.json", path, part="tokenizer.json")
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        attempt.write_file(f"{attempt.unit_id}/report.json", path, part="report")
        with path.open("wb") as binary:
            np.save(binary, usage.by_id)
        attempt.write_file(f"{attempt.unit_id}/unigram.npy", path, part="unigram")


def vocabulary_step(config: DataConfig, balance: Output, unique: Sequence[Output]) -> Step:
    """The vocabulary stage under a configuration, a balance table and the deduplicated corpus."""
    files: dict[str, list[str]] = {}
    for output in unique:
        files.setdefault(output.labels["language"], []).append(output.path)
    read = {
        "vocabulary": config.vocabulary.model_dump(mode="json"),
        "seed": config.run.seed,
        "balance": balance.path,
        "files": files,
    }
    folder = f"runs/{config.run.name}/vocabulary"
    return Step("vocabulary", 1, folder, read, vocabulary_unit, "model")


def vocabulary_units(balance: Output, unique: Sequence[Output]) -> list[Unit]:
    """A single unit: one vocabulary for all languages."""
    return [Unit("vocabulary", (balance.ref, *(output.ref for output in unique)))]
