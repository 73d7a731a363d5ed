from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import Tokenizer
from transformers import BertTokenizer, XLMRobertaTokenizer

from pipelines.core.foreign import CannotAdopt, foreign_vocabulary, same_rules
from pipelines.core.normalizers import normalizer_spec
from pipelines.core.tokenizer_file import tokenizer_files
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary
from tests.pipelines.core.foreign_folders import (
    BERT_PIECES,
    bert_folder,
    files_of,
    unigram_folder,
    xlmr_model,
)
from tests.pipelines.train_vocabulary.known_models import model_of

LETTERS = [*"abcdefghijklmnopqrstuvwxyz.,-"]
PIECES = ["▁", *LETTERS, "▁the", "ing", "▁ab", "é", "漢"]
WORDS = [*LETTERS, "the", "##ing", "##s", "cafe", "café", "Éa", "漢", "字", "##b", "##a"]
TEXTS = ["The café is bathing, 漢字 ab", "é É naïve\tx\u00a0y", "aaa ing-ing [MASK] </s>", ""]


def test_xlmr_as_it_is(tmp_path: Path) -> None:
    model = model_of(PIECES)
    found = foreign_vocabulary(files_of(unigram_folder(tmp_path, model)))

    assert found.kind == "unigram" and found.vocabulary.model == model
    assert found.rows.tolist() == list(range(len(PIECES) + 5))


def test_a_tokenizer_json_of_transformers_gives_the_model_that_it_was_made_of(
    tmp_path: Path,
) -> None:
    """transformers 5 saves no SentencePiece model any more."""
    model = model_of(PIECES)
    tokenizer = XLMRobertaTokenizer.from_pretrained(unigram_folder(tmp_path / "a", model))
    tokenizer.save_pretrained(tmp_path / "b")
    assert not (tmp_path / "b" / "sentencepiece.bpe.model").exists()
    found = foreign_vocabulary(files_of(tmp_path / "b")).vocabulary

    assert isinstance(found, Vocabulary)
    own, made = ModelProto.FromString(model), ModelProto.FromString(found.model)
    assert [(p.piece, p.score, p.type) for p in made.pieces] == [
        (p.piece, p.score, p.type) for p in own.pieces
    ]
    assert same_rules(found.model) == "nmt_nfkc"
    for text in TEXTS:
        assert found.encode(text).tolist() == Vocabulary(model).encode(text).tolist()


def test_rules_without_a_name_are_kept(tmp_path: Path) -> None:
    model = ModelProto.FromString(model_of(PIECES))
    other = normalizer_spec("nfkc").precompiled_charsmap
    model.normalizer_spec.precompiled_charsmap = other
    assert same_rules(model.SerializeToString()) == "nfkc"
    # Another table: that of nfkc with one replacement changed, which no rule set has.
    changed = bytearray(other)
    place = changed.rindex(b"A\0")
    changed[place] = ord("B")
    model.normalizer_spec.precompiled_charsmap = bytes(changed)
    kept = foreign_vocabulary(files_of(unigram_folder(tmp_path, model.SerializeToString())))
    assert same_rules(kept.vocabulary.model) is None
    rules = ModelProto.FromString(kept.vocabulary.model).normalizer_spec
    assert rules.precompiled_charsmap == bytes(changed)


@pytest.mark.parametrize("plain", [True, False], ids=["vocab.txt", "tokenizer.json"])
@pytest.mark.parametrize(
    "settings",
    [
        {"do_lower_case": True},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": True, "tokenize_chinese_chars": False},
    ],
    ids=["uncased", "cased", "accents", "chinese"],
)
def test_bert_gives_the_pieces_that_transformers_gives(
    tmp_path: Path, settings: dict[str, Any], plain: bool
) -> None:
    folder = bert_folder(tmp_path / "a", WORDS, **settings)
    theirs = BertTokenizer.from_pretrained(folder)
    if not plain:
        folder = tmp_path / "b"
        theirs.save_pretrained(folder)
        assert not (folder / "vocab.txt").exists()
    found = foreign_vocabulary(files_of(folder))

    ours = found.vocabulary
    assert isinstance(ours, WordPieceVocabulary) and found.kind == "wordpiece"
    assert [ours.token(i) for i in (0, 1, 2, 3, ours.mask_id)] == [
        "[CLS]",
        "[PAD]",
        "[SEP]",
        "[UNK]",
        "[MASK]",
    ]
    for text in TEXTS:
        if "[MASK]" in text:
            continue  # a special token to them, text to us
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert found.rows[ours.encode(text)].tolist() == ids, text
        with_ends = [0, *ours.encode(text).tolist(), 2]
        assert found.rows[with_ends].tolist() == theirs(text)["input_ids"]
    assert sorted(found.rows.tolist()) == list(range(len(BERT_PIECES) + len(WORDS)))
    assert found.rows[[0, 1, 2, 3, ours.mask_id]].tolist() == [3, 0, 4, 2, 5]


def test_our_own_export_comes_back(tmp_path: Path) -> None:
    files = files_of(bert_folder(tmp_path, WORDS))
    first = foreign_vocabulary(files).vocabulary
    again = foreign_vocabulary(tokenizer_files(first))
    assert again.rows.tolist() == list(range(first.rows))
    for text in TEXTS:
        assert again.vocabulary.encode(text).tolist() == first.encode(text).tolist()
    tokens = [first.token(i) for i in range(first.rows)]
    assert [again.vocabulary.token(i) for i in range(first.rows)] == tokens


def test_of_equal_lines_of_a_vocab_txt_the_last_counts(tmp_path: Path) -> None:
    found = foreign_vocabulary(files_of(bert_folder(tmp_path, ["a", "b", "a"])))
    assert found.vocabulary.rows == len(BERT_PIECES) + 2
    assert found.rows[found.vocabulary.encode("a b")].tolist() == [8, 7]


def without(files: dict[str, bytes], name: str) -> None:
    del files[name]


def with_settings(**settings: Any) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        old = json.loads(files["tokenizer_config.json"])
        files["tokenizer_config.json"] = json.dumps({**old, **settings}).encode()

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: without(f, "vocab.txt"), r"none of sentencepiece\.bpe\.model, tokenizer\.json"),
        (lambda f: without(f, "tokenizer_config.json"), r"nothing of lower case: write do_lower"),
        (with_settings(tokenizer_class="BertJapaneseTokenizer"), r"class BertJapaneseTokenizer"),
        (lambda f: f.update({"vocab.txt": b"a\nb\n[UNK]"}), r"lacks \['\[CLS\]', '\[PAD\]', "),
        (lambda f: f.update({"vocab.txt": b"\xff\xfe"}), r"vocab\.txt is not UTF-8"),
        (lambda f: f.update({"tokenizer_config.json": b"{"}), r"_config\.json is no JSON"),
        (lambda f: f.update({"tokenizer.json": b"[1]"}), r"tokenizer\.json holds no JSON object"),
    ],
)
def test_folders_of_bert_that_cannot_be_taken(
    tmp_path: Path, change: Callable[[dict[str, bytes]], None], message: str
) -> None:
    files = files_of(bert_folder(tmp_path, WORDS))
    change(files)
    with pytest.raises(CannotAdopt, match=message):
        foreign_vocabulary(files)


def bert_json(tmp_path: Path) -> dict[str, Any]:
    BertTokenizer.from_pretrained(bert_folder(tmp_path / "a", WORDS)).save_pretrained(
        tmp_path / "b"
    )
    return dict(json.loads((tmp_path / "b" / "tokenizer.json").read_text()))


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    *keys, last, value = path

    def change(tree: dict[str, Any]) -> None:
        node: Any = tree
        for key in keys:
            node = node[key]
        node[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("model", "type", "BPE"), r"holds a BPE model; only Unigram and WordPiece"),
        (put("model", "unk_token", "<unk>"), r"unk_token = '<unk>'; BERT's is '\[UNK\]'"),
        (put("model", "max_input_chars_per_word", 50), r"max_input_chars_per_word = 50"),
        (put("normalizer", {"type": "NFC"}), r"has the normaliser \['NFC'\], not BERT's"),
        (put("normalizer", None), r"has the normaliser \[\], not BERT's"),
        (put("pre_tokenizer", {"type": "Whitespace"}), r"cuts words by \['Whitespace'\]"),
        (
            lambda tree: tree["added_tokens"].append({"id": 99, "content": "<user>"}),
            r"more special tokens than .*: \['<user>'\]",
        ),
    ],
)
def test_a_wordpiece_tokenizer_json_that_cannot_be_taken(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    tree = bert_json(tmp_path)
    change(tree)
    with pytest.raises(CannotAdopt, match=message):
        foreign_vocabulary({"tokenizer.json": json.dumps(tree).encode()})


def changed_model(change: Callable[[ModelProto], None]) -> bytes:
    model = ModelProto.FromString(model_of(PIECES))
    change(model)
    return bytes(model.SerializeToString())


def set_bpe(model: ModelProto) -> None:
    model.trainer_spec.model_type = model.trainer_spec.BPE


def set_pad(model: ModelProto) -> None:
    model.pieces[3].piece, model.pieces[3].type = "<pad>", model.pieces[3].CONTROL


def set_symbol(model: ModelProto) -> None:
    model.pieces[5].type = model.pieces[5].USER_DEFINED


def set_no_prefix(model: ModelProto) -> None:
    model.normalizer_spec.add_dummy_prefix = False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_bpe, r"a SentencePiece model of type BPE, need UNIGRAM"),
        (set_pad, r"no SentencePiece model in XLM-R's layout: SentencePiece ids unk, bos, eos"),
        (set_symbol, r"has user-defined symbols"),
        (set_no_prefix, r"does not put one blank before each word"),
    ],
)
def test_sentencepiece_models_that_cannot_be_taken(
    change: Callable[[ModelProto], None], message: str
) -> None:
    with pytest.raises(CannotAdopt, match=message):
        foreign_vocabulary({"sentencepiece.bpe.model": changed_model(change)})
    with pytest.raises(CannotAdopt, match=r"is no SentencePiece model in XLM-R's layout"):
        foreign_vocabulary({"sentencepiece.bpe.model": b"something else"})


def unigram_json(tmp_path: Path) -> dict[str, Any]:
    folder = unigram_folder(tmp_path / "a", model_of(PIECES))
    XLMRobertaTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "b")
    return dict(json.loads((tmp_path / "b" / "tokenizer.json").read_text()))


FOREIGN_RULES = base64.b64encode(normalizer_spec("nfkc").precompiled_charsmap).decode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("model", "vocab", 0, 0, "<pad>"), r"begins with \['<pad>', '<pad>', '</s>', '<unk>'"),
        (put("model", "vocab", -1, 0, "[MASK]"), r"and ends with \['\[MASK\]'\]"),
        (put("normalizer", {"type": "NFKC"}), r"the normaliser NFKC, which a SentencePiece model"),
        (put("pre_tokenizer", {"type": "Whitespace"}), r"cuts text by \['Whitespace'\]; need Meta"),
        (put("pre_tokenizer", "pretokenizers", 1, "prepend_scheme", "never"), r"no blank before"),
        (put("model", "vocab", 9, 1, -10000.0), r"the score -10000\.0, no log-probability"),
        (
            lambda tree: tree["added_tokens"].append({"id": 99, "content": "<user>"}),
            r"more special tokens than .*: \['<user>'\]",
        ),
    ],
)
def test_a_unigram_tokenizer_json_that_cannot_be_taken(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    tree = unigram_json(tmp_path)
    change(tree)
    with pytest.raises(CannotAdopt, match=message):
        foreign_vocabulary({"tokenizer.json": json.dumps(tree).encode()})


def test_a_model_and_a_tokenizer_json_that_say_different_things(tmp_path: Path) -> None:
    """CamemBERT's folders: the same name of the model, another layout of ids."""
    tree = unigram_json(tmp_path)
    tree["model"]["vocab"].insert(0, ["<s>NOTUSED", 0.0])
    fast = json.dumps(tree).encode()
    files = {"sentencepiece.bpe.model": model_of(PIECES), "tokenizer.json": fast}
    with pytest.raises(CannotAdopt, match=r"has '<s>NOTUSED' at id 0, where .* has '<s>'"):
        foreign_vocabulary(
            {name: v.encode() if isinstance(v, str) else v for name, v in files.items()}
        )


def test_nfkc_of_a_tokenizer_json_is_found_by_its_table(tmp_path: Path) -> None:
    tree = unigram_json(tmp_path)
    tree["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": FOREIGN_RULES},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ],
    }
    found = foreign_vocabulary({"tokenizer.json": json.dumps(tree).encode()})
    assert same_rules(found.vocabulary.model) == "nfkc"


def test_the_real_vocabulary_of_xlmr(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "models" / "xlmr_unigram_vocab.tsv.xz"
    with lzma.open(source, "rt", encoding="utf-8", newline="\n") as lines:
        model = xlmr_model(lines)
    found = foreign_vocabulary(files_of(unigram_folder(tmp_path, model)))

    ours = found.vocabulary
    assert (ours.rows, ours.mask_id) == (250_002, 250_001)
    assert [0, *ours.encode("Hello world!").tolist(), 2] == [0, 35378, 8999, 38, 2]
    assert np.array_equal(found.rows, np.arange(250_002))
    fast = Tokenizer.from_str(tokenizer_files(ours)["tokenizer.json"].decode())
    assert fast.encode("Hello world!").ids == [0, 35378, 8999, 38, 2]
