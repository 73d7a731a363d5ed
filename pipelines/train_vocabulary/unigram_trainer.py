"""Train a Unigram vocabulary with SentencePiece: on counted words, or on a file of lines.

Training on words costs a fraction of the memory and time, because a corpus of any size has few
million distinct spans (word_counts.py), and the trainer's own search for seed pieces, which needs
20 bytes a character of text, is replaced (seeds.py). EM and pruning are SentencePiece's; both take
a word's count as its weight (Kudo 2018, section 3.2).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.normalizers import normalizer_spec
from pipelines.core.store import local_file
from pipelines.core.unigram import MAX_LINE_BYTES
from pipelines.core.vocabulary import MASK_TOKEN, SPECIAL_TOKENS
from pipelines.train_vocabulary.quantise import quantise_scores
from pipelines.train_vocabulary.seeds import find_seeds
from pipelines.train_vocabulary.substrings import MAX_PIECE_CHARACTERS
from pipelines.train_vocabulary.word_counts import WordCounts, split_spans

NO_TEXT = "vocabulary: there is no text to train on"
SEEDS_PER_PIECE = 2
"""Seeds for each piece that is wanted. On 84 MB of text in 34 languages 70 % of them outlive the
first round of EM and 55 % the first pruning: with 1.4 a piece too few are left."""
LEAST_SEEDS = 200_000
MORE_SEEDS = 4
"""Times as many are taken where they do not support the size, until there are no others."""
CHARACTERS = 1 << 21
"""Room for single characters, which the trainer adds to the seeds itself."""
NAMES = "".join(sorted({*"".join(SPECIAL_TOKENS), *MASK_TOKEN}))
"""Characters in the names of special tokens. With byte fallback each must be a piece, or the fast
tokenizer could not tell a name from the same text (core/tokenizer_file.py)."""
BYTES, CONTROL_PIECES = 256, 3
SUB_ITERATIONS = 1
"""Rounds of EM before each pruning. SentencePiece: 2; from weighted seeds one is as good."""


def train_on_words(
    words: WordCounts, section: VocabularySection, required_characters: str = ""
) -> bytes:
    """Train on counted words.

    The model does not depend on the order of the words. It depends on section.num_threads, because
    threads sum expected counts in float32.

    Args:
        words: see word_counts.py; weighted counts, at least 1.
        required_characters: get a piece of their own, however rare. With section.byte_fallback
            those in the names of special tokens are added.

    Returns:
        A SentencePiece model with the rules of section.normalization and quantised scores.

    Raises:
        ConfigError: there are no words, or they do not support section.size.
    """
    spans = split_spans(words)
    if not len(spans):
        raise ConfigError(NO_TEXT)
    seeds = max(SEEDS_PER_PIECE * section.size, LEAST_SEEDS)
    with local_file(".tsv") as spans_file, local_file(".tsv") as seeds_file:
        _write_pairs(spans_file, spans)
        while True:
            best = find_seeds(spans, seeds, threads=section.num_threads)
            _write_pairs(seeds_file, best)
            try:
                return _train(
                    section,
                    required_characters,
                    input=str(spans_file),
                    input_format="tsv",
                    seed_sentencepieces_file=str(seeds_file),
                    seed_sentencepiece_size=len(best) + CHARACTERS,
                    num_sub_iterations=SUB_ITERATIONS,
                    normalization_rule_name="identity",
                    add_dummy_prefix=False,
                    remove_extra_whitespaces=False,
                )
            except TooLarge:
                if len(best) < seeds:
                    raise
                seeds *= MORE_SEEDS


def train_on_lines(path: Path, section: VocabularySection, required_characters: str = "") -> bytes:
    """Train on a file of lines, as plain SentencePiece does; see `train_on_words`.

    Lines above 4,192 bytes are left out (core/unigram.py splits them before).
    """
    rules = section.normalization
    return _train(
        section,
        required_characters,
        input=str(path),
        normalizer=spm.SentencePieceNormalizer(normalizer_spec=normalizer_spec(rules)),
        max_sentence_length=MAX_LINE_BYTES + 192,
    )


class TooLarge(ConfigError):
    """The text does not support so many pieces."""

    def __init__(self, text: str, largest: int) -> None:
        super().__init__(text)
        self.largest = largest
        """As many as it supports."""


def _write_pairs(path: Path, words: WordCounts) -> None:
    """Lines of word, tab, count."""
    lines = pc.binary_join_element_wise(words["word"], words["count"].cast(pa.string()), "\t")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines.to_pylist())


def _train(section: VocabularySection, required_characters: str, **given: Any) -> bytes:
    """Call the trainer; model with the section's rules, quantised scores and no names of files."""
    if section.byte_fallback:
        required_characters = "".join(sorted({*required_characters, *NAMES}))
    with local_file() as prefix:
        try:
            spm.SentencePieceTrainer.train(
                model_prefix=str(prefix),
                model_type="unigram",
                vocab_size=section.size,
                character_coverage=section.character_coverage,
                required_chars=required_characters,
                byte_fallback=section.byte_fallback,
                max_sentencepiece_length=MAX_PIECE_CHARACTERS,
                num_threads=section.num_threads,
                unk_id=0,
                bos_id=1,
                eos_id=2,
                pad_id=-1,
                minloglevel=2,
                **given,
            )
        except RuntimeError as error:
            raise _explained(error, section) from error
        model = prefix.with_suffix(".model").read_bytes()
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.CopyFrom(normalizer_spec(section.normalization))
    for name in ("input", "input_format", "model_prefix", "seed_sentencepieces_file"):
        proto.trainer_spec.ClearField(name)
    return quantise_scores(bytes(proto.SerializeToString(deterministic=True)))


def _explained(error: RuntimeError, section: VocabularySection) -> Exception:
    """Turn the trainer's message about sizes into one about the setting."""
    text = str(error)
    if "!sentences_.empty()" in text or "(all_chars_count) > (0)" in text:
        return ConfigError(NO_TEXT)
    high = re.search(r"Vocabulary size too high.*?<= *(\d+)", text, re.DOTALL)
    low = re.search(r"smaller than required_chars\.? *(\d+) vs (\d+)", text)
    if high:
        return TooLarge(
            f"vocabulary.size = {section.size}: the text supports at most "
            f"{high.group(1)} pieces; set vocabulary.size to that or less",
            int(high.group(1)),
        )
    if low:
        needed = int(low.group(2))
        others = CONTROL_PIECES + (BYTES if section.byte_fallback else 0)
        bytes_too = f"{BYTES} bytes and " if section.byte_fallback else ""
        return ConfigError(
            f"vocabulary.size = {section.size}: the text has {needed - others} characters at "
            f"character_coverage {section.character_coverage}, and each needs a piece, beside "
            f"{bytes_too}{CONTROL_PIECES} control pieces; set vocabulary.size well above {needed}"
        )
    return error
