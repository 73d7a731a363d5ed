"""The vocabulary stage with vocabulary.start_from: nothing is trained, everything is measured."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentencepiece import SentencePieceNormalizer
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import Tokenizer

from pipelines.core.config import ConfigError
from pipelines.core.held_out import is_held_out
from pipelines.core.manifest import StageRecord, read_stage
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary
from pipelines.train_vocabulary.adopt import check_start
from tests.pipelines.core.foreign_folders import bert_folder, unigram_folder
from tests.pipelines.train_vocabulary.corpus import RUN, config, run, texts_of
from tests.pipelines.train_vocabulary.known_models import model_of

TEXTS = {"en": texts_of("en", 60), "ru": texts_of("ru", 24)}
PIECES = ["▁", *"abcdefghij.", "ab", "▁ab", "cd", "▁a", "ef"]
WORDS = [*"abcdefghij.", *(f"##{c}" for c in "abcdefghij"), "ab", "##cd", *"абвгд"]


def read(store: Store, record: StageRecord, part: str) -> bytes:
    [output] = record.outputs_of(part=part)
    return store.read_bytes(output.path)


def counts(store: Store, record: StageRecord) -> list[int]:
    found: list[int] = np.load(io.BytesIO(read(store, record, "unigram"))).tolist()
    return found


def training_text(texts: dict[str, list[str]], settings: Any) -> list[str]:
    share, seed = settings.packing.held_out_share, settings.run.seed
    return [
        line
        for language, members in texts.items()
        for number, text in enumerate(members)
        if not is_held_out(f"{language}-{number}", share, seed)
        for line in text.split("\n")
    ]


def test_a_unigram_folder(store: Store, tmp_path: Path) -> None:
    model = model_of(PIECES)
    settings = config(start_from=str(unigram_folder(tmp_path / "xlmr", model)))
    record = run(store, settings, {"en": TEXTS["en"]})

    assert read(store, record, "spm.model") == model
    found = Vocabulary(model)
    assert record.counters["rows"] == found.rows == len(PIECES) + 5
    expected = np.zeros(found.rows, dtype=np.int64)
    for line in training_text({"en": TEXTS["en"]}, settings):
        np.add.at(expected, found.encode(line), 1)
    assert counts(store, record) == expected.tolist() and expected.sum() > 1000
    fast = Tokenizer.from_str(read(store, record, "tokenizer.json").decode())
    report = json.loads(read(store, record, "report"))
    assert fast.get_vocab_size() == found.rows
    assert report["training"]["start_from"] == settings.vocabulary.start_from
    assert report["languages"]["en"]["tokens_per_word"] > 1
    # The binding knows the files by what is in them.
    adopted = read_stage(store, RUN, "vocabulary-adopt")
    assert adopted.counters == {"rows": found.rows, "rows_moved": 0}


def test_a_bert_folder(store: Store, tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "bert", WORDS, do_lower_case=True)
    texts = {"en": [text.upper() for text in TEXTS["en"]]}
    settings = config(kind="wordpiece", start_from=str(folder))
    record = run(store, settings, texts)

    found = WordPieceVocabulary(read(store, record, "tokenizer.json"))
    assert record.outputs_of(part="spm.model") == []
    assert [found.token(i) for i in range(5)] == ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[unused0]"]
    expected = np.zeros(found.rows, dtype=np.int64)
    for line in training_text(texts, settings):
        np.add.at(expected, found.encode(line), 1)
    assert counts(store, record) == expected.tolist() and expected[4:].sum() > 1000
    assert json.loads(read(store, record, "report"))["training"]["normalization"] == "bert"
    # Two special tokens that stand among the pieces go behind and before them: all ids move.
    assert read_stage(store, RUN, "vocabulary-adopt").counters["rows_moved"] == found.rows


def test_words_are_counted_as_the_folder_cleans_text(store: Store, tmp_path: Path) -> None:
    """Accents stay where the letters become small: neither of BERT's two ways."""
    folder = bert_folder(tmp_path / "bert", ["é", "##é", "e"], strip_accents=False)
    texts = {"fr": ["É éé\n" * 3] * 30}
    settings = config(kind="wordpiece", start_from=str(folder))
    record = run(store, settings, texts)
    found = WordPieceVocabulary(read(store, record, "tokenizer.json"))
    lines = sum(1 for line in training_text(texts, settings) if line)
    assert found.normalize("É e") == "é e"
    by_token = {found.token(i): n for i, n in enumerate(counts(store, record))}
    assert by_token["é"] == 2 * by_token["##é"] and by_token["[UNK]"] == by_token["e"] == 0
    assert by_token["##é"] == lines


def test_rules_that_have_no_name_count_the_words(store: Store, tmp_path: Path) -> None:
    model = ModelProto.FromString(model_of(["▁", "a", "b", "B"]))
    made = SentencePieceNormalizer(norm_map=[("q", "B")]).serialized_normalizer_spec()
    model.normalizer_spec.MergeFromString(made)
    folder = unigram_folder(tmp_path / "xlmr", model.SerializeToString(deterministic=True))
    settings = config(start_from=str(folder))
    record = run(store, settings, {"en": ["a qb"] * 30})
    found = Vocabulary(read(store, record, "spm.model"))
    by_token = {found.token(i): n for i, n in enumerate(counts(store, record))}
    assert by_token["B"] == by_token["b"] == by_token["a"] > 10 and by_token["<unk>"] == 0
    assert json.loads(read(store, record, "report"))["training"]["normalization"] == "its own"


def test_counts_of_a_corpus_serve_a_trained_and_an_adopted_vocabulary(
    store: Store, tmp_path: Path
) -> None:
    run(store, config(size=100), TEXTS)
    folder = unigram_folder(tmp_path / "xlmr", model_of(PIECES))
    run(store, config(start_from=str(folder)), TEXTS)
    assert read_stage(store, RUN, "vocabulary-words").reused == 2


def test_another_run_and_what_changes_the_result(store: Store, tmp_path: Path) -> None:
    first = run(store, config(size=150), {"en": TEXTS["en"]})
    model = read(store, first, "spm.model")
    second = run(store, config(run__name="second", start_from=RUN), TEXTS)
    assert read(store, second, "spm.model") == model
    assert second.counters["required_characters_without_piece"] == 10
    assert any("10 characters that vocabulary.character_coverage asks" in n for n in second.notes)
    again = run(store, config(run__name="second", start_from=RUN, size=4000), TEXTS)
    assert again.counters["rows"] == 152


def test_a_folder_that_changed_is_read_again(store: Store, tmp_path: Path) -> None:
    folder = unigram_folder(tmp_path / "xlmr", model_of(PIECES))
    first = run(store, config(start_from=str(folder)), {"en": TEXTS["en"]})
    same = run(store, config(start_from=str(folder)), {"en": TEXTS["en"]})
    assert (same.binding_id, same.reused) == (first.binding_id, 1)
    unigram_folder(tmp_path / "xlmr", model_of([*PIECES, "gh"]))
    other = run(store, config(start_from=str(folder)), {"en": TEXTS["en"]})
    assert other.reused == 0 and other.counters["rows"] == first.counters["rows"] + 1


def test_a_grown_vocabulary(store: Store, tmp_path: Path) -> None:
    run(store, config(size=150), {"en": TEXTS["en"]})
    grow = {"start_from": RUN, "add_pieces": 90}
    record = run(store, config(run__name="second", **grow), TEXTS)

    found = Vocabulary(read(store, record, "spm.model"))
    assert (found.rows, record.counters["rows"]) == (242, 242)
    assert record.counters["required_characters_without_piece"] == 0
    for text in TEXTS["ru"]:
        assert 3 not in found.encode(text).tolist()
    assert len(counts(store, record)) == 242
    report = json.loads(read(store, record, "report"))
    assert report["training"]["added"]["pieces"] == 90
    assert report["training"]["adopted_pieces"] == 150
    fast = Tokenizer.from_str(read(store, record, "tokenizer.json").decode())
    for text in [line for members in TEXTS.values() for t in members for line in t.split("\n")]:
        assert fast.encode(text).ids == [0, *found.encode(text).tolist(), 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start_from": "absent"}, r"start_from = 'absent': stage 'vocabulary' of run 'absent'"),
        ({"start_from": "./absent"}, r"'\./absent': need a folder with one of sentencepiece"),
        ({"start_from": "{bert}"}, r"kind = 'unigram', and .* is wordpiece: set vocabulary\.kind"),
        (
            {"start_from": "{xlmr}", "kind": "wordpiece"},
            r"kind = 'wordpiece', and .* is unigram: set vocabulary\.kind = 'unigram'",
        ),
        ({"start_from": "{bpe}"}, r"holds a BPE model; only Unigram and WordPiece can be taken"),
    ],
)
def test_what_cannot_be_taken_is_refused_before_anything_is_counted(
    store: Store, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    places = {
        "bert": bert_folder(tmp_path / "bert", WORDS),
        "xlmr": unigram_folder(tmp_path / "xlmr", model_of(PIECES)),
        "bpe": tmp_path / "bpe",
    }
    places["bpe"].mkdir()
    (places["bpe"] / "tokenizer.json").write_text('{"model": {"type": "BPE"}}')
    given = {name: value.format(**places) for name, value in given.items()}
    with pytest.raises(ConfigError, match=message):
        run(store, config(**given), TEXTS)
    with pytest.raises(ConfigError, match=message):
        check_start(config(**given).vocabulary, store)
    with pytest.raises(FileNotFoundError):
        read_stage(store, RUN, "vocabulary-words")
