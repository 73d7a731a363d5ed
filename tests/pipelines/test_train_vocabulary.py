from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.tokenizer_file import tokenizer_json
from pipelines.core.unigram import lines_of
from pipelines.core.vocabulary import Vocabulary, id_dtype
from pipelines.train_vocabulary import (
    MAX_LINE_BYTES,
    copies,
    copies_wanted,
    measure,
    train,
)

ALPHABETS = [
    "abcdefghij",
    "абвгдежзик",
    "αβγδεζηθικ",
    "กขคงจฉชซฌญ",
    "あいうえおかきくけこ",
    "אבגדהוזחטי",
    "ابتثجحخدذر",
    "অআইকখগঘঙচছ",
    "ԱԲԳԴԵԶԷԸԹԺ",
    "აბგდევზთიკ",
]


def generated_text(lines: int = 400) -> list[str]:
    rng = random.Random(3)
    words = [
        "".join(rng.choices(alphabet, k=rng.randint(2, 7)))
        for alphabet in ALPHABETS
        for _ in range(150)
    ]
    return [" ".join(rng.choices(words, k=12)) + "." for _ in range(lines)]


def section(size: int = 1000, **more: object) -> VocabularySection:
    return VocabularySection.model_validate({"size": size, "num_threads": 1, **more})


def trained(tmp_path: Path, lines: list[str], settings: VocabularySection) -> Vocabulary:
    sample = tmp_path / "sample.txt"
    sample.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Vocabulary(train(sample, settings))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return trained(tmp_path_factory.mktemp("spm"), generated_text(), section())


def test_ids_are_those_of_xlm_r(vocabulary: Vocabulary) -> None:
    assert (vocabulary.piece_count, vocabulary.mask_id, vocabulary.rows) == (1000, 1001, 1002)
    assert [vocabulary.token(i) for i in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert vocabulary.token(1001) == "<mask>"
    assert vocabulary.encode("漢").tolist()[-1] == 3
    assert min(vocabulary.encode(" ".join(generated_text(20))).tolist()) >= 4
    with pytest.raises(IndexError, match="id 1002 is outside"):
        vocabulary.token(1002)


def test_every_id_has_one_token_and_the_tokenizer_file_agrees(vocabulary: Vocabulary) -> None:
    tokenizer = Tokenizer.from_str(tokenizer_json(vocabulary))
    tokens = [vocabulary.token(i) for i in range(vocabulary.rows)]

    assert len(set(tokens)) == vocabulary.rows == tokenizer.get_vocab_size()
    assert [tokenizer.id_to_token(i) for i in range(vocabulary.rows)] == tokens


def test_the_tokenizer_file_gives_the_same_ids_in_ten_scripts(vocabulary: Vocabulary) -> None:
    tokenizer = Tokenizer.from_str(tokenizer_json(vocabulary))
    odd = [
        "",
        " ",
        "  a  b ",
        "a\tb\nc",
        "é",
        "\u0995\u09c7\u09be",
        "漢字",
        "①②",
        "\ufeffa",
        "می\u200cخواهم",
        "a\u2028b",
        "x" * 10_000,
        "ก" * 3000,
    ]

    ties = 0
    for text in [*generated_text(200), *odd]:
        [first, *theirs, last], ours = tokenizer.encode(text).ids, vocabulary.encode(text).tolist()
        assert (first, last) == (0, 2)
        if theirs != ours:  # only where two segmentations are equally probable
            ties += 1
            assert vocabulary.decode(theirs) == vocabulary.decode(ours)
            scores = [sum(map(vocabulary.score, ids)) for ids in (theirs, ours)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-4), text
    assert ties < 10


def test_control_symbols_in_text_are_text(vocabulary: Vocabulary) -> None:
    assert not {0, 1, 2, vocabulary.mask_id} & set(
        vocabulary.encode("a </s> <s> <mask> b").tolist()
    )


def test_decoding_gives_the_text_back(vocabulary: Vocabulary) -> None:
    for text in generated_text(50):
        assert vocabulary.decode(vocabulary.encode(text).tolist()) == text


def test_training_twice_gives_the_same_bytes(tmp_path: Path, vocabulary: Vocabulary) -> None:
    assert trained(tmp_path, generated_text(), section()).model == vocabulary.model


def test_long_lines_of_any_script_reach_the_vocabulary(tmp_path: Path) -> None:
    thai, latin = "กขคง " * 1200, "abcd " * 400
    lines = [line for text in [thai, latin] * 3 for line in lines_of(text)]

    assert sum(len(line.replace(" ", "")) for line in lines) == 3 * (4 * 1200 + 4 * 400)
    assert (
        3 not in trained(tmp_path, lines + generated_text(), section()).encode("กขคง abcd").tolist()
    )


@given(st.text(max_size=300).map(lambda text: text * 60))
def test_no_line_is_too_long_and_only_blanks_are_lost(text: str) -> None:
    lines = list(lines_of(text))

    assert all(0 < len(line.encode("utf-8")) <= MAX_LINE_BYTES for line in lines)
    kept = "".join("".join(lines).split())
    assert kept == "".join(text.replace("\0", "").split())


def test_a_size_the_text_cannot_support_is_refused_with_the_size_it_can(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"vocabulary\.size = 50000: the text supports at most \d+"
    ):
        trained(tmp_path, generated_text(), section(50_000))


def test_a_size_below_the_alphabet_is_refused_with_the_alphabet(tmp_path: Path) -> None:
    lines = ["".join(map(chr, range(0x4E00, 0x4E00 + 500)))] * 3
    with pytest.raises(ConfigError, match=r"vocabulary\.size = 300: the text has 5\d\d characters"):
        trained(tmp_path, lines, section(300, character_coverage=1.0))


def test_copies_average_to_what_is_wanted() -> None:
    taken = [copies(2.25, 7, "vocabulary", f"d{n}", 0) for n in range(4000)]

    assert set(taken) == {2, 3}
    assert np.mean(taken) == pytest.approx(2.25, abs=0.03)
    assert copies(0.0, 7, "x") == 0
    assert copies(3.0, 7, "x") == 3


def test_the_sample_has_the_shares_of_the_balance_and_no_more_repeats() -> None:
    balance = {
        "max_repeats": 4.0,
        "rows": [
            {"language": "en", "q": 0.6, "characters": 900},
            {"language": "sw", "q": 0.4, "characters": 100},
        ],
    }

    assert copies_wanted(balance, 10**9) == {"en": pytest.approx(0.6 * 1000 / 900), "sw": 4.0}
    assert copies_wanted(balance, 500)["sw"] == pytest.approx(0.4 * 500 / 100)


def test_usage_counts_repeats_for_the_unigram_and_text_once_for_the_report(
    vocabulary: Vocabulary,
) -> None:
    line = generated_text(1)[0]
    usage = measure(vocabulary, [("en", line, 3)])

    assert usage.by_id.sum() == 3 * len(vocabulary.encode(line))
    assert usage.languages["en"] == {
        "tokens": len(vocabulary.encode(line)),
        "characters": len(line),
        "words": 12,
        "unknown": 0,
    }


def test_storage_width_follows_the_vocabulary() -> None:
    assert (id_dtype(65_536), id_dtype(65_537), id_dtype(250_002)) == (
        np.uint16,
        np.uint32,
        np.uint32,
    )


def test_xlm_r_s_own_vocabulary_gives_xlm_r_s_own_ids(
    shared_data: Path, vocabulary: Vocabulary
) -> None:
    """Known answer: `Hello world!` is 0 35378 8999 38 2 (XLM-R's README)."""
    import lzma

    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.model)
    own = [proto.pieces[i] for i in range(3)]
    pieces = [type(own[0]).FromString(piece.SerializeToString()) for piece in own]
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    with lzma.open(
        shared_data / "models" / "xlmr_unigram_vocab.tsv.xz", "rt", encoding="utf-8"
    ) as file:
        for line in list(file)[4:250_001]:
            _, piece, score = line.rstrip("\n").split("\t")
            proto.pieces.add(piece=piece, score=float(score), type=1)
    proto.trainer_spec.vocab_size = 250_000

    real = Vocabulary(proto.SerializeToString())

    assert (real.piece_count, real.mask_id, real.rows) == (250_000, 250_001, 250_002)
    assert real.encode("Hello world!").tolist() == [35378, 8999, 38]
