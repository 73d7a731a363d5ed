"""What readers of foreign vocabularies share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary

SENTENCEPIECE, FAST, PLAIN = "sentencepiece.bpe.model", "tokenizer.json", "vocab.txt"
SETTINGS = "tokenizer_config.json"
TOKENIZER_FILES = (SENTENCEPIECE, FAST, PLAIN, SETTINGS)
"""Files of a folder that say what its vocabulary is."""


class CannotAdopt(ValueError):
    """A tokenizer is of a kind that would not give the same ids here; the message says why."""


@dataclass(frozen=True)
class ForeignVocabulary:
    """A vocabulary of somewhere else, in this project's layout of ids."""

    vocabulary: Vocabulary | WordPieceVocabulary
    rows: npt.NDArray[np.int64]
    """The id that each of our ids has there, and so its row in tables of weights, shape (rows,)."""

    @property
    def kind(self) -> str:
        """What vocabulary.kind has to be."""
        return "unigram" if isinstance(self.vocabulary, Vocabulary) else "wordpiece"


def parts_of(whole: Mapping[str, Any] | None, name: str) -> list[Mapping[str, Any]]:
    """The steps of a normaliser or pre-tokenizer of tokenizer.json, one or several."""
    if whole is None:
        return []
    return list(whole[name]) if whole["type"] == "Sequence" else [whole]


def check_added(fast: Mapping[str, Any], known: Mapping[str, int]) -> None:
    """Refuse tokens that are read out of text before the model sees it.

    Raises:
        CannotAdopt: there are others than the known ones; they are named.
    """
    others = [t["content"] for t in fast.get("added_tokens", []) if t["content"] not in known]
    if others:
        raise CannotAdopt(f"{FAST} has more special tokens than {list(known)}: {others[:10]}")
