from __future__ import annotations

import re
from pathlib import Path

import pytest
from datasets import get_dataset_config_names, load_dataset

from pipelines.core.manifest import read_stage
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary
from tests.pipelines.pack_sequences.corpus import Corpus, make_corpus, model, rows_of


@pytest.fixture
def corpus(store: Store) -> Corpus:
    return make_corpus(store)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return str(tmp_path / "cache")


def test_the_card_is_read_by_datasets_one_configuration_a_language(
    corpus: Corpus, own_cache: str
) -> None:
    record = corpus.pack(packing={"mode": "pairs"}, masking={"views": 2})
    folder = corpus.store.path("runs/packing/packed")
    stray = Path(folder) / "sw" / "train-0000.parquet"  # of another run of the stage, say
    stray.write_bytes(b"not even Parquet")
    loaded = load_dataset(folder, "sw", cache_dir=own_cache)
    assert set(loaded) == {"train", "held_out"}
    for split, part in (("train", "train"), ("held_out", "held-out")):
        assert list(loaded[split]) == rows_of(corpus.store, record, part=part, language="sw")
    masked = restored = 0
    mask_id = Vocabulary(model()).mask_id
    for row in loaded["train"]:
        inputs = list(row["tokens"])
        for place, token in zip(row["mask_positions"][1], row["mask_tokens"][1], strict=True):
            inputs[place] = token
        masked += inputs.count(mask_id)
        restored += sum(a != b for a, b in zip(inputs, row["tokens"], strict=True))
    assert 0.7 < masked / sum(len(row["mask_positions"][1]) for row in loaded["train"]) < 0.9
    assert restored >= masked > 50


def test_without_a_name_datasets_reads_all_languages(corpus: Corpus, own_cache: str) -> None:
    record = corpus.pack(packing={"mode": "pairs"})
    folder = corpus.store.path("runs/packing/packed")
    assert get_dataset_config_names(folder) == ["default", "en", "fi", "sw"]
    loaded = load_dataset(folder, cache_dir=own_cache)
    assert set(loaded) == {"train", "held_out"}
    for split, part in (("train", "train"), ("held_out", "held-out")):
        wanted = rows_of(corpus.store, record, part=part)
        assert {row["language"] for row in wanted} == {"en", "fi", "sw"}
        assert sorted(loaded[split]["sequence_id"]) == sorted(r["sequence_id"] for r in wanted)
    counters = record.counters
    tokens = sum(map(len, loaded["train"]["tokens"]))
    assert tokens == sum(counters[f"row_tokens/{tag}"] for tag in ("en", "fi", "sw"))
    text = corpus.store.read_bytes("runs/packing/packed/README.md").decode()
    assert f" | {tokens:,} | " in text and "the text that a B from another document" in text


def test_the_card_names_the_special_tokens_of_its_vocabulary(store: Store) -> None:
    corpus = make_corpus(store, kind="wordpiece")
    wanted = {
        "stream": "the other, `[SEP]` between them",
        "document": "each `[CLS] … [SEP]`;",
        "pairs": "`[CLS] A [SEP] B [SEP]` for next",
    }
    for mode, words in wanted.items():
        corpus.pack(packing={"mode": mode})
        text = corpus.store.read_bytes("runs/packing/packed/README.md").decode()
        assert words in text and "become `[MASK]`," in text
        assert not re.search(r"</?\w+>", text)


def test_files_open_by_themselves(corpus: Corpus, own_cache: str) -> None:
    record = corpus.pack()
    paths = [corpus.store.path(o.path) for o in record.outputs_of(part="train", language="no-one")]
    assert paths == []
    paths = [corpus.store.path(o.path) for o in record.outputs_of(part="train", language="fi")]
    rows = load_dataset("parquet", data_files=paths, cache_dir=own_cache)["train"]
    assert list(rows) == rows_of(corpus.store, record, part="train", language="fi")


def test_the_card_says_what_it_is_and_belongs_to_its_manifest(corpus: Corpus) -> None:
    record = corpus.pack(masking={"unit": "word", "rate": 0.3})
    text = corpus.store.read_bytes("runs/packing/packed/README.md").decode()
    assert "`document_starts`, `document_ids`" in text and "`segments`" not in text
    assert "Of the ordinary tokens 30.0% are chosen, by the unit word" in text
    assert "80% become `<mask>`, 10% a random token (unigram), 10% stay" in text
    assert "Wikipedia: CC BY-SA 4.0" in text and "Common Crawl" not in text
    [model_file] = [o for o in corpus.vocabulary if o.labels["part"] == "spm.model"]
    assert model_file.sha256 in text
    counters = record.counters
    rows = rows_of(corpus.store, record, part="train", language="fi")
    maskable = sum(token > 3 for row in rows for token in row["tokens"])
    masked = sum(len(row["mask_positions"][0]) for row in rows) / maskable
    fill = counters["row_tokens/fi"] / counters["slots/fi"]
    in_rows = sum(len(row["tokens"]) for row in rows)
    assert fill == in_rows / (48 * len(rows))
    held = rows_of(corpus.store, record, part="held-out", language="fi")
    held_tokens = sum(len(row["tokens"]) for row in held)
    wanted = (
        f"| fi | {counters['documents/fi']} | {counters['tokens/fi']:,} | {len(rows)} "
        f"| {in_rows:,} | {fill:.2%} | {masked:.2%} | {len(held)} | {held_tokens:,} |"
    )
    assert wanted in text
    everything = [
        sum(counters[f"{name}/{tag}"] for tag in ("en", "fi", "sw"))
        for name in ("documents", "tokens", "sequences", "row_tokens")
    ]
    assert f"| all | {' | '.join(f'{count:,}' for count in everything)} |" in text
    assert "slots, which are 48 for each sequence" in text
    card = read_stage(corpus.store, "packing", "pack-card")
    assert [output.path for output in card.outputs] == ["runs/packing/packed/README.md"]
    assert not [output for output in record.outputs if output.labels["part"] == "card"]


def test_a_card_that_another_configuration_wrote_over_is_written_again(corpus: Corpus) -> None:
    corpus.pack()
    key = "runs/packing/packed/README.md"
    first = corpus.store.read_bytes(key)
    corpus.pack(packing={"mode": "document"})
    assert corpus.store.read_bytes(key) != first
    corpus.pack()
    assert corpus.store.read_bytes(key) == first
    corpus.store.publish_bytes(key, b"x" * len(first))
    corpus.pack()
    assert corpus.store.read_bytes(key) == first
