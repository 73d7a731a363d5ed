"""BERT's vocabularies: tokenizer.json, or vocab.txt with tokenizer_config.json beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipelines.core.foreign.base import (
    FAST,
    PLAIN,
    SETTINGS,
    CannotAdopt,
    ForeignVocabulary,
    check_added,
    parts_of,
)
from pipelines.core.wordpiece import (
    CONTINUING,
    MAX_WORD_CHARACTERS,
    WORDPIECE_MASK_TOKEN,
    WORDPIECE_SPECIAL_TOKENS,
    Cleaning,
    WordPieceVocabulary,
    bert_normalizer,
    wordpiece_tokenizer,
)

BERT_TOKENS = (*WORDPIECE_SPECIAL_TOKENS, WORDPIECE_MASK_TOKEN)


def read_plain_wordpiece(content: bytes, settings: Mapping[str, Any]) -> ForeignVocabulary:
    """A vocab.txt, and what tokenizer_config.json says of it.

    Raises:
        CannotAdopt: with the reason.
    """
    return _wordpiece(_read_plain(content), _cleaning_of(settings), PLAIN)


def read_wordpiece(fast: Mapping[str, Any]) -> ForeignVocabulary:
    """A tokenizer.json with a WordPiece model.

    Raises:
        CannotAdopt: with the reason.
    """
    model = fast["model"]
    wanted = {
        "unk_token": "[UNK]",
        "continuing_subword_prefix": CONTINUING,
        "max_input_chars_per_word": MAX_WORD_CHARACTERS,
    }
    for name, value in wanted.items():
        if model.get(name) != value:
            raise CannotAdopt(f"{FAST} has {name} = {model.get(name)!r}; BERT's is {value!r}")
    parts = parts_of(fast.get("normalizer"), "normalizers")
    # Our own export reads [MASK] behind cleaning (core/wordpiece.py); nothing else may follow.
    reads_masks = [p["type"] == "Replace" and p.get("content") == "[MASK]" for p in parts[1:]]
    if not parts or parts[0]["type"] != "BertNormalizer" or not all(reads_masks):
        raise CannotAdopt(f"{FAST} has the normaliser {[p['type'] for p in parts]}, not BERT's")
    cutters = [part["type"] for part in parts_of(fast.get("pre_tokenizer"), "pretokenizers")]
    if cutters not in (["BertPreTokenizer"], ["Split", "WhitespaceSplit"]):
        raise CannotAdopt(f"{FAST} cuts words by {cutters or 'nothing'}, not as BERT does")
    accents = parts[0].get("strip_accents")
    lowercase = bool(parts[0]["lowercase"])
    cleaning = Cleaning(
        lowercase,
        lowercase if accents is None else bool(accents),
        bool(parts[0]["clean_text"]),
        bool(parts[0]["handle_chinese_chars"]),
    )
    found = _wordpiece(model["vocab"], cleaning, FAST)
    check_added(fast, {token: model["vocab"][token] for token in BERT_TOKENS})
    return found


def _read_plain(content: bytes) -> dict[str, int]:
    """Pieces and ids of vocab.txt: a line each; of equal lines the last counts, as in BERT."""
    try:
        lines = content.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise CannotAdopt(f"{PLAIN} is not UTF-8: {error}") from None
    if lines and not lines[-1]:
        lines.pop()
    return {line: number for number, line in enumerate(lines)}


def _cleaning_of(settings: Mapping[str, Any]) -> Cleaning:
    lowercase = settings.get("do_lower_case")
    if lowercase is None:
        raise CannotAdopt(
            f"{PLAIN} says nothing of lower case: write do_lower_case = true or false into "
            f"{SETTINGS} beside it"
        )
    accents = settings.get("strip_accents")
    chinese = settings.get("tokenize_chinese_chars", True)
    accents = lowercase if accents is None else accents
    return Cleaning(bool(lowercase), bool(accents), True, bool(chinese))


def _wordpiece(vocab: Mapping[str, int], cleaning: Cleaning, name: str) -> ForeignVocabulary:
    if missing := [token for token in BERT_TOKENS if token not in vocab]:
        raise CannotAdopt(f"{name} lacks {missing}; need BERT's special tokens {BERT_TOKENS}")
    others = sorted((place, piece) for piece, place in vocab.items() if piece not in BERT_TOKENS)
    order = [*WORDPIECE_SPECIAL_TOKENS, *(piece for _, piece in others), WORDPIECE_MASK_TOKEN]
    tokenizer = wordpiece_tokenizer(
        {piece: number for number, piece in enumerate(order)}, cleaning.lowercase
    )
    tokenizer.normalizer = bert_normalizer(*cleaning)
    content = tokenizer.to_str(pretty=False).encode("utf-8")
    rows = np.array([vocab[piece] for piece in order], dtype=np.int64)
    return ForeignVocabulary(WordPieceVocabulary(content), rows)
