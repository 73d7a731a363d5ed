"""BERT's vocabulary: ids, cleaning, and the same members as the Unigram one."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, trainers

from pipelines.core.vocabulary import Vocabulary, without_surrogates
from pipelines.core.wordpiece import (
    WORDPIECE_MASK_TOKEN,
    WORDPIECE_SPECIAL_TOKENS,
    WordPieceVocabulary,
    wordpiece_tokenizer,
)
from tests.pipelines.core.small_vocabularies import LINES, SECOND_LINES, small_model
from tests.pipelines.core.test_word_cache import TEXT


def with_special(*pieces: str) -> dict[str, int]:
    names = [*WORDPIECE_SPECIAL_TOKENS, *pieces, WORDPIECE_MASK_TOKEN]
    return {name: number for number, name in enumerate(names)}


@cache
def small_wordpiece(lowercase: bool) -> bytes:
    """tokenizer.json of a vocabulary trained on LINES."""
    empty = wordpiece_tokenizer(with_special("a"), lowercase)
    empty.model = models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")
    trainer = trainers.WordPieceTrainer(vocab_size=900, show_progress=False)
    empty.train_from_iterator(LINES, trainer)
    special = (*WORDPIECE_SPECIAL_TOKENS, WORDPIECE_MASK_TOKEN)
    pieces = sorted(set(empty.get_vocab()) - set(special))
    return str(wordpiece_tokenizer(with_special(*pieces), lowercase).to_str()).encode("utf-8")


@pytest.fixture(scope="module", params=[False, True], ids=["cased", "uncased"])
def vocabulary(request: pytest.FixtureRequest) -> WordPieceVocabulary:
    return WordPieceVocabulary(small_wordpiece(request.param))


def test_text_is_cut_as_bert_cuts_it() -> None:
    pieces = with_special(
        "un", "##aff", "##able", "runn", "##ing", "[", "]", ",", "人", "mask", "e"
    )
    cased = WordPieceVocabulary(wordpiece_tokenizer(pieces, lowercase=False).to_str().encode())
    uncased = WordPieceVocabulary(wordpiece_tokenizer(pieces, lowercase=True).to_str().encode())

    def tokens(vocabulary: WordPieceVocabulary, text: str) -> list[str]:
        return [vocabulary.token(i) for i in vocabulary.encode(text)]

    assert tokens(cased, "unaffable,running") == ["un", "##aff", "##able", ",", "runn", "##ing"]
    assert tokens(cased, "Unaffable é") == ["[UNK]", "[UNK]"]
    assert tokens(uncased, "UNaffable É") == ["un", "##aff", "##able", "e"]
    assert tokens(cased, "人人un") == ["人", "人", "un"]
    assert tokens(uncased, "[MASK] [mask]") == ["[", "mask", "]"] * 2
    assert tokens(cased, "un\tun\x00\ufffd \nun") == ["un", "un", "un"]
    assert tokens(cased, "un" * 51) == ["[UNK]"]


def test_the_layout_of_ids(vocabulary: WordPieceVocabulary) -> None:
    assert [vocabulary.token(i) for i in range(4)] == ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
    assert vocabulary.token(vocabulary.mask_id) == "[MASK]"
    assert vocabulary.mask_id == vocabulary.rows - 1 == vocabulary.piece_count + 1
    assert vocabulary.special_ids == {0, 1, 2, 3, vocabulary.mask_id}
    with pytest.raises(IndexError, match="outside 0"):
        vocabulary.token(vocabulary.rows)


def test_members_are_those_of_the_unigram_vocabulary(vocabulary: WordPieceVocabulary) -> None:
    unigram = Vocabulary(small_model())
    for name, member in inspect.getmembers(Vocabulary):
        if not name.startswith("_"):
            other = getattr(WordPieceVocabulary, name)
            assert type(other) is type(member), name
            if callable(member):
                assert inspect.signature(other) == inspect.signature(member), name
    assert type(unigram.model) is type(vocabulary.model)


def plain_ids(vocabulary: WordPieceVocabulary, texts: list[str]) -> list[list[int]]:
    tokenizer = Tokenizer.from_str(vocabulary.model.decode("utf-8"))
    tokenizer.encode_special_tokens = True
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def test_ids_are_those_of_the_tokenizer_on_whole_lines(vocabulary: WordPieceVocabulary) -> None:
    texts = [*LINES, *SECOND_LINES, "a\nb\n\nc", "[CLS] [SEP] [MASK] [PAD] [UNK]"]
    found = [ids.tolist() for ids in vocabulary.encode_batch(texts)]
    assert found == plain_ids(vocabulary, texts)
    ids, offsets = vocabulary.encode_ragged(texts)
    assert ids.tolist() == [i for of_text in found for i in of_text]
    assert offsets.tolist() == np.cumsum([0, *map(len, found)]).tolist()
    assert set(ids.tolist()) & vocabulary.special_ids <= {3}


def test_any_text(vocabulary: WordPieceVocabulary) -> None:
    @settings(max_examples=300, deadline=None)
    @given(texts=st.lists(TEXT, max_size=3))
    def check(texts: list[str]) -> None:
        wanted = plain_ids(vocabulary, [without_surrogates(text) for text in texts])
        assert [ids.tolist() for ids in vocabulary.encode_batch(texts)] == wanted

    check()


def test_decoding(vocabulary: WordPieceVocabulary) -> None:
    line = "the quick brown fox jumps over the lazy dog"
    assert vocabulary.decode(vocabulary.encode(line).tolist()) == line
    assert vocabulary.decode([0, 1, 2, vocabulary.mask_id]) == ""
    assert vocabulary.decode([3]) == "[UNK]"


def test_word_starts(vocabulary: WordPieceVocabulary) -> None:
    starts = vocabulary.word_starts
    tokens = [vocabulary.token(i) for i in range(vocabulary.rows)]
    assert starts.shape == (vocabulary.rows,)
    latin = [i for i, token in enumerate(tokens) if token.removeprefix("##").isascii()]
    assert len(latin) > 20
    assert all(starts[i] != tokens[i].startswith("##") for i in latin)


def test_special_tokens_at_other_places_are_refused() -> None:
    wrong = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "[MASK]": 5}
    with pytest.raises(ValueError, match=r"\[CLS\] has id 2, need 0"):
        wordpiece_tokenizer(wrong, lowercase=False)
    not_last = {**with_special("a"), "[MASK]": 4, "a": 5}
    with pytest.raises(ValueError, match=r"\[MASK\] has id 4, need 5"):
        wordpiece_tokenizer(not_last, lowercase=False)
    with pytest.raises(ValueError, match="6 pieces need the ids 0 ... 5"):
        wordpiece_tokenizer({**with_special("a"), "a": 9}, lowercase=False)
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0)], unk_id=0)).to_str().encode()
    with pytest.raises(ValueError, match="holds Unigram, need WordPiece"):
        WordPieceVocabulary(unigram)
