from __future__ import annotations

import pytest

from pipelines.ngrams.pieces import train_pieces
from pipelines.ngrams.tokens import (
    Pieces,
    characters,
    normalise_sentence,
    sentences_of,
    tokenize,
    tokenizer_for,
    words,
)
from tests.pipelines.ngrams.reference import zipf_sentences


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  Page\t12 of\u00a0 3０ ", "page 00 of 00"),
        ("ﬁne ÉTÉ Ⅻ", "fine été xii"),
        ("٣ and ३", "0 and 0"),
        ("a\x00b\x1fc", "a b c"),
        ("می‌خواهم", "می‌خواهم"),
    ],
)
def test_the_form_that_the_model_sees(text: str, normal: str) -> None:
    assert normalise_sentence(text) == normal


def test_sentences_come_paragraph_by_paragraph_by_the_language_s_rules() -> None:
    text = "Dr. Smith came. He left!\n\n\n\n \n\nWhy?"

    assert list(sentences_of(text, "en")) == ["dr. smith came.", "he left!", "why?"]
    assert list(sentences_of("你好。我很好！", "zh-Hans")) == ["你好。", "我很好!"]


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("don't stop, e.g. 0.00 a—b", ["don't", "stop", ",", "e.g", ".", "0.00", "a", "—", "b"]),
        ("日本語のテキスト, ok", [*"日本語のテキスト", ",", "ok"]),
        ("ภาษาดี", ["ภ", "า", "ษ", "า", "ดี"]),
        ("ສະບາຍດີ", ["ສ", "ະ", "ບ", "າ", "ຍ", "ດີ"]),
        ("ខ្មែរ", ["ខ្មែ", "រ"]),
        ("မြန်မာ", ["မြ", "န်", "မ", "ာ"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("한국어 문장", ["한국어", "문장"]),
    ],
)  # fmt: skip
def test_words_and_characters_where_blanks_do_not_part_words(
    sentence: str, tokens: list[str]
) -> None:
    assert words([sentence]) == [tokens]


def test_characters_are_those_that_people_see_and_blanks_are_visible() -> None:
    assert characters(["e\u0301 नि"]) == [["e\u0301", "▁", "नि"]]


def test_no_token_holds_a_blank() -> None:
    sentence = normalise_sentence("a\u2028b \u3000 c\u0085d\r\ne\x1cf")

    for found in (*words([sentence]), *characters([sentence])):
        assert all(token and not any(ch.isspace() for ch in token) for token in found)


def sample() -> list[str]:
    return [" ".join(sentence) for sentence in zipf_sentences(3, 800, 60) if sentence]


def test_pieces_are_the_same_every_time_and_join_to_the_sentence() -> None:
    model, notes = train_pieces(sample(), 200)
    again, _ = train_pieces(sample(), 200)
    pieces = Pieces(model)

    assert notes == []
    assert model == again
    [found] = pieces(["w00 w01 rare07"])
    assert "".join(found) == "▁w00▁w01▁rare07"
    assert len(found) < len("▁w00▁w01▁rare07")


def test_a_small_text_gets_fewer_pieces() -> None:
    model, notes = train_pieces(["the cat sat on the mat", "the dog sat"], 65_536)

    assert notes == []
    assert "".join(Pieces(model)(["the cat"])[0]) == "▁the▁cat"


def test_more_characters_than_pieces_get_a_piece_each_and_a_note() -> None:
    text = [chr(0x4E00 + n) + chr(0x4E01 + n) + "的" for n in range(300)] * 3

    model, notes = train_pieces(text, 100)

    assert len(notes) == 1
    assert "perplexity.pieces = 100" in notes[0]
    assert Pieces(model)(["的"])[0]


def test_texts_stay_apart_in_batches_of_any_size() -> None:
    texts = ["One. Two three.", "", "...\n\nFour!", "\n\n"]
    first = [["one", "."], ["two", "three", "."]]

    for size in (1, 2, 100):
        found = [text for batch in tokenize(texts, "en", words, size) for text in batch]
        assert found[0] == first
        assert found[1] == found[3] == []
        assert found[2][-1] == ["four", "!"]
        assert len(found) == 4


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="'pieces'"):
        tokenizer_for("pieces")
    with pytest.raises(ValueError, match="'bytes'"):
        tokenizer_for("bytes")
