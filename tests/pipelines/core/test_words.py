from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from pipelines.core.masking import MaskingRule, UniformSampler, mask_keys, mask_sequences
from pipelines.core.words import UNSPACED_SCRIPTS, piece_word_starts
from pipelines.filters.characters import UNSPACED, class_table, codes_of

UNSPACED_PIECES = {
    "Han": ["中国", "々", "第3章"],
    "Kana": ["して", "カード", "ー", "ード"],
    "Bopomofo": ["ㄅㄆ"],
    "Thai": ["ที่", "การ", "ิน"],
    "Lao": ["ການ"],
    "Khmer": ["ការ"],
    "Myanmar": ["ရန်", "ၵႃ"],
    "Tibetan": ["པའི་"],
    "Javanese": ["ꦲꦤ"],
}
SPACED_PIECES = ["ing", "ов", "των", "ación", "ات", "ים", "ના", "다", "ების", "ና", "'s", "é"]


@pytest.mark.parametrize("script", UNSPACED_PIECES)
@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_in_scripts_without_blanks_every_piece_begins_a_word(script: str, kind: str) -> None:
    pieces = UNSPACED_PIECES[script]
    prefix = "##" if kind == "wordpiece" else "▁"
    assert piece_word_starts(pieces, kind).all()  # type: ignore[arg-type]
    assert piece_word_starts([prefix + piece for piece in pieces], kind).all()  # type: ignore[arg-type]


def test_elsewhere_a_blank_or_its_mark_tells() -> None:
    assert not piece_word_starts(SPACED_PIECES, "unigram").any()
    assert piece_word_starts(["▁" + piece for piece in SPACED_PIECES], "unigram").all()
    assert piece_word_starts(SPACED_PIECES, "wordpiece").all()
    assert not piece_word_starts(["##" + piece for piece in SPACED_PIECES], "wordpiece").any()


def test_punctuation_digits_bytes_and_mixed_pieces() -> None:
    pieces = ["▁", ",", "。", "2023", "<0xE4>", "▁2023年", "2023年", "A股", "股A", "<unk>", ""]
    found = piece_word_starts(pieces, "unigram")
    assert dict(zip(pieces, found.tolist(), strict=True)) == {
        "▁": True,
        ",": False,
        "。": False,
        "2023": False,
        "<0xE4>": False,
        "▁2023年": True,
        "2023年": True,  # its first letter is Han
        "A股": False,
        "股A": True,
        "<unk>": False,
        "": False,
    }
    assert found.dtype == np.bool_
    assert piece_word_starts([], "unigram").shape == (0,)


def test_other_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="kind is 'bpe'; need unigram or wordpiece"):
        piece_word_starts(["a"], "bpe")  # type: ignore[arg-type]


def test_filters_know_the_same_scripts() -> None:
    letters = "中あアㄅꀀกກកကབᦀᨠꪀꦲᬅ"
    assert len(letters) == len(UNSPACED_SCRIPTS)
    assert (class_table()[codes_of(letters)] & UNSPACED).all()
    assert piece_word_starts(list(letters), "unigram").all()


def test_whole_words_in_the_vocabulary_of_xlm_r(shared_data: Path) -> None:
    """Hello world! is 35378 8999 38 in XLM-R's ids (fairseq's README)."""
    packed = (shared_data / "models" / "xlmr_unigram_vocab.tsv.xz").read_bytes()
    lines = lzma.decompress(packed).decode("utf-8").split("\n")
    pieces = [line.split("\t")[1] for line in lines if line]
    starts = piece_word_starts(pieces, "unigram")
    ids = {piece: number for number, piece in enumerate(pieces)}
    hello = [35378, 8999, 38]
    assert [pieces[i] for i in hello] == ["▁Hello", "▁world", "!"]
    assert starts[hello].tolist() == [True, True, False]

    rows = len(pieces)
    special = frozenset({0, 1, 2, 3, rows - 1})
    rule = MaskingRule(0.4, 1.0, 0.0, rows - 1, special, unit="word")
    text = [
        [0, *hello, 2],
        [0, ids["▁"], ids["中国"], ids["的"], ids["人"], 2],
        [0, ids["▁"], ids["ที่"], ids["การ"], ids["ของ"], 2],
    ]
    tokens = np.array([i for row in text for i in row], dtype=np.uint32)
    offsets = np.cumsum([0, *map(len, text)])
    seen: list[set[tuple[int, ...]]] = [set() for _ in text]
    for pass_index in range(200):
        keys = mask_keys(1, pass_index, ["a", "b", "c"])
        masks = mask_sequences(tokens, offsets, keys, rule, UniformSampler(rows, special), starts)
        for number, found in enumerate(seen):
            part = slice(masks.offsets[number], masks.offsets[number + 1])
            found.add(tuple(masks.positions[part].tolist()))
    assert seen[0] == {(1,)}  # one token of three: "world!" has two, so it is Hello each time
    pairs = {(a, b) for a in range(1, 5) for b in range(a + 1, 5)}
    assert seen[1] == seen[2] == pairs  # each piece is a word
