"""Tell what kind of document a paragraph comes from; labels are read from document addresses."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from model.config import ClassificationTask
from model.metrics import Prediction, classification_scores
from model.tasks.base import EXAMPLE_SCHEMA, SPLITS, Examples
from pipelines.core.config import ConfigError
from pipelines.core.hashing import digest, stable_fraction, stable_uint64
from pipelines.core.manifest import Counters, Output
from pipelines.core.records import PARAGRAPH_BREAK
from pipelines.core.store import Store
from pipelines.core.vocabulary import BOS_ID, EOS_ID, Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary

TRAIN_SHARE, DEV_SHARE = 0.8, 0.1


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One labelled paragraph."""

    text_id: str
    """Stands for the normalised text: equal texts have equal ids."""
    text: str
    label: str
    language: str


def normalised(text: str) -> str:
    """Text by which equal paragraphs are found: NFKC, case folded, runs of blanks as one."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def split_of(text_id: str, seed: int) -> str:
    """The split of a text, a function of the text alone: 80 % train, 10 % dev, 10 % test."""
    place = stable_fraction(seed, "split", text_id)
    if place < TRAIN_SHARE:
        return "train"
    return "dev" if place < TRAIN_SHARE + DEV_SHARE else "test"


def labelled_paragraphs(
    settings: ClassificationTask, store: Store, unique: Sequence[Output], dropped: Counters
) -> Iterator[Paragraph]:
    """Paragraphs of documents whose address has a label, in the order of files."""
    pattern = re.compile(settings.label_pattern)
    for output in unique:
        table = store.read_table(output.path, columns=["url", "text", "language"])
        for row in table.to_pylist():
            found = pattern.search(row["url"])
            label = found.group(1) if found else None
            for text in row["text"].split(PARAGRAPH_BREAK):
                if not text.strip():
                    continue
                if label is None:
                    dropped["no_label"] += 1
                elif len(text) < settings.min_characters:
                    dropped["short"] += 1
                else:
                    yield Paragraph(digest(normalised(text)), text, label, row["language"])


def one_label_each(paragraphs: Sequence[Paragraph], dropped: Counters) -> list[Paragraph]:
    """Keep each text once; a text that stands under two labels cannot be learnt and goes."""
    labels: dict[str, set[str]] = {}
    for paragraph in paragraphs:
        labels.setdefault(paragraph.text_id, set()).add(paragraph.label)
    kept: dict[str, Paragraph] = {}
    for paragraph in paragraphs:
        if len(labels[paragraph.text_id]) > 1:
            dropped["two_labels"] += 1
        elif paragraph.text_id in kept:
            dropped["repeated"] += 1
        else:
            kept[paragraph.text_id] = paragraph
    return list(kept.values())


def within_sizes(
    paragraphs: Sequence[Paragraph], settings: ClassificationTask, seed: int, dropped: Counters
) -> list[Paragraph]:
    """Leave rare labels out and sample frequent ones down; sorted by text id."""
    by_label: dict[str, list[Paragraph]] = {}
    for paragraph in paragraphs:
        by_label.setdefault(paragraph.label, []).append(paragraph)
    kept = []
    for label, own in sorted(by_label.items()):
        if len(own) < settings.min_examples_per_label:
            dropped[f"rare_label:{label}"] += len(own)
            continue
        own.sort(key=lambda p: stable_uint64(seed, "sample", p.text_id))
        dropped["sampled_down"] += max(0, len(own) - settings.max_examples_per_label)
        kept += own[: settings.max_examples_per_label]
    return sorted(kept, key=lambda p: p.text_id)


class Classification:
    """The task kind `classification`; see `model.tasks.base.Task`."""

    def check(self, settings: ClassificationTask, length: int) -> None:
        """See `Task.check`."""
        where = f"finetuning.{settings.name}"
        try:
            groups = re.compile(settings.label_pattern).groups
        except re.error as error:
            raise ConfigError(
                f"{where}.label_pattern = {settings.label_pattern!r}: not a regular "
                f"expression: {error}"
            ) from None
        if groups < 1:
            raise ConfigError(
                f"{where}.label_pattern = {settings.label_pattern!r}: put the label into a "
                f"group, ( ... )"
            )
        if settings.max_tokens > length:
            raise ConfigError(
                f"{where}.max_tokens = {settings.max_tokens}: the encoder reads at most "
                f"packing.length = {length} tokens"
            )

    def examples(
        self,
        settings: ClassificationTask,
        store: Store,
        unique: Sequence[Output],
        vocabulary: Vocabulary | WordPieceVocabulary,
        seed: int,
    ) -> Examples:
        """See `Task.examples`. No text is in two splits."""
        dropped: Counters = Counter()
        found = list(labelled_paragraphs(settings, store, unique, dropped))
        kept = within_sizes(one_label_each(found, dropped), settings, seed, dropped)
        labels = sorted({paragraph.label for paragraph in kept})
        where = f"finetuning.{settings.name}"
        if len(labels) < 2:
            raise ConfigError(
                f"{where}: {len(labels)} label(s) left of {len(found)} labelled paragraphs, need "
                f"2; look at label_pattern = {settings.label_pattern!r} and "
                f"min_examples_per_label = {settings.min_examples_per_label}. "
                f"Left out: {dict(sorted(dropped.items()))}"
            )
        room = settings.max_tokens - 2
        encoded = vocabulary.encode_batch([paragraph.text for paragraph in kept])
        ends = np.array([BOS_ID], np.uint32), np.array([EOS_ID], np.uint32)
        columns: dict[str, list[Any]] = {
            "text_id": [paragraph.text_id for paragraph in kept],
            "split": [split_of(paragraph.text_id, seed) for paragraph in kept],
            "language": [paragraph.language for paragraph in kept],
            "label": [labels.index(paragraph.label) for paragraph in kept],
            "tokens": [np.concatenate([ends[0], ids[:room], ends[1]]) for ids in encoded],
        }
        arrays = [pa.array(columns[field.name], type=field.type) for field in EXAMPLE_SCHEMA]
        cut = sum(len(ids) > room for ids in encoded)
        table = pa.Table.from_arrays(arrays, schema=EXAMPLE_SCHEMA)
        examples = Examples(labels, table, dropped, cut)
        empty = [split for split in SPLITS if not examples.counts()[split]]
        if empty:
            raise ConfigError(f"{where}: {len(kept)} paragraphs leave no example in {empty}")
        return examples

    def scores(
        self,
        labels: Sequence[str],
        train_labels: Sequence[int],
        judged: Sequence[Prediction],
    ) -> dict[str, Any]:
        """See `Task.scores`."""
        majority = Counter(sorted(train_labels)).most_common(1)[0][0]
        return classification_scores(judged, labels, majority)
