"""Text to counted words as BERT's tokenizer cuts it, for a WordPiece vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import pyarrow as pa
from tokenizers import pre_tokenizers

from pipelines.core.wordpiece import MAX_WORD_CHARACTERS, Cleaning, bert_normalizer

_normalizer = cache(bert_normalizer)


def bert_words(text: str, cleaning: Cleaning) -> list[str]:
    """The words of a text: blanks and punctuation separate, ideographs stand alone."""
    normal = _normalizer(*cleaning).normalize_str(text)
    return [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normal)]


def count_bert_words(
    texts: Iterable[str], lowercase: bool, cleaning: Cleaning | None = None
) -> pa.Table:
    """Count the words of texts; both rules look at no blank's neighbours, so that it is enough to
    take each distinct stretch between blanks apart.

    Args:
        cleaning: of a vocabulary that cleans text otherwise than by `lowercase` alone.

    Returns:
        Columns `word` and `count`. Words above MAX_WORD_CHARACTERS are there in parts of that
        length: as they are they would teach the vocabulary nothing.
    """
    cleaning = cleaning or Cleaning(lowercase, lowercase)
    stretches: Counter[str] = Counter()
    for text in texts:
        stretches.update(text.replace("\n", " ").split(" "))
    counts: Counter[str] = Counter()
    for stretch, count in stretches.items():
        for word in bert_words(stretch, cleaning):
            for start in range(0, len(word), MAX_WORD_CHARACTERS):
                counts[word[start : start + MAX_WORD_CHARACTERS]] += count
    return pa.table(
        {
            "word": pa.array(list(counts), pa.string()),
            "count": pa.array(list(counts.values()), pa.int64()),
        }
    )
