"""A vocabulary with more pieces: what is added, how it is scored, and what stays."""

from __future__ import annotations

import html
import lzma
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.vocabulary import Vocabulary
from pipelines.train_vocabulary.grow import choose, exchange_of, grow, rescored, with_pieces
from pipelines.train_vocabulary.normalizer import word_normalizer
from pipelines.train_vocabulary.unigram_trainer import train_on_words
from pipelines.train_vocabulary.word_counts import (
    WordCounts,
    count_words,
    words_table,
)
from tests.pipelines.train_vocabulary.corpus import texts_of
from tests.pipelines.train_vocabulary.known_models import model_of

SECTION = VocabularySection(size=150, num_threads=1)


def words_of(texts: list[str]) -> WordCounts:
    return count_words(texts, word_normalizer("nmt_nfkc"))


@pytest.fixture(scope="module")
def english() -> Vocabulary:
    words = words_of(texts_of("en", 60))
    return Vocabulary(train_on_words(words, SECTION, "abcdefghij"))


def test_old_pieces_keep_ids_and_scores_and_new_ones_follow(english: Vocabulary) -> None:
    words = words_of(texts_of("ru", 40))
    found = grow(english, words, SECTION, "абвгдежзик", 60)
    new = found.vocabulary

    assert new.rows == english.rows + 60 and new.mask_id == english.mask_id + 60
    kept = range(english.mask_id)
    assert [new.token(i) for i in kept] == [english.token(i) for i in kept]
    assert [new.score(i) for i in kept] == [english.score(i) for i in kept]
    added = [new.token(i) for i in range(english.mask_id, new.mask_id)]
    assert len(set(added)) == 60 and not set(added) & {english.token(i) for i in kept}
    assert set("абвгдежзик") <= set(added)
    assert found.candidates >= 60
    # Scores are multiples of 2^-6, as the old ones are, so that words can be encoded one by one.
    assert new.not_by_word is None
    rules = [ModelProto.FromString(v.model).normalizer_spec for v in (english, new)]
    assert rules[0] == rules[1]


def test_text_without_new_pieces_is_cut_as_before(english: Vocabulary) -> None:
    new = grow(english, words_of(texts_of("ru", 40)), SECTION, "", 60).vocabulary
    for text in texts_of("en", 30, seed=2):
        assert new.encode(text).tolist() == english.encode(text).tolist()


def test_the_result_is_a_function_of_the_counts_alone(english: Vocabulary) -> None:
    words = words_of(texts_of("ru", 40))
    backwards = words.take(np.arange(len(words))[::-1].copy())
    models = [grow(english, w, SECTION, "", 40).vocabulary.model for w in (words, backwards)]
    assert models[0] == models[1]


def counted(pairs: dict[str, int]) -> WordCounts:
    return words_table(Counter(pairs))


def test_scores_are_shares_of_the_text_on_the_scale_of_the_old_ones() -> None:
    """Known by hand: 30 words "ab" of a new piece, 10 words "c" of an old one with the score -8."""
    old = Vocabulary(model_of(["▁", "a", "b", "c", "▁c"]))
    words = counted({"ab": 30, "c": 10})
    scores, exchange = rescored(old, {"▁ab": -9.0}, words)

    # n = 40 pieces, 10 of them old: c = -8 - ln(10/40), and the new piece has ln(30/40) + c.
    assert exchange == pytest.approx(-8 - math.log(10 / 40))
    assert scores["▁ab"] == pytest.approx(math.log(30 / 40) + exchange, abs=2**-7)
    assert scores["▁ab"] * 64 == round(scores["▁ab"] * 64)


def test_a_piece_that_never_wins_keeps_its_score_and_old_pieces_alone_set_the_scale() -> None:
    old = Vocabulary(model_of(["▁", "a", "b", "▁ab"]))
    scores, _ = rescored(old, {"ab": -30.0}, counted({"ab": 5}))
    assert scores == {"ab": -30.0}
    assert exchange_of(old, np.zeros(old.rows - 1, dtype=np.int64), 0) == 0.0


def test_those_are_chosen_that_save_the_most_tokens() -> None:
    """Ten words "xyz" of four old pieces save 30; 20 words "ab" of three save 40."""
    old = Vocabulary(model_of(["▁", "a", "b", "x", "y", "z"]))
    words = counted({"xyz": 10, "ab": 20})
    pieces = {"▁xyz": -3.0, "▁ab": -3.0}
    assert choose(old, pieces, words, "", 1) == ["▁ab"]
    assert choose(old, pieces, counted({"xyz": 14, "ab": 20}), "", 1) == ["▁xyz"]


def test_a_piece_brings_its_characters_and_what_is_asked_for_comes_first() -> None:
    old = Vocabulary(model_of(["▁", "a"]))
    pieces = {"▁xy": -2.0, "x": -5.0, "y": -5.0, "q": -9.0, "▁aa": -3.0}
    words = counted({"xy": 50, "aa": 10})
    assert set(choose(old, pieces, words, "", 3)) == {"▁xy", "x", "y"}
    # There is no room for all three: the next best is taken.
    assert set(choose(old, pieces, words, "", 2)) == {"▁aa", "x"} or set(
        choose(old, pieces, words, "", 2)
    ) == {"▁aa", "y"}
    assert "q" in choose(old, pieces, words, "q", 2)


def test_too_many_and_too_few_pieces_are_refused_with_what_would_do(english: Vocabulary) -> None:
    words = words_of(texts_of("ru", 10))
    with pytest.raises(ConfigError, match=r"add_pieces = 9: the text has 10 char.* above 10"):
        grow(english, words, SECTION, "абвгдежзик", 9)
    with pytest.raises(ConfigError, match=r"add_pieces = 5000: .* only \d+ pieces that the"):
        grow(english, words, SECTION, "", 5000)


def test_models_grow_without_losing_anything_else() -> None:
    model = model_of(["▁", "a"], byte_fallback=True)
    grown = ModelProto.FromString(with_pieces(model, {"▁a": -1.0}))
    old = ModelProto.FromString(model)
    assert list(grown.pieces)[:-1] == list(old.pieces)
    assert grown.trainer_spec.vocab_size == len(old.pieces) + 1
    assert grown.trainer_spec.byte_fallback and grown.normalizer_spec == old.normalizer_spec


def bible(shared_data: Path, name: str, most: int) -> list[str]:
    path = shared_data / "text" / "bible" / f"{name}.xml.xz"
    text = lzma.decompress(path.read_bytes()).decode("utf-8")
    verses = re.findall(r"<seg[^>]*>(.*?)</seg>", text, re.DOTALL)
    return [re.sub("<[^>]*>", "", html.unescape(verse)).strip() for verse in verses[:most]]


@pytest.mark.parametrize("name", ["Gujarati-NT", "Swahili-NT"], ids=["new script", "same script"])
def test_fertility_falls_in_the_new_language_and_stays_in_the_old(
    shared_data: Path, name: str
) -> None:
    section = VocabularySection(size=2000, num_threads=1)
    old_texts, new_texts = bible(shared_data, "Basque-NT", 3000), bible(shared_data, name, 3000)
    old = Vocabulary(train_on_words(words_of(old_texts[300:]), section))
    characters = Counter(old.normalize("".join(new_texts[300:])).replace(" ", ""))
    letters = "".join(sorted(c for c, count in characters.items() if count > 1))
    new = grow(old, words_of(new_texts[300:]), section, letters, 1000).vocabulary

    def tokens_per_word(vocabulary: Vocabulary, texts: list[str]) -> float:
        return len(vocabulary.encode_ragged(texts)[0]) / sum(len(text.split()) for text in texts)

    held_out, ours = old_texts[:300], new_texts[:300]
    # New pieces also shorten old text here and there; it must not get longer.
    ratio = tokens_per_word(new, held_out) / tokens_per_word(old, held_out)
    assert 0.97 < ratio <= 1.01 if name == "Swahili-NT" else ratio == pytest.approx(1, abs=1e-3)
    if name == "Swahili-NT":
        assert tokens_per_word(new, ours) < 0.7 * tokens_per_word(old, ours)
    assert np.mean(new.encode_ragged(ours)[0] == 3) < 0.001
    # A vocabulary of that size trained on the new language alone is hardly better.
    own = train_on_words(words_of(new_texts[300:]), section.model_copy(update={"size": 1000}))
    assert tokens_per_word(new, ours) < 1.1 * tokens_per_word(Vocabulary(own), ours)
