"""A vocabulary in XLM-R's ids: known answers, equality with SentencePiece, what text cannot do."""

from __future__ import annotations

import lzma
import random
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import sentencepiece as spm
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pipelines.core.normalizers import normalizer_spec
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary, check_ids, id_dtype, open_vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary, wordpiece_tokenizer
from tests.benchmarks.xlmr_vocabulary import xlmr_model
from tests.pipelines.core.small_vocabularies import LINES, SECOND_LINES, plain_ids, small_model


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(small_model())


def model_of_1000_pieces(folder: Path) -> bytes:
    """CASES.md C26: SentencePiece's defaults, 1000 pieces."""
    rng = random.Random(5)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(6000)]
    lines = [" ".join(rng.choices(words, k=12)) for _ in range(2000)]
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(folder / "m"),
        vocab_size=1000,
        minloglevel=2,
    )
    return (folder / "m.model").read_bytes()


def test_c26_ids_begin_at_4_and_end_with_the_mask(tmp_path: Path) -> None:
    model = model_of_1000_pieces(tmp_path)
    plain = spm.SentencePieceProcessor(model_proto=model)
    vocabulary = Vocabulary(model)
    assert (vocabulary.piece_count, vocabulary.rows, vocabulary.mask_id) == (1000, 1002, 1001)
    assert plain.id_to_piece(3) == vocabulary.token(4)
    assert vocabulary.encode("\u4e00")[-1] == 3
    assert vocabulary.token(1) == "<pad>"
    tokens = [vocabulary.token(i) for i in range(1002)]
    assert len(set(tokens)) == 1002
    assert tokens[:4] == ["<s>", "<pad>", "</s>", "<unk>"] and tokens[-1] == "<mask>"
    for token_id in range(4, 1001):
        assert plain.piece_to_id(tokens[token_id]) == token_id - 1
    for outside in (-1, 1002):
        with pytest.raises(IndexError, match=f"id {outside} is outside 0 ... 1001"):
            vocabulary.token(outside)


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "nmt_nfkc_joiners", "nfkc", "identity"])
@pytest.mark.parametrize("kind", ["plain", "byte_fallback", "rounded"])
def test_ids_are_sentencepieces_own(normalization: str, kind: str) -> None:
    model = small_model(
        normalization, byte_fallback=kind == "byte_fallback", quantised=kind != "rounded"
    )
    vocabulary = Vocabulary(model)
    assert (vocabulary.not_by_word is None) == (kind != "rounded")
    lines = LINES + SECOND_LINES
    assert [ids.tolist() for ids in vocabulary.encode_batch(lines)] == plain_ids(model, lines)


def test_ragged_ids_are_those_of_the_texts_one_after_the_other(vocabulary: Vocabulary) -> None:
    texts = [*LINES[:4], "", *SECOND_LINES[:4]]
    ids, offsets = vocabulary.encode_ragged(texts)
    assert ids.dtype == np.uint32 and offsets.dtype == np.int64
    assert offsets.tolist() == np.cumsum([0, *(len(vocabulary.encode(t)) for t in texts)]).tolist()
    for number, text in enumerate(texts):
        piece = ids[offsets[number] : offsets[number + 1]]
        assert piece.tolist() == plain_ids(vocabulary.model, [text])[0]
    ids[:] = 0  # the caller's own
    assert vocabulary.encode(texts[0]).tolist() == plain_ids(vocabulary.model, texts[:1])[0]


def test_a_text_of_known_words_is_encoded_without_sentencepiece() -> None:
    vocabulary = Vocabulary(small_model())
    wanted = vocabulary.encode("the lazy dog\nThe quick fox").tolist()
    vocabulary._processor = None  # type: ignore[assignment]
    assert vocabulary.encode("the lazy dog The quick fox").tolist() == wanted
    with pytest.raises(AttributeError):
        vocabulary.encode("another word")


def test_no_texts_give_no_ids(vocabulary: Vocabulary) -> None:
    ids, offsets = vocabulary.encode_ragged([])
    assert ids.tolist() == [] and offsets.tolist() == [0]
    assert vocabulary.encode_batch([]) == []


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "identity"])
@pytest.mark.parametrize("cached", [0, 1000])
def test_lines_of_a_text_are_encoded_one_by_one(normalization: str, cached: int) -> None:
    vocabulary = Vocabulary(small_model(normalization), max_cached_words=cached)
    lines = [*LINES, "", "\u2581a\u2581", " b"]
    whole = vocabulary.encode("\n".join(lines))
    assert whole.tolist() == list(chain.from_iterable(plain_ids(vocabulary.model, lines)))


@pytest.mark.parametrize("literal", ["<s>", "</s>", "<pad>", "<unk>", "<mask>"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_the_name_of_a_special_token_is_text(literal: str, byte_fallback: bool) -> None:
    vocabulary = Vocabulary(small_model(byte_fallback=byte_fallback))
    for text in (literal, f"a {literal} b", f"a{literal}b"):
        ids = vocabulary.encode(text).tolist()
        assert not set(ids) & (set(vocabulary.special_ids) - {3})
        assert vocabulary.decode(ids).replace(" \u2047 ", "") in (text, text.replace("_", ""))


def test_c37_a_lone_surrogate_counts_as_the_replacement_character(vocabulary: Vocabulary) -> None:
    texts = ["good", "bad \ud83d end", "pair \U0001f60a ok", "\udc00", "a\udc00\ud83db"]
    wanted = ["good", "bad \ufffd end", "pair \U0001f60a ok", "\ufffd", "a\ufffd\ufffdb"]
    for model in (vocabulary.model, small_model("identity")):
        for cached in (0, 1000):
            fresh = Vocabulary(model, max_cached_words=cached)
            found = [ids.tolist() for ids in fresh.encode_batch(texts)]
            assert found == plain_ids(model, wanted)
    # The default rules make a blank of U+FFFD, the others keep it.
    assert vocabulary.normalize("bad\ud83dend") == "bad end"
    assert Vocabulary(small_model("nfkc")).normalize("bad\ud83dend") == "bad\ufffdend"


def test_decoding_gives_the_normalised_text_back() -> None:
    vocabulary = Vocabulary(small_model("nmt_nfkc_joiners"))
    for line in LINES:
        assert vocabulary.decode(vocabulary.encode(line).tolist()) == vocabulary.normalize(line)
    mask, rows = vocabulary.mask_id, vocabulary.rows
    assert vocabulary.decode([0, 1, 2, mask, rows + 5]) == ""
    assert "\u2047" in vocabulary.decode([3])


def test_bytes_stand_for_characters_without_a_piece() -> None:
    vocabulary = Vocabulary(small_model(byte_fallback=True))
    ids = vocabulary.encode("\U00013000").tolist()
    assert [vocabulary.token(i) for i in ids] == ["▁", "<0xF0>", "<0x93>", "<0x80>", "<0x80>"]
    assert vocabulary.decode(ids) == "\U00013000"
    assert not set(vocabulary.encode("<0xF0>").tolist()) & set(ids[1:])


def test_word_starts_are_those_of_its_pieces(vocabulary: Vocabulary) -> None:
    starts = vocabulary.word_starts
    assert starts.shape == (vocabulary.rows,) and starts.dtype == np.bool_
    ids = vocabulary.encode("The quick brown fox")
    assert starts[ids].sum() == 4 and starts[ids[0]]


def test_models_with_other_special_ids_are_refused(tmp_path: Path) -> None:
    proto = ModelProto.FromString(small_model())
    proto.trainer_spec.unk_id, proto.trainer_spec.bos_id = 1, 0
    proto.pieces[0].CopyFrom(ModelProto.FromString(small_model()).pieces[1])
    proto.pieces[1].CopyFrom(ModelProto.FromString(small_model()).pieces[0])
    with pytest.raises(ValueError, match=r"are \(1, 0, 2, -1\); need \(0, 1, 2, -1\)"):
        Vocabulary(proto.SerializeToString())


def test_c34_the_width_of_stored_ids_follows_the_vocabulary() -> None:
    ids = [0, 5, 65535, 65536, 65541, 250001, 2]
    assert id_dtype(2**16) is np.uint16 and id_dtype(2**16 + 1) is np.uint32
    stored = np.array(ids).astype(id_dtype(250_002))
    assert stored.tolist() == ids and stored.nbytes == len(ids) * 4
    check_ids(stored.astype(np.uint32), 250_002, "shard")
    with pytest.raises(ValueError, match="shard: id 250001 is not below the vocabulary's 250001"):
        check_ids(stored.astype(np.uint32), 250_001, "shard")
    check_ids(np.array([], dtype=np.uint32), 5, "shard")


def test_a_vocabulary_is_opened_by_the_parts_there_are(store: Store) -> None:
    names = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "a", "[MASK]"]
    pieces = wordpiece_tokenizer({name: i for i, name in enumerate(names)}, lowercase=False)
    store.publish_bytes("v/spm.model", small_model())
    store.publish_bytes("v/tokenizer.json", pieces.to_str().encode())
    both = {"spm.model": "v/spm.model", "tokenizer.json": "v/tokenizer.json"}
    assert isinstance(open_vocabulary(store, both, None), Vocabulary)
    del both["spm.model"]
    assert isinstance(open_vocabulary(store, both, None), WordPieceVocabulary)
    with pytest.raises(ValueError, match=r"here are \['report'\]"):
        open_vocabulary(store, {"report": "v/report.json"}, None)


def test_b4_known_answers_of_xlmr(shared_data: Path) -> None:
    vocabulary = Vocabulary(xlmr_model(shared_data))
    assert (vocabulary.piece_count, vocabulary.rows, vocabulary.mask_id) == (250000, 250002, 250001)
    assert vocabulary.encode("Hello world!").tolist() == [35378, 8999, 38]
    assert vocabulary.token(250001) == "<mask>" and vocabulary.token(4) == ","
    path = shared_data / "models/xlmr_unigram_vocab.tsv.xz"
    with lzma.open(path, "rt", encoding="utf-8") as table:
        for row in (line.rstrip("\n").split("\t") for line in table):
            assert vocabulary.token(int(row[0])) == row[1]


def test_sentencepieces_own_models_are_read(shared_data: Path) -> None:
    for name, text in (("test_model", "I was born in 1870."), ("test_ja_model", "吾輩は猫である")):
        model = (shared_data / f"models/{name}.model").read_bytes()
        vocabulary = Vocabulary(model)
        assert vocabulary.not_by_word == "its scores are no multiples of 0.015625"
        assert vocabulary.encode(text).tolist() == plain_ids(model, [text])[0]


def test_normalisation_is_part_of_the_model() -> None:
    assert ModelProto.FromString(small_model("identity")).normalizer_spec.name == "identity"
    assert Vocabulary(small_model("identity")).normalize("ﬁ") == "ﬁ"
    assert Vocabulary(small_model("nfkc")).normalize("ﬁ") == "fi"
    assert normalizer_spec("nfkc").name == "nfkc"
