from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core.normalizers import normalizer_spec
from pipelines.train_vocabulary.word_counts import (
    MAX_SPAN_CHARACTERS,
    WORD_COUNTS,
    count_words,
    merge_counts,
    split_spans,
)

MIXED = "ab▁ 12.,!́‿αβж한国ひカーกำ️‍\u0001\t"


def normalizer(name: str = "nmt_nfkc") -> spm.SentencePieceNormalizer:
    return spm.SentencePieceNormalizer(normalizer_spec=normalizer_spec(name))


def table(words: dict[str, int]) -> pa.Table:
    return pa.table([list(words), list(words.values())], schema=WORD_COUNTS)


def counted(*texts: str, rule: str = "nmt_nfkc") -> dict[str, int]:
    found = count_words(texts, normalizer(rule))
    return dict(zip(found["word"].to_pylist(), found["count"].to_pylist(), strict=True))


def test_words_are_cut_at_borders_of_scripts() -> None:
    assert counted("Hello, world (Hello) 3.14kg") == {
        "▁Hello": 1,
        "Hello": 1,
        ",": 1,
        "▁world": 1,
        "▁(": 1,
        ")": 1,
        "▁3.14": 1,
        "kg": 1,
    }


def test_japanese_is_one_script_and_a_mark_belongs_to_its_letter() -> None:
    assert counted("東京タワーへ行く。") == {"▁東京タワーへ行く": 1, "。": 1}
    assert counted("йод", rule="identity") == {"▁йод": 1}  # и + combining breve
    assert counted("a\u030bж", rule="identity") == {"▁a\u030b": 1, "ж": 1}
    assert counted("日本語text") == {"▁日本語": 1, "text": 1}


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_joiners", "nfkc", "identity"])
def test_the_end_of_a_line_ends_a_word_under_every_rule(rule: str) -> None:
    assert counted("one\ntwo\r\nthree", "four", rule=rule) == dict.fromkeys(
        ["▁one", "▁two", "▁three", "▁four"], 1
    )


def test_joining_lines_for_speed_counts_what_single_lines_count() -> None:
    rng = random.Random(0)
    lines = [" ".join("".join(rng.choices(MIXED, k=5)) for _ in range(9)) for _ in range(200)]
    single: Counter[str] = Counter()
    for line in lines:
        single.update(counted(line))
    assert counted("\n".join(lines)) == dict(single)


def test_control_characters_go_and_end_a_span() -> None:
    assert counted("a\tb\x00c\x9fd", rule="identity") == {"▁a": 1, "b": 1, "c": 1, "d": 1}


def test_long_spans_are_cut_and_nothing_is_lost() -> None:
    assert counted("ก" * 100) == {"▁" + "ก" * 31: 1, "ก" * 32: 2, "ก" * 5: 1}


def test_no_text_gives_an_empty_table() -> None:
    assert counted() == counted("", "\n \n") == {}
    assert split_spans(WORD_COUNTS.empty_table()).schema == WORD_COUNTS


def test_merging_sums_and_sorts_whatever_the_order() -> None:
    parts = [table({"▁b": 2, "▁a": 1}), table({"▁a": 5, "😀": 2**40}), table({"ſ": 1})]
    merged = merge_counts(parts)
    assert merged.to_pydict() == {"word": ["ſ", "▁a", "▁b", "😀"], "count": [1, 6, 2, 2**40]}
    assert merge_counts(parts[::-1]).equals(merged)


@settings(deadline=None)
@given(st.dictionaries(st.text(MIXED, max_size=70), st.integers(1, 10**12), max_size=20))
def test_spans_keep_every_character_and_split_only_once(words: dict[str, int]) -> None:
    spans = split_spans(table(words))
    assert split_spans(spans).equals(spans)
    assert all(0 < len(word) <= MAX_SPAN_CHARACTERS for word in spans["word"].to_pylist())
    assert all("▁" not in word[1:] for word in spans["word"].to_pylist())
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            before[character] += count
    for word, count in zip(spans["word"].to_pylist(), spans["count"].to_pylist(), strict=True):
        for character in word:
            after[character] += count
    for character in "\x01\t":
        before.pop(character, None)
    lone_marks = before.pop("▁", 0) - after.pop("▁", 0)
    assert before == after
    assert lone_marks >= 0  # a mark with nothing but a control character behind it goes with it


def test_no_piece_of_sentencepiece_crosses_a_border(tmp_path) -> None:
    """The rule is SentencePiece's own: its pieces, trained on whole lines, are never cut."""
    rng = random.Random(1)
    words = [
        "東京は",
        "タワー,",
        "abc",
        "x-y",
        "жук3",
        "3.5%",
        "가나다",
        "กขค",
        "(ab)",
        "á‿b",
        "12ab",
    ]
    lines = [" ".join(rng.choices(words, k=8)) for _ in range(300)]
    lines += ["".join(rng.choices(words, k=8)) for _ in range(300)]
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    spm.SentencePieceTrainer.train(
        input=str(path),
        model_prefix=str(tmp_path / "m"),
        vocab_size=500,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    model = spm.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    pieces.remove("▁")
    assert len([piece for piece in pieces if len(piece) > 2]) > 20
    assert [p for p in pieces if split_spans(table({p: 1}))["word"].to_pylist() != [p]] == []
