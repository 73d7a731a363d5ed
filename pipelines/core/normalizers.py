"""Rules by which SentencePiece models rewrite text before it is cut into pieces.

A rule set is part of the model, so training, packing, fine-tuning and the exported tokenizer use
the same one. Which to choose (`vocabulary.normalization`):

- `nmt_nfkc`: XLM-R's and SentencePiece's own. Compatibility forms become plain ones (`Ａ` → `A`,
  `…` → `...`), accents are composed, control characters go, every kind of blank becomes a blank.
  It turns the non-joiner U+200C into a blank, so that one word of Persian, Kurdish, Bengali,
  Kannada, Malayalam or Telugu becomes two, and splits Thai U+0E33 and Lao U+0EB3 (AM) in two marks,
  which decoding does not join again. U+200D is kept.
- `nmt_nfkc_joiners`: the same without these three rules. Take it unless ids must be XLM-R's.
- `nfkc`: no rules for control characters and invisible ones: U+200C is kept, and so are U+200B,
  U+FEFF, U+2028, tabs and line breaks, which most often are `<unk>`; Thai and Lao AM are split.
- `identity`: text stays as it is; `é` and `e` + U+0301 are other pieces. For text that has been
  normalised before, and for languages that NFKC harms.

All four fold blanks (U+0020) and put one before the first word. Source: SentencePiece's
normalization.md and builder.cc; the rules are read out of the library itself.
"""

from __future__ import annotations

from functools import cache

import sentencepiece as spm
from sentencepiece.sentencepiece_model_pb2 import NormalizerSpec

NORMALIZERS = ("nmt_nfkc", "nmt_nfkc_joiners", "nfkc", "identity")
KEPT_BY_JOINERS = ("\u200c", "\u200d", "\u0e33", "\u0eb3")
"""Characters that nmt_nfkc_joiners leaves alone: both joiners, Thai and Lao SARA AM."""


def normalizer_spec(name: str) -> NormalizerSpec:
    """The rule set of that name, ready to be put into a model; every call gives a new message.

    Raises:
        ValueError: there is no rule set of that name.
    """
    return NormalizerSpec.FromString(_serialized(name))


def rules_of(spec: NormalizerSpec) -> dict[str, str]:
    """The rewriting rules of a set, key to replacement; SentencePiece applies the longest key.

    Empty for a set without rules.
    """
    if not spec.precompiled_charsmap:
        return {}
    serialized = spec.SerializeToString(deterministic=True)
    return dict(spm.SentencePieceNormalizer(normalizer_spec=serialized).Decompile())


@cache
def _serialized(name: str) -> bytes:
    if name not in NORMALIZERS:
        raise ValueError(f"no normaliser {name!r}; there are {', '.join(NORMALIZERS)}")
    if name == "nmt_nfkc_joiners":
        rules = rules_of(normalizer_spec("nmt_nfkc"))
        for character in KEPT_BY_JOINERS:
            rules.pop(character, None)
        spm.set_min_log_level(2)  # the builder of rule sets writes to standard error
        made = spm.SentencePieceNormalizer(norm_map=list(rules.items()))
    else:
        made = spm.SentencePieceNormalizer(rule_name=name)
    spec = NormalizerSpec.FromString(made.serialized_normalizer_spec())
    spec.name = name
    return bytes(spec.SerializeToString(deterministic=True))
