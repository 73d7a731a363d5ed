"""Vocabularies of Hugging Face folders, taken into this project's layout of ids.

- XLM-R's: a SentencePiece Unigram model (sentencepiece.bpe.model), or the tokenizer.json that
  transformers makes of one. Its ids are ours (core/vocabulary.py), row for row.
- BERT's: WordPiece (tokenizer.json or vocab.txt). Its special tokens stand elsewhere ([PAD] 0,
  [UNK] 100, ...), so that ids move: special tokens to their places, all other pieces behind them in
  their own order, [MASK] last. `rows` says from where, for the tables of weights.

Rules for text stay those of the folder. What would not give the same ids as the folder's own
tokenizer is refused: another kind of model, other special tokens, a normaliser that is not known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipelines.core.foreign.base import (
    FAST,
    PLAIN,
    SENTENCEPIECE,
    SETTINGS,
    TOKENIZER_FILES,
    CannotAdopt,
    ForeignVocabulary,
)
from pipelines.core.foreign.sentencepiece_models import (
    read_sentencepiece,
    same_rules,
    sentencepiece_of,
)
from pipelines.core.foreign.wordpiece_files import read_plain_wordpiece, read_wordpiece

__all__ = [
    "TOKENIZER_FILES",
    "CannotAdopt",
    "ForeignVocabulary",
    "foreign_vocabulary",
    "same_rules",
]

KNOWN_CLASSES = ("XLMRobertaTokenizer", "BertTokenizer", "PreTrainedTokenizer", "TokenizersBackend")
"""Tokenizer classes that do what their files say, also with `Fast` behind the name."""


def foreign_vocabulary(files: Mapping[str, bytes]) -> ForeignVocabulary:
    """Read the vocabulary of a Hugging Face folder.

    Args:
        files: those of TOKENIZER_FILES that the folder has, by name.

    Raises:
        CannotAdopt: with the reason.
    """
    settings = _json(files, SETTINGS) if SETTINGS in files else {}
    name = settings.get("tokenizer_class")
    if name is not None and str(name).removesuffix("Fast") not in KNOWN_CLASSES:
        raise CannotAdopt(
            f"{SETTINGS} names the class {name}, which does more than its files say; known are "
            f"{', '.join(KNOWN_CLASSES)}"
        )
    fast = _json(files, FAST) if FAST in files else None
    if SENTENCEPIECE in files:
        return read_sentencepiece(files[SENTENCEPIECE], SENTENCEPIECE, fast)
    if fast is not None:
        kind = fast.get("model", {}).get("type")
        if kind == "Unigram":
            return read_sentencepiece(sentencepiece_of(fast), FAST, fast)
        if kind == "WordPiece":
            return read_wordpiece(fast)
        raise CannotAdopt(f"{FAST} holds a {kind} model; only Unigram and WordPiece can be taken")
    if PLAIN in files:
        return read_plain_wordpiece(files[PLAIN], settings)
    raise CannotAdopt(f"none of {SENTENCEPIECE}, {FAST}, {PLAIN} is there")


def _json(files: Mapping[str, bytes], name: str) -> Any:
    try:
        found = json.loads(files[name])
    except ValueError as error:
        raise CannotAdopt(f"{name} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise CannotAdopt(f"{name} holds no JSON object")
    return found
