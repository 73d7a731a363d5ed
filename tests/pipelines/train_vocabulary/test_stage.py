from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

from pipelines.core.config import ConfigError
from pipelines.core.held_out import is_held_out
from pipelines.core.manifest import StageRecord
from pipelines.core.normalizers import normalizer_spec
from pipelines.core.shards import StageFailed
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary
from pipelines.train_vocabulary import train_vocabulary
from tests.pipelines.core.small_vocabularies import normalize
from tests.pipelines.train_vocabulary.corpus import (
    balance,
    config,
    run,
    texts_of,
    words_of,
    write,
)

TEXTS = {"en": texts_of("en", 60), "ru": texts_of("ru", 24), "th": texts_of("th", 24)}
BOTH = pytest.mark.parametrize("train_on", ["words", "lines"])


def read(store: Store, record: StageRecord, part: str) -> bytes:
    [output] = record.outputs_of(part=part)
    return store.read_bytes(output.path)


def report(store: Store, record: StageRecord) -> Any:
    return json.loads(read(store, record, "report"))


def vocabulary(store: Store, record: StageRecord) -> Vocabulary:
    return Vocabulary(read(store, record, "spm.model"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Store, StageRecord]]:
    """The stage with default settings, for a way of training; run once for all tests."""

    @cache
    def run_once(train_on: str) -> tuple[Store, StageRecord]:
        store = Store(str(tmp_path_factory.mktemp(train_on)))
        return store, run(store, config(train_on=train_on), TEXTS)

    return run_once


@BOTH
def test_a_vocabulary_and_all_its_files(
    trained: Callable[[str], tuple[Store, StageRecord]], train_on: str
) -> None:
    store, record = trained(train_on)

    found = vocabulary(store, record)
    tokenizer = Tokenizer.from_str(read(store, record, "tokenizer.json").decode())
    assert (found.piece_count, found.rows) == (300, 302)
    assert (record.counters["pieces"], record.counters["rows"]) == (300, 302)
    assert tokenizer.get_vocab_size() == 302
    assert np.load(io.BytesIO(read(store, record, "unigram"))).shape == (302,)
    facts = report(store, record)
    assert (facts["pieces"], facts["training"]["train_on"]) == (300, train_on)
    assert facts["training"]["normalization"] == "nmt_nfkc"
    assert "distinct words needs" in record.notes[0] or "of sample needs" in record.notes[0]


ABCD, THAI = "abcd " * 400, "กขคง " * 400


@pytest.mark.parametrize(
    ("texts", "train_on"),
    [
        ({"en": [ABCD] * 3}, "lines"),
        ({"th": [THAI] * 3}, "lines"),
        ({"en": [ABCD] * 3, "th": [THAI] * 3}, "lines"),
        ({"en": [ABCD] * 3, "th": [THAI] * 3}, "words"),
    ],
    ids=["a", "b", "c", "c-words"],
)
def test_c22_long_lines_of_any_script(
    store: Store, texts: dict[str, list[str]], train_on: str
) -> None:
    """Lines of 2,000 characters: 2,000 bytes of Latin, 5,200 bytes of Thai."""
    # So little text supports hardly more pieces than its characters: the rest is for the size.
    settings = config(train_on=train_on, size=110, packing__held_out_share=0.0001)
    record = run(store, settings, {**texts, "ru": TEXTS["ru"]})

    found = vocabulary(store, record)
    for character in "".join(texts.get("en", [""])[0] + texts.get("th", [""])[0]).split():
        assert 3 not in found.encode(character).tolist()
    required = report(store, record)["training"]["required_characters"]["languages"]
    assert {tag: required[tag] for tag in texts} == dict.fromkeys(texts, 4)
    if train_on == "lines":
        lines = report(store, record)["training"]["lines"]
        for language in texts:
            assert lines[language]["skipped_lines"] == lines[language]["skipped_bytes"] == 0
            assert lines[language]["split_lines"] == (3 if language == "th" else 0)
            assert lines[language]["sample_lines"] > 0


@pytest.mark.parametrize(
    ("rule", "train_on"),
    [
        *((rule, "words") for rule in ("nmt_nfkc", "nmt_nfkc_joiners", "nfkc", "identity")),
        ("nmt_nfkc_joiners", "lines"),
    ],
)
def test_c24_one_normaliser_from_counting_to_the_exported_tokenizer(
    store: Store, rule: str, train_on: str
) -> None:
    words = ["می\u200cخواهم", "نمی\u200cدانم", "ක්\u200dෂ", "e\u0301te", "\uff12x", "น้ำ"]
    texts = {"fa": [" ".join(words * 8) for _ in range(12)], **TEXTS}
    record = run(store, config(normalization=rule, train_on=train_on), texts)

    found = vocabulary(store, record)
    proto = sentencepiece_model_pb2.ModelProto.FromString(found.model)
    assert proto.normalizer_spec.name == rule
    assert proto.normalizer_spec.precompiled_charsmap == normalizer_spec(rule).precompiled_charsmap
    pieces = {found.token(i) for i in range(4, found.rows - 1)}
    kept = any("\u200c" in piece for piece in pieces)
    assert kept == (rule != "nmt_nfkc")
    tokenizer = Tokenizer.from_str(read(store, record, "tokenizer.json").decode())
    for word in [*words, *(" ".join(words),), *words_of("ru")[:20]]:
        ids = found.encode(word)
        assert tokenizer.encode(word).ids == [0, *ids.tolist(), 2]
        assert found.decode(ids.tolist()).replace(" \u2047 ", "") == normalize(rule, word)


def test_c26_ids_of_the_trained_vocabulary(store: Store) -> None:
    record = run(store, config(size=400), {**TEXTS, "ja": texts_of("ja", 40)})

    found = vocabulary(store, record)
    tokenizer = Tokenizer.from_str(read(store, record, "tokenizer.json").decode())
    assert (found.mask_id, found.rows) == (401, 402)
    assert (
        found.token(4) == sentencepiece_model_pb2.ModelProto.FromString(found.model).pieces[3].piece
    )
    assert found.encode("漢").tolist()[-1] == 3
    tokens = [found.token(i) for i in range(found.rows)]
    assert tokens[:4] == ["<s>", "<pad>", "</s>", "<unk>"] and tokens[-1] == "<mask>"
    assert len(set(tokens)) == found.rows
    assert [tokenizer.token_to_id(token) for token in tokens] == list(range(found.rows))
    texts = [line for members in TEXTS.values() for text in members for line in text.split("\n")]
    for line in texts[:60]:
        assert tokenizer.encode(line).ids == [0, *found.encode(line).tolist(), 2]


@BOTH
def test_counts_by_id_are_those_of_the_text_when_languages_keep_their_shares(
    store: Store, train_on: str
) -> None:
    # With one language every weight is 1, so that the mix is the text itself.
    settings = config(train_on=train_on, size=120)
    record = run(store, settings, {"en": TEXTS["en"]})

    found = vocabulary(store, record)
    expected = np.zeros(found.rows, dtype=np.int64)
    seed, share = settings.run.seed, settings.packing.held_out_share
    for number, text in enumerate(TEXTS["en"]):
        if not is_held_out(f"en-{number}", share, seed):
            for line in text.split("\n"):
                np.add.at(expected, found.encode(line), 1)
    assert np.load(io.BytesIO(read(store, record, "unigram"))).tolist() == expected.tolist()


def test_counts_by_id_follow_the_balance(store: Store) -> None:
    record = run(store, config(balance__alpha=0.0), TEXTS)

    found, by_id = vocabulary(store, record), np.load(io.BytesIO(read(store, record, "unigram")))
    shares = report(store, record)["training"]["shares"]
    assert shares == {tag: pytest.approx(1 / 3) for tag in TEXTS}
    characters = dict.fromkeys(TEXTS, 0)
    for number in range(4, found.rows - 1):
        piece = found.token(number)
        for tag in TEXTS:
            if any(letter in piece for word in words_of(tag) for letter in word):
                characters[tag] += int(by_id[number]) * len(piece)
                break
    whole = sum(characters.values())
    for tag, count in characters.items():
        assert count / whole == pytest.approx(1 / 3, abs=0.03), tag


@BOTH
def test_a_language_with_a_thousandth_of_the_text_keeps_its_letters(
    store: Store, train_on: str
) -> None:
    texts = {"en": texts_of("en", 800), "he": ["\n".join(words_of("he")[:20])] * 2}
    share = sum(map(len, texts["he"])) / sum(map(len, texts["en"]))
    assert share < 0.0015
    record = run(store, config(balance__alpha=1.0, train_on=train_on, size=150), texts)
    found = vocabulary(store, record)
    for letter in set("".join(words_of("he")[:20])):
        assert 3 not in found.encode(letter).tolist(), letter
    coverage = report(store, record)["coverage"]["languages"]
    assert coverage["he"]["covered_share"] == 1.0


@BOTH
def test_a_character_that_is_seen_once_is_unknown_and_nothing_breaks(
    store: Store, train_on: str
) -> None:
    rare = "\ue000\u2585\u0378漢"
    texts = {**TEXTS, "en": [*TEXTS["en"], f"abc{rare}abc abc"]}
    record = run(store, config(train_on=train_on), texts)
    found = vocabulary(store, record)
    for character in rare:
        assert 3 in found.encode(f"abc{character}").tolist()
    if train_on == "lines":
        lines = report(store, record)["training"]["lines"]
        assert lines["en"]["replaced_characters"] == 1
        assert lines["en"]["skipped_lines"] == 0


def test_an_empty_corpus_and_an_empty_language_are_named(store: Store) -> None:
    with pytest.raises(StageFailed, match=r"no language of the balance has text to train on"):
        run(store, config(), {"en": [" \n "] * 30})
    record = run(store, config(), {**TEXTS, "he": ["\n"] * 30})
    assert any(note.startswith("he: no text is left") for note in record.notes)
    assert record.counters["languages_without_words"] == 1


def test_sizes_that_the_text_does_not_support_are_refused_with_the_one_that_fits(
    store: Store,
) -> None:
    with pytest.raises(StageFailed, match=r"vocabulary\.size = 50000: .* at most \d+ pieces"):
        run(store, config(size=50_000), TEXTS)
    texts = {"zh": ["".join(map(chr, range(0x4E00, 0x4E00 + 500)))] * 3}
    with pytest.raises(StageFailed, match=r"vocabulary\.size = 300: the text has 5\d\d characters"):
        run(store, config(size=300), texts)


@BOTH
def test_too_little_memory_is_refused_before_training_with_what_fits(
    store: Store, trained: Callable[[str], tuple[Store, StageRecord]], train_on: str
) -> None:
    setting = {"words": "max_words", "lines": "sample_characters"}[train_on]
    with pytest.raises(StageFailed, match=r"max_memory_gb is 0\.01 GB.*") as failure:
        run(store, config(train_on=train_on, max_memory_gb=0.01), TEXTS)
    assert "give it more memory" in str(failure.value) and setting not in str(failure.value)
    # The limit decides whether, not what: it is no part of the result's identity.
    finished, record = trained(train_on)
    again = run(finished, config(train_on=train_on, max_memory_gb=2.0), TEXTS)
    assert (record.binding_id, again.reused) == (again.binding_id, 1)


@BOTH
def test_byte_fallback_and_all_its_files(store: Store, train_on: str) -> None:
    """No text holds all letters of `</s>` and `<mask>`; tokenizer.json needs a piece of each."""
    record = run(store, config(byte_fallback=True, size=500, train_on=train_on), TEXTS)

    found = vocabulary(store, record)
    tokenizer = Tokenizer.from_str(read(store, record, "tokenizer.json").decode())
    tokenizer.encode_special_tokens = True
    for text in ("ab </s> cd", "<unk>", "a🦊b", *TEXTS["th"][0].split("\n")):
        ids = found.encode(text).tolist()
        assert 3 not in ids and tokenizer.encode(text).ids == [0, *ids, 2]
        assert found.decode(ids) == text


def test_words_above_the_limit_are_left_out_and_said_by_language(store: Store) -> None:
    rng = random.Random(0)
    rare = "\n".join("".join(rng.choices("klmnop", k=9)) for _ in range(1500))
    record = run(store, config(max_words=1000, size=100), {**TEXTS, "fi": [rare] * 3})

    training = report(store, record)["training"]
    assert (training["words"], record.counters["words"]) == (1000, 1000)
    assert training["distinct_words"] == 1000 + training["words_above_max_words"]
    assert record.counters["dropped.words_above_max_words"] == training["words_above_max_words"]
    assert 0 < max(training["left_out_share"].values()) < 1
    assert any(note.startswith("vocabulary.max_words left out") for note in record.notes)


def test_wordpiece(store: Store) -> None:
    texts = {**TEXTS, "en": [text.upper() for text in TEXTS["en"]]}
    record = run(store, config(kind="wordpiece", size=500, lowercase=True), texts)

    found = WordPieceVocabulary(read(store, record, "tokenizer.json"))
    assert record.outputs_of(part="spm.model") == []
    assert (found.piece_count, found.rows, found.mask_id) == (500, 502, 501)
    assert [found.token(i) for i in (0, 1, 2, 3, 501)] == [
        "[CLS]",
        "[PAD]",
        "[SEP]",
        "[UNK]",
        "[MASK]",
    ]
    word = words_of("en")[0]
    assert found.decode(found.encode(word.upper()).tolist()) == word
    for members in texts.values():
        assert 3 not in found.encode(members[0]).tolist()
    by_id = np.load(io.BytesIO(read(store, record, "unigram")))
    assert by_id.shape == (502,) and by_id.sum() > 1000 and not by_id[[0, 1, 2, 3, 501]].any()
    assert report(store, record)["training"]["kind"] == "wordpiece"


def test_held_out_documents_teach_the_vocabulary_nothing(store: Store) -> None:
    settings = config(packing__held_out_share=0.3, size=120)
    seed = settings.run.seed
    texts = list(TEXTS["en"])
    held_out = [n for n in range(len(texts)) if is_held_out(f"en-{n}", 0.3, seed)]
    assert 5 < len(held_out) < 40
    for number in held_out:
        texts[number] = "漢字 仮名\n" * 20
    record = run(store, settings, {"en": texts})

    found = vocabulary(store, record)
    assert not {"漢", "字"} & set("".join(found.token(i) for i in range(4, found.rows - 1)))
    # The report is made of these very lines.
    assert report(store, record)["languages"]["en"]["unknown_share"] > 0.3


def test_another_vocabulary_is_compared_with_or_named_when_it_cannot_be(
    store: Store, tmp_path: Path
) -> None:
    small = run(store, config(size=100), TEXTS)
    other = tmp_path / "other.model"
    other.write_bytes(read(store, small, "spm.model"))
    record = run(store, config(compare_with=str(other)), TEXTS)
    assert report(store, record)["compared_with"] == {"pieces": 100, "rows": 102}
    assert report(store, record)["totals"]["ratio"] < 1
    other.write_bytes(b"not a model")
    with pytest.raises(ConfigError, match=r"compare_with = '.*other\.model': need a SentencePiece"):
        run(store, config(compare_with=str(other), size=200), TEXTS)
    fresh = Store(str(tmp_path / "fresh"))
    unique = write(fresh, TEXTS)
    shares = balance(fresh, config(), TEXTS)
    stage = StageRun(fresh, "test", inline=True, quiet=True)
    with pytest.raises(ConfigError, match=r"compare_with = 'absent': .*No such file"):
        train_vocabulary(stage, config(compare_with="absent"), shares, unique)
    assert stage.inner == []  # nothing was counted before it was looked at
