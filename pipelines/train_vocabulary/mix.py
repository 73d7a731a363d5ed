"""The mix of text that a vocabulary is made for: counted words of all languages, weighed by q_i."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.config import VocabularySection
from pipelines.core.attempt import Attempt
from pipelines.train_vocabulary.corpus import Corpus
from pipelines.train_vocabulary.weigh import Selection, select, weights


def weighed_words(
    section: VocabularySection, config: Mapping[str, Any], corpus: Corpus, attempt: Attempt
) -> tuple[pa.Table, dict[str, Any]]:
    """The counted words of the mix (columns `word`, `count`), and what was left out of it."""
    by_language = weights(corpus.sizes, corpus.shares)
    weight = np.array([by_language.get(tag, 0.0) for tag in corpus.languages])
    reads = [partial(attempt.store.read_table, key) for key in config["merged"]]
    selection = select(reads, weight, config["seed"], section.max_words)
    return selection.table, words_facts(selection, corpus, attempt)


def characters_of(words: pa.Table) -> int:
    """Characters of all words, each once."""
    return int(pc.sum(pc.utf8_length(words["word"])).as_py() or 0)


def words_facts(selection: Selection, corpus: Corpus, attempt: Attempt) -> dict[str, Any]:
    """What was taken of the words, and by language the share of the text in those left out."""
    left_out = {
        corpus.languages[number]: count / corpus.sizes[corpus.languages[number]]
        for number, count in selection.left_out.items()
    }
    count = attempt.counters
    count["words"] = len(selection.table)
    count["dropped.words_not_drawn"] = selection.not_drawn
    count["dropped.words_above_max_words"] = selection.cut
    for tag, characters in zip(left_out, selection.left_out.values(), strict=True):
        count[f"dropped.characters/{tag}"] = characters
    if selection.cut:
        worst = max(left_out, key=left_out.__getitem__)
        attempt.notes.append(
            f"vocabulary.max_words left out {selection.cut:,} of {selection.distinct:,} distinct "
            f"words, all with a weighted count of {selection.lowest} or less; most text of "
            f"{worst}: {left_out[worst]:.2%} of its characters"
        )
    return {
        "train_on": "words",
        "words": len(selection.table),
        "distinct_words": selection.distinct,
        "words_not_drawn": selection.not_drawn,
        "words_above_max_words": selection.cut,
        "left_out_share": {tag: round(share, 6) for tag, share in left_out.items()},
    }


def mixed(
    characters: Mapping[str, Mapping[int, int]], weight: Mapping[str, float]
) -> dict[int, float]:
    """Code points with their weighted counts in the whole mix."""
    mix: dict[int, float] = {}
    for tag in sorted(characters):
        for point, count in characters[tag].items():
            mix[point] = mix.get(point, 0.0) + count * weight[tag]
    return mix
