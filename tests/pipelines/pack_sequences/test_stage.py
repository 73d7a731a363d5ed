from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w

from pipelines.core.held_out import held_out_of_file, is_held_out
from pipelines.core.manifest import (
    StageRecord,
    read_manifests,
    read_stage,
    stage_record_key,
    write_json,
)
from pipelines.core.masking import MaskingRule, UniformSampler, choose_and_replace
from pipelines.core.records import Document, check_packed, documents_to_table
from pipelines.core.run_file import config_key
from pipelines.core.shards import Attempt
from pipelines.core.store import Store
from pipelines.core.vocabulary import BOS_ID, EOS_ID, UNK_ID, Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary
from pipelines.pack_sequences import encode
from pipelines.run_stage import run_stage
from tests.pipelines.pack_sequences.corpus import (
    DOCUMENTS,
    Corpus,
    data_config,
    make_corpus,
    model,
    rows_of,
)

MODES = ("stream", "document", "pairs")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def corpus(store: Store) -> Corpus:
    return make_corpus(store)


def ids_by_document(corpus: Corpus) -> dict[str, list[int]]:
    """Ordinary ids of every document, encoded here line by line."""
    vocabulary = Vocabulary(model())
    found = {}
    for output in corpus.unique:
        for row in corpus.store.read_table(output.path, columns=["id", "text"]).to_pylist():
            lines = row["text"].split("\n")
            found[row["id"]] = [int(i) for line in lines for i in vocabulary.encode(line)]
    return found


def ordinary(row: dict[str, Any]) -> list[int]:
    return [token for token in row["tokens"] if token not in (BOS_ID, EOS_ID)]


@pytest.mark.parametrize("mode", MODES)
def test_tokens_of_the_corpus_are_tokens_of_the_rows(corpus: Corpus, mode: str) -> None:
    record = corpus.pack(packing={"mode": mode})
    counters = record.counters
    documents = ids_by_document(corpus)
    for part, prefix in (("train", ""), ("held-out", "held_out_")):
        for language in DOCUMENTS:
            rows = rows_of(corpus.store, record, part=part, language=language)
            in_rows = sum(len(ordinary(row)) for row in rows)
            borrowed = counters.get(f"{prefix}borrowed_tokens/{language}", 0)
            dropped = counters.get(f"{prefix}dropped.lone_tokens/{language}", 0)
            tokens = counters[f"{prefix}tokens/{language}"]
            assert in_rows == tokens + borrowed - dropped
            assert counters[f"{prefix}sequences/{language}"] == len(rows) > 0
            assert counters[f"{prefix}slots/{language}"] == 48 * len(rows)
            assert counters[f"{prefix}row_tokens/{language}"] == sum(len(r["tokens"]) for r in rows)
            assert all(row["language"] == language for row in rows)
        if mode != "pairs":  # there, sentences are encoded one by one
            names = {
                name
                for row in rows_of(corpus.store, record, part=part)
                for name in row["document_ids"]
            }
            whole = sum(counters[f"{prefix}tokens/{language}"] for language in DOCUMENTS)
            assert whole == sum(len(documents[name]) for name in names)
    for language, count in DOCUMENTS.items():
        both = counters[f"documents/{language}"] + counters[f"held_out_documents/{language}"]
        assert both == count
    assert counters["empty_documents"] + counters["held_out_empty_documents"] == 3


def test_stream_rows_are_the_documents_text_in_the_files_order(corpus: Corpus) -> None:
    record = corpus.pack()
    documents = ids_by_document(corpus)
    for output in record.outputs_of(part="train"):
        rows = corpus.store.read_table(output.path).to_pylist()
        names = list(dict.fromkeys(name for row in rows for name in row["document_ids"]))
        assert [i for row in rows for i in ordinary(row)] == [
            i for name in names for i in documents[name]
        ]


def test_document_rows_hold_whole_documents(corpus: Corpus) -> None:
    record = corpus.pack(packing={"mode": "document"})
    documents = ids_by_document(corpus)
    for row in rows_of(corpus.store, record):
        ends = [*row["document_starts"][1:], len(row["tokens"])]
        for name, begin, end in zip(row["document_ids"], row["document_starts"], ends, strict=True):
            chunk = row["tokens"][begin + 1 : end - 1]
            if len(documents[name]) <= 46:
                assert chunk == documents[name]
            else:
                text = documents[name]
                assert chunk in [text[i : i + 46] for i in range(0, len(text), 46)]


def test_pairs_have_segments_and_labels(corpus: Corpus) -> None:
    record = corpus.pack(packing={"mode": "pairs", "true_next_share": 0.3})
    rows = rows_of(corpus.store, record, part="train")
    for row in rows:
        assert len(row["segments"]) == len(row["tokens"])
        second = row["segments"].index(1)
        assert row["document_starts"] == [1, second]
        assert set(row["segments"][second:]) == {1}
        assert row["is_next"] == (row["document_ids"][0] == row["document_ids"][1])
    counters = record.counters
    true = sum(counters[f"pairs_next/{language}"] for language in DOCUMENTS)
    other = sum(counters[f"pairs_other/{language}"] for language in DOCUMENTS)
    assert (true, other) == (sum(r["is_next"] for r in rows), sum(not r["is_next"] for r in rows))
    assert abs(true - 0.3 * len(rows)) < 4 * (0.21 * len(rows)) ** 0.5


def test_held_out_documents_are_in_no_training_row(corpus: Corpus) -> None:
    record = corpus.pack(packing={"mode": "pairs"})
    by_part = {
        part: {n for row in rows_of(corpus.store, record, part=part) for n in row["document_ids"]}
        for part in ("train", "held-out")
    }
    assert not by_part["train"] & by_part["held-out"]
    assert all(is_held_out(name, 0.1, 7) for name in by_part["held-out"])
    assert not any(is_held_out(name, 0.1, 7) for name in by_part["train"])


def test_a_file_whose_documents_would_all_be_held_out_keeps_one_to_train_on(
    corpus: Corpus,
) -> None:
    """Counting takes the whole share, packing less of it: no document may be on both sides."""
    share, seed = 0.4, 7
    names = [name for name in map(str, range(200)) if is_held_out(name, share, seed)]
    documents = [
        Document(id=name, text="wa ki.", source="made", url="", shard="s", offset=0, language="sw")
        for name in names
    ]
    attempt = Attempt(corpus.store, "corpus/unique/more", "unit")
    attempt.write_table("sw/part", documents_to_table(documents), part="unique", language="sw")
    path = attempt.outputs[0].path
    left_out = held_out_of_file(corpus.store, path, share, seed)
    assert len(left_out) == len(names) - 1 > 50
    for smaller in (0.05, 0.2, share):
        packed = held_out_of_file(corpus.store, path, smaller, seed)
        assert packed and packed <= left_out

    corpus.balance["rows"] = [{"language": "sw", "documents": len(names)}]
    corpus.unique = attempt.outputs
    record = corpus.pack(packing={"held_out_share": share})
    assert record.counters["documents/sw"] == 1
    assert record.counters["held_out_documents/sw"] == len(left_out)
    ids = {
        name
        for row in rows_of(corpus.store, record, part="held-out")
        for name in row["document_ids"]
    }
    assert ids == left_out


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_stored_masks_are_those_of_the_pure_function(corpus: Corpus, unit: str) -> None:
    masking = {"views": 3, "rate": 0.3, "unit": unit, "random_from": "uniform"}
    record = corpus.pack(masking=masking)
    vocabulary = Vocabulary(model())
    special = vocabulary.special_ids
    rule = MaskingRule(0.3, 0.8, 0.1, vocabulary.mask_id, special, unit)
    held_out = MaskingRule(0.15, 0.8, 0.1, vocabulary.mask_id, special)
    sampler = UniformSampler(vocabulary.rows, special)
    masked: Counter[str] = Counter()
    for part, use, views in (("train", rule, 3), ("held-out", held_out, 1)):
        starts = vocabulary.word_starts if use.unit != "token" else None
        for row in rows_of(corpus.store, record, part=part):
            tokens = np.array(row["tokens"], np.uint32)
            assert len(row["mask_positions"]) == len(row["mask_tokens"]) == views
            for view in range(views):
                positions, ids = choose_and_replace(
                    tokens, use, sampler, 7, view, row["sequence_id"], starts
                )
                assert row["mask_positions"][view] == positions.tolist()
                assert row["mask_tokens"][view] == ids.tolist()
            masked[f"{part}/{row['language']}"] += len(row["mask_positions"][0])
            usual = sum(token not in special for token in row["tokens"])
            if use.unit == "token" and usual:
                assert len(row["mask_positions"][0]) == max(1, round(use.rate * usual))
    for language in DOCUMENTS:
        assert masked[f"train/{language}"] == record.counters[f"masked_tokens/{language}"]
        held = record.counters[f"held_out_masked_tokens/{language}"]
        assert masked[f"held-out/{language}"] == held


@pytest.mark.parametrize("mix_languages", [False, True])
def test_languages_that_gave_no_row_of_training_are_named(
    corpus: Corpus, mix_languages: bool
) -> None:
    blank = [
        Document(id=f"b{n}", text=" ", source="made", url="", shard="s", offset=n, language="eo")
        for n in range(3)
    ]
    attempt = Attempt(corpus.store, "corpus/unique/blank", "unit")
    attempt.write_table("eo/part-0", documents_to_table(blank), part="unique", language="eo")
    corpus.unique += attempt.outputs
    rows = [*corpus.balance["rows"], {"language": "eo", "documents": 3}]
    rows.append({"language": "yo", "documents": 5})  # no file of it is left
    corpus.balance = {"rows": rows}
    # No document is held out, so that the numbers are certain.
    sizes = {"held_out_share": 1e-9, "mix_languages": mix_languages}

    for record in (corpus.pack(packing=sizes), corpus.pack(packing=sizes)):  # done, and reused
        assert record.notes[-1] == (
            "in the balance, but without a row of training: eo (3 documents of training with 0 "
            "tokens, 0 held out), yo (0 documents of training with 0 tokens, 0 held out)"
        )
        assert len(record.notes) == 1 + mix_languages
        assert record.notes[0].startswith("packing.mix_languages: ") == mix_languages
    assert record.reused == record.units


def test_no_view_may_be_stored_and_phases_say_what_is(corpus: Corpus) -> None:
    phases = [{"until": 0.5, "rate": 0.3}, {"until": 1.0, "rate": 0.05}]
    record = corpus.pack(masking={"views": 0, "phases": phases})
    assert all(row["mask_positions"] == [] for row in rows_of(corpus.store, record, part="train"))
    assert all(
        len(r["mask_positions"]) == 1 for r in rows_of(corpus.store, record, part="held-out")
    )
    assert not record.notes
    noted = corpus.pack(masking={"views": 1, "phases": phases})
    assert noted.notes == [
        "masking.phases (0.3 until 0.5, 0.05 until 1): the 1 stored view(s) are made at "
        "masking.rate = 0.15; masks of other rates are computed while training"
    ]
    assert corpus.pack(masking={"views": 1}).reused == noted.units


def test_every_file_says_how_it_was_packed(corpus: Corpus) -> None:
    record = corpus.pack(packing={"mode": "pairs"})
    [spm_model] = [o for o in corpus.vocabulary if o.labels["part"] == "spm.model"]
    for output in record.outputs:
        with corpus.store.open(output.path) as file:
            schema = pq.ParquetFile(file).schema_arrow
        found = check_packed(schema.metadata, 302, output.path, spm_model.sha256)
        assert (found.mode, found.length, found.id_bytes) == ("pairs", 48, 2)
        assert output.rows


def test_one_sequence_may_mix_languages_when_asked(corpus: Corpus) -> None:
    record = corpus.pack(packing={"mode": "stream", "mix_languages": True})
    rows = rows_of(corpus.store, record, part="train")
    assert {row["language"] for row in rows} == {"mul"}
    language_of = {
        name: output.labels["language"]
        for output in corpus.unique
        for name in corpus.store.read_table(output.path, columns=["id"])["id"].to_pylist()
    }
    mixed = sum(len({language_of[name] for name in row["document_ids"]}) > 1 for row in rows)
    # About one border of documents in three rows, and at six of ten of them the language changes.
    assert mixed > len(rows) / 8
    # Each language is spread over the whole: in both halves there is about half of it.
    for language in DOCUMENTS:
        places = [
            n
            for n, row in enumerate(rows)
            for name in row["document_ids"]
            if language_of[name] == language
        ]
        assert 0.3 < np.mean(np.array(places) < len(rows) / 2) < 0.7
    assert sum(len(ordinary(row)) for row in rows) == sum(
        record.counters[f"tokens/{language}"] for language in DOCUMENTS
    )
    held_out = rows_of(corpus.store, record, part="held-out")
    assert {row["language"] for row in held_out} == set(DOCUMENTS)
    for row in held_out:
        assert {language_of[name] for name in row["document_ids"]} == {row["language"]}


@pytest.mark.parametrize("mode", MODES)
def test_word_pieces_are_packed_the_same_way(store: Store, mode: str) -> None:
    corpus = make_corpus(store, kind="wordpiece")
    record = corpus.pack(packing={"mode": mode}, masking={"unit": "word"})
    [tokenizer] = [o for o in corpus.vocabulary if o.labels["part"] == "tokenizer.json"]
    vocabulary = WordPieceVocabulary(store.read_bytes(tokenizer.path))
    rows = rows_of(store, record, part="train", language="en")
    assert "[CLS]" not in vocabulary.decode(rows[0]["tokens"])
    unknown = sum(row["tokens"].count(UNK_ID) for row in rows)
    assert unknown >= record.counters["unknown_tokens/en"] > 0
    assert unknown == record.counters["unknown_tokens/en"] or mode == "pairs"  # borrowed text too
    maskable = sum(token > UNK_ID for row in rows for token in row["tokens"])
    assert maskable == record.counters["maskable_tokens/en"]
    assert {row["tokens"][0] for row in rows} == {0}
    assert sum(len(row["mask_positions"][0]) for row in rows) > 0


def digests(record: StageRecord) -> dict[str, str]:
    return {output.path: output.sha256 for output in record.outputs}


ON_RAY = """
import sys
import ray
from pipelines.core.store import Store
from tests.pipelines.pack_sequences.corpus import make_corpus
for workers in (1, 2, 4):
    ray.init(num_cpus=workers, include_dashboard=False, configure_logging=False,
             object_store_memory=80 * 2**20,
             runtime_env={"env_vars": {"PYTHONPATH": sys.argv[2]}})
    store = Store(f"{sys.argv[1]}/workers-{workers}")
    make_corpus(store, files=4).pack(inline=False, masking={"views": 2})
    ray.shutdown()
"""


@pytest.mark.ray
def test_the_bytes_are_the_same_for_1_2_and_4_workers_and_after_a_restart(tmp_path: Path) -> None:
    alone = make_corpus(Store(str(tmp_path / "alone")), files=4)
    wanted = alone.pack(masking={"views": 2})
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-c", ON_RAY, str(tmp_path), str(ROOT)],
        env={**environment, "RAY_AUTH_MODE": "disabled", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for workers in (1, 2, 4):
        store = Store(str(tmp_path / f"workers-{workers}"))
        record = read_stage(store, "packing", "pack")
        assert digests(record) == digests(wanted)
        assert record.counters == wanted.counters
    [first, second, *_] = read_manifests(alone.store, wanted)
    alone.store.delete(wanted.manifests[0])
    alone.store.delete(second.outputs[0].path)
    shutil.rmtree(alone.store.path(f"runs/packing/packed/{first.outputs[0].labels['language']}"))
    again = alone.pack(masking={"views": 2})
    assert again.reused < again.units
    assert digests(again) == digests(wanted)


def test_how_text_is_cut_into_batches_changes_no_row(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = corpus.pack(run="whole")
    monkeypatch.setattr(encode, "CHARACTERS_PER_BATCH", 300)
    again = corpus.pack(run="cut")
    assert rows_of(corpus.store, again) == rows_of(corpus.store, wanted)
    assert again.counters == wanted.counters


def test_the_stage_as_its_driver_runs_it(corpus: Corpus, tmp_path: Path) -> None:
    """Records of earlier stages in, the record and the card out."""
    store = corpus.store
    phases = [{"until": 1.0, "rate": 0.3}]
    tree = data_config(masking={"phases": phases}, packing={"mode": "document"})
    plain = tree.model_dump(mode="json", exclude_none=True)
    store.publish_bytes(config_key("packing"), tomli_w.dumps(plain).encode())
    balance = Attempt(store, "balance", "unit")
    table = tmp_path / "table.json"
    table.write_text(json.dumps(corpus.balance))
    balance.write_file("table.json", table, part="balance")
    for name, outputs in (
        ("balance", balance.outputs),
        ("vocabulary", corpus.vocabulary),
        ("deduplicate", corpus.unique),
    ):
        record = StageRecord(
            stage=name,
            binding_id="",
            manifests=[],
            outputs=outputs,
            counters={},
            seconds=0,
            units=1,
            reused=0,
        )
        write_json(store, stage_record_key("packing", name), record)
    record = run_stage("pack", store, "packing", inline=True)
    assert record == read_stage(store, "packing", "pack")
    assert record.units == len(corpus.unique)
    assert [note for note in record.notes if "masking.phases (0.3 until 1)" in note]
    assert store.exists("runs/packing/packed/README.md")
    again = run_stage("pack", store, "packing", inline=True)
    assert again.reused == again.units and digests(again) == digests(record)
