"""Train the small Unigram model whose pieces the n-grams of one language are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable

import sentencepiece as spm

from pipelines.core.store import local_file
from pipelines.core.unigram import MAX_LINE_BYTES, lines_of, without_paths

CHARACTER_COVERAGE = 0.9995
"""CCNet's; rarer characters are unknown words."""
CONTROL_PIECES = 3


def train_pieces(sentences: Iterable[str], size: int) -> tuple[bytes, list[str]]:
    """Train a SentencePiece Unigram model on normalised sentences, one thread, unshuffled.

    Equal sentences in equal order give equal bytes.

    Args:
        sentences: normalised ones (see tokens.py); longer than 4,000 bytes are split.
        size: pieces wanted; fewer come where the text supports fewer.

    Returns:
        The model file's bytes, and notes on a size that had to give way.
    """
    notes: list[str] = []
    with local_file(".txt") as sample, local_file() as prefix:
        with sample.open("w", encoding="utf-8", newline="\n") as file:
            for sentence in sentences:
                file.writelines(f"{line}\n" for line in lines_of(sentence))
        try:
            _train(str(sample), str(prefix), size)
        except RuntimeError as error:
            low = re.search(r"smaller than required_chars\.? *(\d+) vs (\d+)", str(error))
            if low is None:
                raise
            needed = int(low.group(2)) + CONTROL_PIECES + 1
            notes.append(
                f"perplexity.pieces = {size}: the text has {low.group(2)} characters and control "
                f"pieces, and each needs a piece; {needed} were trained"
            )
            _train(str(sample), str(prefix), needed)
        return without_paths(prefix.with_suffix(".model").read_bytes()), notes


def _train(sample: str, prefix: str, size: int) -> None:
    spm.SentencePieceTrainer.train(
        input=sample,
        model_prefix=prefix,
        model_type="unigram",
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=CHARACTER_COVERAGE,
        normalization_rule_name="identity",
        shuffle_input_sentence=False,
        num_threads=1,
        max_sentence_length=MAX_LINE_BYTES + 192,
        minloglevel=2,
    )
