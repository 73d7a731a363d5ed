from __future__ import annotations

import io

import pytest
import sentencepiece as spm
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.core.unigram import (
    MAX_LINE_BYTES,
    NOT_TRAINED_ON,
    lines_of,
    split_line,
    whole_lines_of,
)


@settings(deadline=None)
@given(st.text(max_size=300).map(lambda text: text * 60))
@example(" " * 10_000 + "a")
@example("\u0301" * 9000)
def test_no_line_is_too_long_and_only_blanks_are_lost(text: str) -> None:
    lines = list(lines_of(text))

    assert all(0 < len(line.encode("utf-8")) <= MAX_LINE_BYTES for line in lines)
    assert not any(character in line for line in lines for character in NOT_TRAINED_ON)
    kept = "".join("".join(lines).split())
    for character in NOT_TRAINED_ON:
        text = text.replace(character, " ")
    assert kept == "".join(text.split())


@settings(deadline=None)
@given(st.text("ab. \u0e01", min_size=1, max_size=200), st.integers(4, 40))
def test_a_short_limit_keeps_every_character(line: str, limit: int) -> None:
    parts = list(split_line(line.strip() or "a", limit))
    assert all(0 < len(part.encode()) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join((line.strip() or "a").split())


@pytest.mark.parametrize(
    ("line", "limit", "parts"),
    [
        ("One two. Three four. Five six seven", 24, ["One two. Three four.", "Five six seven"]),
        ("He said “no.” Then he went away", 26, ["He said “no.”", "Then he went away"]),
        ("これは文です。次の文です。", 24, ["これは文です。", "次の文です。"]),
        ("यह एक है। वह दो हैं।", 30, ["यह एक है।", "वह दो हैं।"]),
        # Version numbers and abbreviations inside a word are no sentences' ends.
        ("version 2.41.3 of the program", 20, ["version 2.41.3 of", "the program"]),
        # A sentence that would leave less than half is no place to cut.
        ("Ah. one two three four five six", 26, ["Ah. one two three four", "five six"]),
        ("漢字漢字abcabcabcabc", 16, ["漢字漢字", "abcabcabcabc"]),
        ("กขคงจฉ", 9, ["กขค", "งจฉ"]),
        ("e\u0301e\u0301e\u0301", 8, ["e\u0301e\u0301", "e\u0301"]),
        ("a\u200db" * 2, 7, ["a\u200db", "a\u200db"]),
    ],
)
def test_where_lines_are_cut(line: str, limit: int, parts: list[str]) -> None:
    assert list(split_line(line, limit)) == parts


def test_lines_of_a_document() -> None:
    text = "one\n\n  two \r\nthree\u2028four\n\n\n \x0b\nfi\0ve\u2585"
    assert list(whole_lines_of(text)) == ["one", "two", "three", "four", "fi ve"]


def test_the_trainer_leaves_out_what_is_replaced_and_keeps_every_line() -> None:
    """Why NOT_TRAINED_ON is there: a line with U+2585 goes as a whole."""

    def has(line: str, letter: str) -> bool:
        model = io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(["hello world foo bar baz"] * 9 + [line] * 9),
            model_writer=model,
            vocab_size=60,
            hard_vocab_limit=False,
            character_coverage=1.0,
            minloglevel=3,
        )
        return bool(spm.SentencePieceProcessor(model_proto=model.getvalue()).piece_to_id(letter))

    assert not has("xyz\u2585qrs", "q")
    [line] = lines_of("xyz\u2585qrs")
    assert has(line, "q") and has(line, "x")
