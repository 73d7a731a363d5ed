"""A vocabulary as Hugging Face files whose fast tokenizer gives the same ids as SentencePiece.

Names of special tokens in text. A web page may hold `</s>` or `<mask>` as text. To SentencePiece,
and so to packing, that is text like any other. What `AutoTokenizer.from_pretrained(folder)` makes
of it:

- `<s>`, `<pad>`, `</s>`, `<unk>` ([CLS], [PAD], [SEP], [UNK]) are text, with the ids of packing. A
  fast tokenizer looks for these names first unless it is told not to; tokenizer_config.json tells
  it so (`split_special_tokens`).
- `<mask>` ([MASK]) is the mask, for `pipeline("fill-mask", folder)` is of no use otherwise. It is
  read by the model inside tokenizer.json, as a piece that wins against all others, after
  normalisation: `\uff1cmask\uff1e` is one too under NFKC. The blank before it goes with it, as it
  stands for a word; what follows is cut as it is in packed text. This is the one exception to "the
  ids of packing for every text"; packing itself never reads a mask.

`tokenizer(text, split_special_tokens=False)` reads all five names. So does
`tokenizers.Tokenizer.from_file`, which knows nothing of tokenizer_config.json: set
`tokenizer.encode_special_tokens = True` for what AutoTokenizer gives.

A lone surrogate must be replaced by the caller: `tokenizers` refuses it. Blanks at both ends of the
text go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors as post

from pipelines.core.fast_normalizer import fast_normalizer
from pipelines.core.vocabulary import (
    BOS_ID,
    EOS_ID,
    FIRST_PIECE_ID,
    MASK_TOKEN,
    SPECIAL_TOKENS,
    UNK_ID,
    Vocabulary,
)
from pipelines.core.wordpiece import (
    WORDPIECE_MASK_TOKEN,
    WORDPIECE_SPECIAL_TOKENS,
    WordPieceVocabulary,
    reading_masks,
)
from pipelines.core.words import BLANK_SIGN

NEVER = -10_000.0
"""Score of pieces that no text may become: names of special tokens, and bytes. SentencePiece keeps
them out of its search; Hugging Face's Unigram has one table for all."""
ALWAYS = 10_000.0
"""Score of `<mask>`: above what any other segmentation of a word could gain."""
STAND_INS = "\ue000\uf8ff\U000f0000\U0010fffd"
"""Characters of private use, one of which is unknown to any vocabulary."""


def tokenizer_files(
    vocabulary: Vocabulary | WordPieceVocabulary, max_length: int = 512
) -> dict[str, bytes]:
    """All files that `AutoTokenizer.from_pretrained` needs, by name.

    Args:
        vocabulary: Unigram or WordPiece.
        max_length: tokens of a sequence, special ones included (`model_max_length`).

    Returns:
        tokenizer.json, tokenizer_config.json, special_tokens_map.json.

    Raises:
        ValueError: see `tokenizer_json`.
    """
    if isinstance(vocabulary, WordPieceVocabulary):
        written = reading_masks(vocabulary.model)
        (bos, pad, eos, unk), mask = WORDPIECE_SPECIAL_TOKENS, WORDPIECE_MASK_TOKEN
    else:
        written = tokenizer_json(vocabulary)
        (bos, pad, eos, unk), mask = SPECIAL_TOKENS, MASK_TOKEN
    special = {
        "bos_token": bos,
        "eos_token": eos,
        "sep_token": eos,
        "cls_token": bos,
        "unk_token": unk,
        "pad_token": pad,
        "mask_token": mask,
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
        # Our encoder knows one type of token, so a pair must not bring a second one.
        "model_input_names": ["input_ids", "attention_mask"],
        **special,
    }
    return {
        "tokenizer.json": written.encode("utf-8"),
        "tokenizer_config.json": _json(settings),
        "special_tokens_map.json": _json(special),
    }


def tokenizer_json(vocabulary: Vocabulary) -> str:
    """A Unigram vocabulary as a Hugging Face `tokenizers` file in XLM-R ids.

    Raises:
        ValueError: a model with user-defined symbols, without a blank before words, or with a
            piece whose characters are no pieces; none comes from our trainer. Or one with byte
            fallback that has no piece for a character of the special tokens' names.
    """
    model = ModelProto.FromString(vocabulary.model)
    kinds = model.SentencePiece
    in_bytes = bool(model.trainer_spec.byte_fallback)
    pieces = {piece.piece for piece in model.pieces if piece.type == kinds.NORMAL}
    if any(piece.type == kinds.USER_DEFINED for piece in model.pieces):
        raise ValueError("a model with user-defined symbols cannot be written as tokenizer.json")
    table = [(vocabulary.token(i), NEVER) for i in range(FIRST_PIECE_ID)]
    table += [
        (piece.piece, float(piece.score) if piece.type == kinds.NORMAL else NEVER)
        for piece in model.pieces[FIRST_PIECE_ID - 1 :]
    ]
    table.append((MASK_TOKEN, ALWAYS))
    characters = set("".join(pieces))
    if lacking := characters - pieces:
        raise ValueError(
            f"{min(lacking)!r} occurs in pieces and is none: unknown characters would be cut "
            "otherwise than by SentencePiece"
        )
    tokenizer = Tokenizer(models.Unigram(table, unk_id=UNK_ID, byte_fallback=in_bytes))
    tokenizer.normalizer = normalizers.Sequence(
        [
            fast_normalizer(model.normalizer_spec, characters),
            # A mask stands for a word with the blank before it, as in XLM-R's own tokenizer.
            normalizers.Replace(f" {MASK_TOKEN}", MASK_TOKEN),
            *_unknown_in_names(characters, in_bytes),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement=BLANK_SIGN, prepend_scheme="never"
    )
    words = decoders.Metaspace(replacement=BLANK_SIGN, prepend_scheme="always")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), words]) if in_bytes else words
    tokenizer.post_processor = post.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", BOS_ID), ("</s>", EOS_ID)],
    )
    mask = AddedToken(MASK_TOKEN, lstrip=True, special=True)
    tokenizer.add_special_tokens([*SPECIAL_TOKENS, mask])
    return str(tokenizer.to_str(pretty=False))


def _unknown_in_names(characters: set[str], in_bytes: bool) -> list[Any]:
    """Replacements for characters of the special tokens' names that are unknown to the vocabulary.

    An unknown character costs more than NEVER, so the name itself would be taken for it: with
    another unknown character in its place the name does not occur, and the ids are the same. The
    mask's own name stays.
    """
    unknown = sorted(set("".join((*SPECIAL_TOKENS, MASK_TOKEN))) - characters)
    if unknown and in_bytes:
        raise ValueError(
            f"no piece for {''.join(unknown)!r}, which occur in the names of special tokens, so "
            "that they could not be told from text; require these characters in training"
        )
    stand_in = min(set(STAND_INS) - characters) if unknown else ""
    return [normalizers.Replace(_outside_mask(character), stand_in) for character in unknown]


def _outside_mask(character: str) -> Regex | str:
    """What matches a character except inside `<mask>`, where each stands once."""
    before, found, after = MASK_TOKEN.partition(character)
    if not found:
        return character
    places = [f"(?<!{before}){character}"] * bool(before)
    return Regex("|".join([*places, *[f"{character}(?!{after})"] * bool(after)]))


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8")
