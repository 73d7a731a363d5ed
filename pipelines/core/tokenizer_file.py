"""The vocabulary as a Hugging Face `tokenizers` file that gives the same ids as SentencePiece."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any

from sentencepiece import sentencepiece_model_pb2
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from pipelines.core.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocabulary


def missed_compositions(vocabulary: Vocabulary, precompiled: Any) -> list[Any]:
    """Replacements for the character pairs that `Precompiled` does not compose.

    It looks up single characters where a grapheme has six bytes or more, while SentencePiece
    matches sequences: a decomposed Bengali vowel sign (U+09C7 U+09BE) would get other pieces.
    """
    replacements = []
    for code in range(sys.maxunicode + 1):
        pair = unicodedata.decomposition(chr(code))
        if not pair or pair.startswith("<") or " " not in pair:
            continue
        text = "".join(chr(int(part, 16)) for part in pair.split())
        composed = vocabulary.normalize(text)
        if composed != precompiled.normalize_str(text):
            replacements.append(normalizers.Replace(text, composed))
    return replacements


def tokenizer_json(vocabulary: Vocabulary) -> str:
    """The vocabulary as a Hugging Face `tokenizers` file in XLM-R ids."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.model)
    pieces = [(vocabulary.token(i), vocabulary.score(i)) for i in range(vocabulary.rows)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=UNK_ID, byte_fallback=False))
    steps: list[Any] = []
    if proto.normalizer_spec.precompiled_charsmap:
        precompiled = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
        steps += [*missed_compositions(vocabulary, precompiled), precompiled]
    # SentencePiece removes blanks at both ends and folds inner ones after normalising.
    steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip(left=True, right=True)]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", BOS_ID), ("</s>", EOS_ID)],
    )
    # A mask stands for a word with the blank before it, as in XLM-R's own tokenizer.
    mask = AddedToken("<mask>", lstrip=True, special=True)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", mask])
    assert tokenizer.token_to_id("<pad>") == PAD_ID
    assert tokenizer.token_to_id("<mask>") == vocabulary.mask_id
    return str(tokenizer.to_str(pretty=False))
