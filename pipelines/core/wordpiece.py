"""BERT's vocabulary: WordPiece by Hugging Face `tokenizers`, in the same layout of ids.

[CLS] 0, [PAD] 1, [SEP] 2, [UNK] 3, pieces from 4, [MASK] last, so that the ids of `<s>`, `<pad>`,
`</s>`, `<unk>` and `<mask>` in vocabulary.py are those of their counterparts here. Source: BERT's
tokenization.py (basic and WordPiece tokenizers).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
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

from pipelines.core.mask_rules import Ids
from pipelines.core.vocabulary import (
    BOS_ID,
    EOS_ID,
    FIRST_PIECE_ID,
    UNK_ID,
    IdLayout,
    encodable,
    join_encoded,
    without_surrogates,
)
from pipelines.core.word_cache import MAX_CACHED_WORDS, WordCache
from pipelines.core.words import piece_word_starts

WORDPIECE_SPECIAL_TOKENS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]")
"""The first four ids, in order; [MASK] is the last one."""
WORDPIECE_MASK_TOKEN = "[MASK]"
CONTINUING = "##"
"""How a piece is marked that goes on with a word."""
MAX_WORD_CHARACTERS = 100
"""BERT's: a longer word is [UNK]."""
_CHUNK = 1024


def bert_normalizer(
    lowercase: bool,
    strip_accents: bool | None = None,
    clean_text: bool = True,
    handle_chinese_chars: bool = True,
) -> normalizers.BertNormalizer:
    """BERT's cleaning of text; `lowercase` also takes accents away, as BERT's uncased models do.

    Args:
        strip_accents: take accents away; not given: as `lowercase`.
        clean_text: control characters go, and every blank is a blank.
        handle_chinese_chars: put blanks around Chinese characters.
    """
    return normalizers.BertNormalizer(
        clean_text=clean_text,
        handle_chinese_chars=handle_chinese_chars,
        strip_accents=lowercase if strip_accents is None else strip_accents,
        lowercase=lowercase,
    )


class Cleaning(NamedTuple):
    """The arguments of `bert_normalizer` that a tokenizer was made with."""

    lowercase: bool
    strip_accents: bool
    clean_text: bool = True
    handle_chinese_chars: bool = True


def wordpiece_tokenizer(vocab: Mapping[str, int], lowercase: bool) -> Tokenizer:
    """BERT's tokenizer with the given pieces, ready to encode or to be saved.

    Text is cleaned as BERT does it: control characters go, every blank is a blank, a Chinese
    character is a word, and with `lowercase` letters lose their accents too.

    Args:
        vocab: id by piece, with the special tokens at their places.
        lowercase: write everything in lower case and without accents, as BERT's uncased models.

    Raises:
        ValueError: ids are not 0 ... n - 1, or a special token is not at its place; it is named.
    """
    if sorted(vocab.values()) != list(range(len(vocab))):
        raise ValueError(f"{len(vocab)} pieces need the ids 0 ... {len(vocab) - 1}, each once")
    tokenizer = Tokenizer(
        models.WordPiece(
            dict(vocab), unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_CHARACTERS
        )
    )
    _check_places(tokenizer)
    tokenizer.normalizer = bert_normalizer(lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUING, cleanup=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", BOS_ID), ("[SEP]", EOS_ID)],
    )
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True) for t in (*WORDPIECE_SPECIAL_TOKENS, WORDPIECE_MASK_TOKEN)]
    )
    return tokenizer


class WordPieceVocabulary(IdLayout):
    """A `tokenizers` WordPiece file with the members of `Vocabulary`.

    Args:
        tokenizer_json: the bytes of tokenizer.json.
        max_cached_words: words whose ids are kept between calls; 0 for none. Cleaning and cutting
            work word by word, so this changes the speed alone.

    Raises:
        ValueError: it is no WordPiece, or its special tokens are not at their places.
    """

    def __init__(self, tokenizer_json: bytes, max_cached_words: int = MAX_CACHED_WORDS) -> None:
        self.model = tokenizer_json
        self._tokenizer = Tokenizer.from_str(tokenizer_json.decode("utf-8"))
        if not isinstance(self._tokenizer.model, models.WordPiece):
            raise ValueError(
                f"tokenizer.json holds {type(self._tokenizer.model).__name__}, need WordPiece"
            )
        _check_places(self._tokenizer)
        # A literal [MASK] or [SEP] in a text is text.
        self._tokenizer.encode_special_tokens = True
        _read_no_masks(self._tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._words = WordCache(self._encode_lines, max_cached_words) if max_cached_words else None

    @property
    def rows(self) -> int:
        """Rows of the embedding table: ids 0 ... mask_id."""
        return int(self._tokenizer.get_vocab_size())

    @property
    def cleaning(self) -> Cleaning:
        """How text is cleaned before it is cut."""
        found: Any = self._tokenizer.normalizer
        accents = found.lowercase if found.strip_accents is None else found.strip_accents
        return Cleaning(found.lowercase, accents, found.clean_text, found.handle_chinese_chars)

    @property
    def piece_count(self) -> int:
        """rows - 2, as for a Unigram vocabulary, where neither <pad> nor <mask> is a piece."""
        return self.rows - 2

    @cached_property
    def word_starts(self) -> npt.NDArray[np.bool_]:
        """Whether a piece begins a word, shape (rows,); see `piece_word_starts`."""
        return piece_word_starts([self.token(i) for i in range(self.rows)], "wordpiece")

    def encode_ragged(self, texts: Sequence[str]) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Encode texts to ordinary ids, without [CLS] and [SEP].

        Nothing in a text becomes a special id but [UNK].

        Returns:
            ids of all texts, shape (tokens,), and where each begins and ends, shape (texts + 1,).
        """
        encoder = self._words.encode if self._words is not None else self._encode_lines
        return join_encoded(encoder(texts))

    def _encode_lines(self, lines: Sequence[str]) -> list[bytes]:
        batch = self._tokenizer.encode_batch_fast(encodable(lines), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.uint32).tobytes() for encoding in batch]

    def decode(self, ids: Sequence[int]) -> str:
        """Turn ordinary ids back into text; special ids are left out, [UNK] stays."""
        kept = [int(i) for i in ids if i == UNK_ID or FIRST_PIECE_ID <= i < self.mask_id]
        return str(self._tokenizer.decode(kept, skip_special_tokens=False))

    def normalize(self, text: str) -> str:
        """The text as it is before it is cut: cleaned, blanks folded."""
        normal = self._tokenizer.normalizer.normalize_str(without_surrogates(text))
        return " ".join(normal.split())

    def token(self, token_id: int) -> str:
        """The written form of an id.

        Raises:
            IndexError: there is no such id.
        """
        if not 0 <= token_id < self.rows:
            raise IndexError(f"id {token_id} is outside 0 ... {self.rows - 1}")
        return str(self._tokenizer.id_to_token(token_id))

    def score(self, token_id: int) -> float:
        """0: pieces of WordPiece have no scores."""
        return 0.0


def reading_masks(tokenizer_json: bytes) -> str:
    """A tokenizer.json that reads [MASK] in text as the mask, even where it reads no other name.

    BERT cuts at brackets before it looks a word up, so the name is kept whole. It is read after
    cleaning: in an uncased vocabulary `[mask]` is one too.

    Args:
        tokenizer_json: the file of a `WordPieceVocabulary`, which itself reads no masks.
    """
    tokenizer = Tokenizer.from_str(tokenizer_json.decode("utf-8"))
    _read_no_masks(tokenizer)
    cleaned = tokenizer.normalizer.normalize_str(WORDPIECE_MASK_TOKEN)
    if cleaned != WORDPIECE_MASK_TOKEN:
        back = normalizers.Replace(cleaned, WORDPIECE_MASK_TOKEN)
        tokenizer.normalizer = normalizers.Sequence([tokenizer.normalizer, back])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(rf"\[MASK\]|{_punctuation()}"), "isolated"),
            pre_tokenizers.WhitespaceSplit(),
        ]
    )
    return str(tokenizer.to_str(pretty=False))


def _read_no_masks(tokenizer: Tokenizer) -> None:
    """Undo `reading_masks`."""
    if isinstance(tokenizer.pre_tokenizer, pre_tokenizers.Sequence):
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        if isinstance(tokenizer.normalizer, normalizers.Sequence):
            tokenizer.normalizer = tokenizer.normalizer[0]


@cache
def _punctuation() -> str:
    """The characters at which BertPreTokenizer cuts, as a class of a regular expression."""
    cut = pre_tokenizers.BertPreTokenizer()
    points = [point for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    found: list[int] = []
    for start in range(0, len(points), _CHUNK):
        # Between letters, what it cuts at stands alone and blanks are gone.
        text = "a" + "".join(f"{chr(point)}a" for point in points[start : start + _CHUNK])
        words = [word for word, _ in cut.pre_tokenize_str(text)]
        found += [ord(word) for word in words if len(word) == 1 and word != "a"]
    return "[" + "".join(f"\\x{{{point:x}}}" for point in found) + "]"


def _check_places(tokenizer: Tokenizer) -> None:
    last = tokenizer.get_vocab_size() - 1
    wanted = [*enumerate(WORDPIECE_SPECIAL_TOKENS), (last, WORDPIECE_MASK_TOKEN)]
    for place, token in wanted:
        found = tokenizer.token_to_id(token)
        if found != place:
            raise ValueError(f"{token} has id {found}, need {place}")
