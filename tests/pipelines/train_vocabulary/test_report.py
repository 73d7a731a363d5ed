"""What the report says of vocabularies whose every piece is known."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary, wordpiece_tokenizer
from pipelines.train_vocabulary.piece_kinds import body_of, group_of, scripts_of
from pipelines.train_vocabulary.report import vocabulary_report
from tests.benchmarks.xlmr_vocabulary import xlmr_model
from tests.pipelines.train_vocabulary.known_models import model_of

WORDS = ("▁hello", "▁world", "▁สวัสดี", "ชาวโลก", "日本", "の")
LETTERS = tuple("▁helowrdสวัดีชาโลกก日本のa.1")


@pytest.fixture(scope="module")
def ours() -> Vocabulary:
    return Vocabulary(model_of((*WORDS, *LETTERS)))


@pytest.fixture(scope="module")
def letters() -> Vocabulary:
    return Vocabulary(model_of(LETTERS))


def test_tokens_words_and_characters_of_each_language_are_counted(
    ours: Vocabulary, letters: Vocabulary
) -> None:
    lines = [("en", "hello world"), ("th", "สวัสดีชาวโลก"), ("en", "hello hello."), ("en", "")]

    report = vocabulary_report(ours, iter(lines), compare_with=letters)

    english, thai = report["languages"]["en"], report["languages"]["th"]
    assert (english["lines"], english["words"], english["characters"]) == (3, 4, 23)
    assert english["tokens"] == 2 + 3  # ▁hello ▁world, ▁hello ▁hello .
    assert english["compared"]["tokens"] == 12 + 13  # every letter and every ▁
    assert english["tokens_per_word"] == 1.25
    assert english["tokens_per_character"] == pytest.approx(5 / 23, abs=1e-6)
    assert english["ratio"] == 0.2
    assert thai["tokens"] == 2 and thai["words"] == 1 and thai["characters"] == 12
    assert thai["compared"]["tokens"] == 13
    assert (english["written_with_blanks"], thai["written_with_blanks"]) == (True, False)
    assert report["compared_with"] == {"pieces": letters.piece_count, "rows": letters.rows}


def test_totals_sum_over_text_and_average_over_languages(
    ours: Vocabulary, letters: Vocabulary
) -> None:
    lines = [("en", "hello world"), ("en", "hello"), ("de", "wow"), ("ja", "日本の日本")]
    totals = vocabulary_report(ours, lines, compare_with=letters)["totals"]

    # Tokens: en 3 of 3 words and 16 characters, de 4 (▁ w o w) of 1 and 3, ja 4 (▁ first) of 5.
    assert (totals["languages"], totals["lines"], totals["words"]) == (3, 4, 5)
    assert (totals["tokens"], totals["compared"]["tokens"]) == (11, 18 + 4 + 6)
    assert totals["tokens_per_word"] == 7 / 4, "Japanese has no words between blanks"
    assert totals["mean_tokens_per_word"] == (3 / 3 + 4 / 1) / 2
    assert totals["mean_tokens_per_character"] == pytest.approx(
        (3 / 16 + 4 / 3 + 4 / 5) / 3, abs=1e-6
    )
    assert totals["ratio"] == pytest.approx(11 / 28, abs=1e-6)
    assert totals["mean_ratio"] == pytest.approx((3 / 18 * 4 / 4 * 4 / 6) ** (1 / 3), abs=1e-6)
    assert totals["languages_with_fewer_tokens"] == 2, "de is even"


def test_unknown_tokens_and_the_characters_lost_in_them_are_told_apart(ours: Vocabulary) -> None:
    # Three runs of unknown characters, of 3, 1 and 2: SentencePiece writes each as one <unk>.
    lines = [("en", "hello ᚠᚢᚦ world"), ("en", "hello Z.ЖЖ"), ("en", "hello")]
    row = vocabulary_report(ours, lines)["languages"]["en"]

    assert (row["unknown"], row["unknown_characters"]) == (3, 6)
    assert row["unknown_share"] == pytest.approx(3 / row["tokens"], abs=1e-6)


ALPHABET = "helowrd Zаж ᚠ日本ﬁก\u0301\u200d½"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(ALPHABET, max_size=30), max_size=12))
def test_counts_are_those_of_the_model_s_own_processor(lines: list[str]) -> None:
    model = model_of((*WORDS, *LETTERS))
    processor = spm.SentencePieceProcessor(model_proto=model)
    protos = [processor.encode(line, return_type="proto") for line in lines]
    pieces = [piece for proto in protos for piece in proto.pieces]

    report = vocabulary_report(Vocabulary(model), (("en", line) for line in lines))

    totals = report["totals"]
    unknown = [piece for piece in pieces if piece.id == 0]
    assert totals["tokens"] == len(pieces)
    assert totals["unknown"] == len(unknown)
    assert totals["unknown_characters"] == sum(len(p.piece.replace("▁", "")) for p in unknown)
    used = len({piece.id for piece in pieces if piece.id > 2})
    assert report["pieces_by"]["kind"]["used_on_held_out_text"] == used


def test_batches_do_not_change_what_is_counted(
    ours: Vocabulary, letters: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = random.Random(7)
    texts = [" ".join(choose.choices(["hello", "world", "ᚠ", "日本"], k=4)) for _ in range(50)]
    lines = [(choose.choice(["en", "ja"]), text) for text in texts]

    whole = vocabulary_report(ours, lines, compare_with=letters)
    monkeypatch.setattr("pipelines.train_vocabulary.fertility.BATCH_LINES", 7)

    assert vocabulary_report(ours, lines, compare_with=letters) == whole
    assert whole["totals"]["lines"] == 50


def test_coverage_is_by_mass_and_by_distinct_character(ours: Vocabulary) -> None:
    characters = {"en": Counter({ord("h"): 90, ord("Z"): 9, ord(" "): 1}),
                  "ja": Counter({ord("日"): 3, ord("語"): 17})}  # fmt: skip
    found = vocabulary_report(ours, [], characters)["coverage"]

    assert (found["characters"], found["distinct"], found["covered_distinct"]) == (120, 5, 3)
    assert found["covered_share"] == pytest.approx(94 / 120, abs=1e-6)
    assert found["missing"] == [{"character": "U+8A9E", "shown": "語", "count": 17},
                                {"character": "U+005A", "shown": "Z", "count": 9}]  # fmt: skip
    assert found["languages"]["ja"]["covered_share"] == 0.15
    assert "distinct_as_bytes" not in found
    assert "coverage" not in vocabulary_report(ours, [])


def test_a_character_that_only_bytes_can_write_is_called_so() -> None:
    vocabulary = Vocabulary(model_of(LETTERS, byte_fallback=True))
    report = vocabulary_report(vocabulary, [("en", "heZ")], {"en": Counter(map(ord, "heZЖ"))})

    assert report["coverage"]["covered_share"] == 1.0
    assert report["coverage"]["distinct_as_bytes"] == 2
    assert report["languages"]["en"]["unknown"] == 0
    scripts = {row["script"]: row["pieces"] for row in report["pieces_by"]["script"]}
    assert scripts["bytes"] == 256


def test_pieces_are_counted_by_script_length_and_kind() -> None:
    odd = ("▁", "▁the", "ть", "日本", "日の", "12", "▁...", "€", "aж", "----", "▁aaaa", "ﾟ")
    vocabulary = Vocabulary(model_of(odd))
    report = vocabulary_report(vocabulary, [("en", "the the 12")])

    kinds = report["pieces_by"]["kind"]
    scripts = {row["script"]: (row["pieces"], row["used"]) for row in report["pieces_by"]["script"]}
    assert scripts == {
        "Latn": (2, 1), "Cyrl": (1, 0), "Hani": (1, 0), "Jpan": (1, 0), "digits": (1, 1),
        "punctuation": (3, 0), "mixed": (1, 0), "blank": (1, 1), "other": (1, 0),
    }  # fmt: skip
    assert report["pieces_by"]["length"] == {"1": 2, "2": 5, "3": 2, "4": 2}
    assert kinds["normal"] == 12 and kinds["used_on_held_out_text"] == 3
    assert kinds["unused_share"] == 0.75
    assert (kinds["begins_a_word"], kinds["one_character"]) == (4, 2)
    assert report["examples"]["mixed_scripts"] == ["aж"]
    assert report["examples"]["repeated_character"] == ["----", "▁aaaa"]
    assert report["examples"]["longest"][:2] == ["----", "▁aaaa"]


@pytest.mark.parametrize(
    ("text", "group"),
    [("Straße", "Latn"), ("n't", "Latn"), ("é", "Latn"), ("e\u0301", "Latn"), ("٣", "digits"),
     ("한국", "Hang"), ("한國", "Kore"), ("カ゛", "Kana"), ("カな", "Jpan"), ("한な", "mixed"),
     ("क्", "Deva"), ("<0xE2>", "bytes"), ("", "blank"), ("?!", "punctuation"),
     ("\u200d", "other"), ("ａ", "Latn"), ("ꦗ", "Java"), ("μm", "mixed")],
)  # fmt: skip
def test_the_group_of_a_piece_is_the_script_of_its_letters(text: str, group: str) -> None:
    assert group_of(text) == group


def test_the_mark_of_a_word_is_no_text() -> None:
    assert body_of("▁the", "▁") == "the"
    assert body_of("##ing", "##") == "ing"
    assert body_of("##", "##") == "##", "two number signs, not a mark with nothing behind it"
    assert body_of("###", "▁") == "###"
    assert scripts_of("жa1.") == {"Cyrl", "Latn"}


@pytest.mark.parametrize(
    ("tag", "blanks"),
    [("zh-Hans", False), ("yue", False), ("ja", False), ("th", False), ("lo", False),
     ("km", False), ("my", False), ("dz", False), ("ko", True), ("vi", True), ("am", True),
     ("und", True), ("ii", False)],
)  # fmt: skip
def test_scripts_without_blanks_are_known_by_the_tag(
    ours: Vocabulary, tag: str, blanks: bool
) -> None:
    report = vocabulary_report(ours, [(tag, "hello")])

    assert report["languages"][tag]["written_with_blanks"] is blanks
    assert report["totals"]["tokens_per_word"] == (1.0 if blanks else None)


def test_wordpiece_is_measured_by_its_own_marks() -> None:
    words = ("hello", "he", "##llo", "##l", "日", "##日", "ж", "##", "#")
    names = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", *words, "[MASK]")
    tokenizer = wordpiece_tokenizer({name: i for i, name in enumerate(names)}, lowercase=True)
    vocabulary = WordPieceVocabulary(tokenizer.to_str().encode())
    # "hello", "he ##l ##llo", one word that is unknown as a whole, and a character of its own.
    report = vocabulary_report(vocabulary, [("en", "Hello helllo xyz日")])

    row, kinds = report["languages"]["en"], report["pieces_by"]["kind"]
    assert (row["tokens"], row["unknown"], row["unknown_characters"]) == (6, 1, 3)
    assert kinds["normal"] == len(words) and kinds["used_on_held_out_text"] == 5
    assert kinds["begins_a_word"] == 6, "## with nothing behind it is text"
    assert report["pieces_by"]["length"] == {"1": 5, "2": 2, "3": 1, "5": 1}


def test_a_report_of_no_text_has_no_shares_and_is_json(ours: Vocabulary) -> None:
    report = vocabulary_report(ours, [("en", "")], {}, compare_with=ours)

    assert report["languages"]["en"]["tokens_per_word"] is None
    assert report["totals"]["ratio"] is None and report["totals"]["mean_ratio"] is None
    assert report["coverage"]["covered_share"] is None
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_the_real_vocabulary_of_xlmr_encodes_as_published(shared_data: Path) -> None:
    vocabulary = Vocabulary(xlmr_model(shared_data))

    # Source: fairseq, examples/xlmr/README.md.
    for text, ids in (
        ("Hello world!", [35378, 8999, 38]),
        ("你好，世界", [6, 124084, 4, 3221]),
        ("नमस्ते दुनिया", [68700, 97883, 29405]),
        ("مرحبا بالعالم", [665, 193478, 258, 1705, 77796]),
        ("Bonjour le monde", [84602, 95, 11146]),
    ):
        assert vocabulary.encode(text).tolist() == ids, text
    assert (vocabulary.piece_count, vocabulary.rows, vocabulary.mask_id) == (
        *(250_000, 250_002),
        250_001,
    )
    report = vocabulary_report(vocabulary, [("en", "Hello world!")])
    assert report["languages"]["en"]["tokens_per_word"] == 1.5
    assert report["pieces_by"]["script"][0]["script"] == "Latn"
    assert sum(row["pieces"] for row in report["pieces_by"]["script"]) == 249_997
