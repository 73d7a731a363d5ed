"""Text to tokens, sentence by sentence, for n-gram models. Stored text is never changed by it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import regex
import sentencepiece as spm
from sentencex import segment

from pipelines.core.records import PARAGRAPH_BREAK
from pipelines.core.words import BLANK_SIGN

DIGITS = regex.compile(r"\p{Nd}")
BLANKS = regex.compile(r"[\s\p{Cc}]+")
WORD_BOUNDARY = regex.compile(r"(?w)\b", regex.V1)
_SCRIPTS = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Han}\p{Hiragana}\p{Katakana}"
WITHOUT_BLANKS = regex.compile(rf"([{_SCRIPTS}][{_SCRIPTS}\p{{M}}\u200c\u200d]*)")
"""Runs of scripts that do not part words: they are cut into characters."""
CHARACTER = regex.compile(r"\X")

Sentence = list[str]


class Tokenizer(Protocol):
    """Normalised sentences to tokens, none of which is empty or holds a blank."""

    def __call__(self, sentences: Sequence[str]) -> list[Sentence]:
        """Cut each sentence into tokens."""
        ...


def normalise_sentence(text: str) -> str:
    """The form that the model sees: NFKC, lower case, every digit 0, single blanks.

    Source: CCNet (Wenzek et al. 2020), which also strips accents; here they stay.
    """
    text = unicodedata.normalize("NFKC", text).lower()
    normal: str = BLANKS.sub(" ", DIGITS.sub("0", text)).strip()
    return normal


def sentences_of(text: str, language: str) -> Iterator[str]:
    """The normalised sentences of a text, paragraph by paragraph; empty ones are left out."""
    code = language.split("-")[0]
    for paragraph in text.split(PARAGRAPH_BREAK):
        if paragraph.strip():
            for sentence in segment(code, paragraph):
                normal = normalise_sentence(sentence)
                if normal:
                    yield normal


def words(sentences: Sequence[str]) -> list[Sentence]:
    """Words and punctuation marks by the default word boundaries of Unicode (UAX 29).

    Where a script does not part words by blanks (Thai, Lao, Khmer, Burmese, Chinese, Japanese), a
    token is one user-perceived character.
    """
    return [_words(sentence) for sentence in sentences]


def _words(sentence: str) -> Sentence:
    tokens: Sentence = []
    for number, run in enumerate(WITHOUT_BLANKS.split(sentence)):
        if number % 2:
            tokens.extend(CHARACTER.findall(run))
            continue
        for token in WORD_BOUNDARY.split(run):
            tokens.extend(part for part in token.split(" ") if part)
    return tokens


def characters(sentences: Sequence[str]) -> list[Sentence]:
    """User-perceived characters (extended grapheme clusters, UAX 29); a blank is U+2581."""
    return [CHARACTER.findall(sentence.replace(" ", BLANK_SIGN)) for sentence in sentences]


class Pieces:
    """Pieces of a SentencePiece model.

    Args:
        model: the model file's bytes.
    """

    def __init__(self, model: bytes) -> None:
        self._processor = spm.SentencePieceProcessor(model_proto=model)

    def __call__(self, sentences: Sequence[str]) -> list[Sentence]:
        """Cut each sentence into pieces; characters that the model lacks stay as they are."""
        encoded = self._processor.encode(list(sentences), out_type=str, num_threads=1)
        return [[piece for piece in pieces if piece] for pieces in encoded]


def tokenizer_for(mode: str, model: bytes | None = None) -> Tokenizer:
    """The tokenizer of a setting of perplexity.tokens.

    Raises:
        ValueError: an unknown mode, or pieces without a model.
    """
    if mode == "words":
        return words
    if mode == "characters":
        return characters
    if mode == "pieces" and model is not None:
        return Pieces(model)
    raise ValueError(
        f"perplexity.tokens = {mode!r}: known are words, characters, and pieces with a model"
    )


def tokenize(
    texts: Iterable[str], language: str, tokenizer: Tokenizer, sentences_at_once: int = 10_000
) -> Iterator[list[list[Sentence]]]:
    """Yield, a batch at a time, the tokenized sentences of each text, in order.

    A sentence without any token is left out, so a text may come out as an empty list.
    """
    batch: list[list[str]] = []
    waiting = 0
    for text in texts:
        batch.append(list(sentences_of(text, language)))
        waiting += len(batch[-1])
        if waiting >= sentences_at_once:
            yield _tokenize_batch(batch, tokenizer)
            batch, waiting = [], 0
    if batch:
        yield _tokenize_batch(batch, tokenizer)


def _tokenize_batch(batch: list[list[str]], tokenizer: Tokenizer) -> list[list[Sentence]]:
    flat = iter(tokenizer([sentence for sentences in batch for sentence in sentences]))
    return [[tokens for tokens in (next(flat) for _ in part) if tokens] for part in batch]
