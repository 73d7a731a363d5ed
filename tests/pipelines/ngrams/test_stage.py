from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.config import DataConfig
from pipelines.core.hashing import stable_uint64
from pipelines.core.manifest import Output, StageRecord, read_stage
from pipelines.core.records import Document, documents_to_table, table_to_documents
from pipelines.core.shards import Attempt
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.ngrams.arpa import in_log10
from pipelines.ngrams.count import count_ngrams
from pipelines.ngrams.scorer import BuiltInScorer, perplexities
from pipelines.ngrams.scoring import bucket_of, percentile_cuts
from pipelines.ngrams.smoothing import smooth
from pipelines.ngrams.stage import score_perplexity
from pipelines.ngrams.tokens import sentences_of, words
from tests.pipelines.ngrams.reference import zipf_sentences

SMALL = {"order": 3, "tokens": "words", "min_training_characters": 200}


def document(number: int, text: str, language: str = "en", source: str = "wikipedia") -> Document:
    return Document(
        id=f"{language}-{source}-{number}",
        text=text,
        source=source,
        url=f"https://example.org/{number}",
        shard="shard",
        offset=number,
        language=language,
        metadata={"cluster_size": "2"},
    )


def made_up(language: str = "en") -> list[Document]:
    """60 documents of Wikipedia and 40 of the crawl, the later ones of the crawl ever wilder."""
    lines = iter(zipf_sentences(8, 2000, 40))
    found = []
    for number in range(100):
        source = "wikipedia" if number < 60 else "commoncrawl"
        parts = [" ".join(next(lines)) or "w00" for _ in range(6)]
        if number >= 60:
            parts += [f"wild{number} strange{n} words" for n in range(number - 60)]
        text = ". ".join(parts[:3]) + ".\n\n" + ". ".join(parts[3:]) + "."
        found.append(document(number, text, language, source))
    return found


def write(store: Store, documents: list[Document], files: int) -> list[Output]:
    attempt = Attempt(store, f"corpus/unique/{files}", "unit")
    language = documents[0].language
    for number in range(files):
        size = -(-len(documents) // files)
        part = documents[number * size : (number + 1) * size]
        attempt.write_table(
            f"{language}/part-{number}", documents_to_table(part), part="unique", language=language
        )
    return attempt.outputs


def config(**perplexity: Any) -> DataConfig:
    return DataConfig.model_validate(
        {
            "run": {"name": "test"},
            "sources": [{"kind": "local_files", "paths": ["nothing"]}],
            "perplexity": {"enabled": True, **SMALL, **perplexity},
        }
    )


def run(store: Store, settings: DataConfig, documents: list[Output]) -> StageRecord:
    return score_perplexity(StageRun(store, "test", inline=True, quiet=True), settings, documents)


def read(store: Store, outputs: list[Output]) -> list[Document]:
    return [d for output in outputs for d in table_to_documents(store.read_table(output.path))]


def step(store: Store, name: str) -> StageRecord:
    return read_stage(store, "test", f"perplexity-{name}")


def test_documents_get_the_perplexity_of_the_model_of_their_wikipedia(store: Store) -> None:
    documents = made_up()
    record = run(store, config(), write(store, documents, 2))

    tokenized = [words(list(sentences_of(d.text, "en"))) for d in documents]
    train = [s for text in tokenized[:60] for s in text]
    scorer = BuiltInScorer(in_log10(smooth(count_ngrams(train, 3), "kneser_ney")[0]))
    expected = perplexities(scorer, tokenized)
    head, middle = np.percentile(expected, [30, 60])

    after = read(store, record.outputs_of(part="unique"))
    assert [d.id for d in after] == [d.id for d in documents]
    assert [d.text for d in after] == [d.text for d in documents]
    for done, value in zip(after, expected.tolist(), strict=True):
        assert done.metadata["cluster_size"] == "2"
        assert float(done.metadata["perplexity"]) == pytest.approx(value, rel=6e-4)
        bucket = "head" if value < head else "middle" if value < middle else "tail"
        assert done.metadata["perplexity_bucket"] == bucket
    assert record.counters["bucket.head/en"] == 30
    assert record.counters["bucket.middle/en"] == 30
    assert record.counters["bucket.tail/en"] == 40
    assert step(store, "tokens").counters["training_documents/en"] == 60
    assert step(store, "counts").counters["training_sentences/en"] == len(train)


def test_outputs_and_counters_are_those_of_deduplication(store: Store) -> None:
    documents = made_up()

    record = run(store, config(), write(store, documents, 3))

    assert record.stage == "perplexity"
    kept = record.outputs_of(part="unique")
    assert [output.labels for output in kept] == [{"part": "unique", "language": "en"}] * 3
    assert record.outputs_of(part="rejects") == []
    assert record.counters["documents/en"] == record.counters["kept"] == 100
    assert record.counters["characters/en"] == sum(len(d.text) for d in documents)
    assert record.counters["bytes/en"] == sum(len(d.text.encode()) for d in documents)
    assert record.counters["sentences/en"] > 600


def test_what_is_not_kept_is_a_reject_with_its_reason(store: Store) -> None:
    record = run(store, config(keep=["head", "middle"]), write(store, made_up(), 2))

    kept = read(store, record.outputs_of(part="unique"))
    rejects = record.outputs_of(part="rejects")
    gone = read(store, rejects)
    assert {d.metadata["perplexity_bucket"] for d in kept} == {"head", "middle"}
    assert {d.metadata["perplexity_bucket"] for d in gone} == {"tail"}
    assert len(kept) == record.counters["kept"] == record.counters["documents/en"] == 60
    assert record.counters["rejected.perplexity_tail"] == 40
    assert record.counters["rejected.perplexity_tail/en"] == 40
    reasons = {r for o in rejects for r in store.read_table(o.path)["reason"].to_pylist()}
    assert reasons == {"perplexity_tail"}


@pytest.mark.parametrize("tokens", ["words", "characters", "pieces"])
def test_one_file_and_seven_give_the_same_bytes(tmp_path: Path, tokens: str) -> None:
    made = []
    for files in (1, 7):
        store = Store(str(tmp_path / str(files)))
        settings = config(
            tokens=tokens, pieces=150, max_training_documents=40, min_count=2, train_on="all"
        )
        record = run(store, settings, write(store, made_up(), files))
        models = step(store, "models").outputs + step(store, "tokens").outputs
        cuts = step(store, "cuts").outputs
        made.append(
            (
                [store.read_bytes(output.path) for output in models + cuts],
                [(d.id, d.metadata) for d in read(store, record.outputs_of(part="unique"))],
            )
        )
        assert len(models) == (4 if tokens == "pieces" else 3)

    assert made[0] == made[1]


def test_the_draw_takes_the_lowest_hashes_up_to_its_bounds(store: Store) -> None:
    documents = made_up()
    files = write(store, documents, 3)
    order = sorted(documents[:60], key=lambda d: stable_uint64(7, "perplexity", d.id))
    sizes = [len(d.text.encode()) for d in order]

    run(store, config(max_training_documents=25), files)
    by_number = step(store, "tokens").counters["training_documents/en"]
    [draw] = step(store, "tokens").outputs_of(part="draw")
    highest = json.loads(store.read_bytes(draw.path))["highest"]
    sentences = step(store, "counts").counters["training_sentences/en"]
    run(store, config(max_training_bytes=sum(sizes[:10]) + 1), files)
    by_bytes = step(store, "tokens").counters["training_documents/en"]
    run(store, config(train_on="all"), files)

    assert by_number == 25
    assert highest == stable_uint64(7, "perplexity", order[24].id)
    drawn = [list(sentences_of(d.text, "en")) for d in order[:25]]
    assert sentences == sum(map(len, drawn))
    assert by_bytes == 11
    assert step(store, "tokens").counters["training_documents/en"] == 100


def test_a_language_without_enough_text_is_unscored_counted_and_noted(store: Store) -> None:
    short = [document(n, f"habari {n}", "sw") for n in range(3)]
    files = write(store, made_up(), 2) + write(store, short, 1)

    record = run(store, config(keep=["head", "middle", "tail"]), files)

    rejects = read(store, record.outputs_of(part="rejects"))
    assert [(d.language, d.metadata["perplexity_bucket"]) for d in rejects] == [
        ("sw", "unscored")
    ] * 3
    assert all("perplexity" not in d.metadata for d in rejects)
    assert record.counters["bucket.unscored/sw"] == 3
    assert record.counters["rejected.perplexity_unscored"] == 3
    drawn = step(store, "tokens")
    assert drawn.counters["languages_without_model"] == 1
    assert drawn.counters["languages_with_model"] == 1
    [note] = drawn.notes
    assert note.startswith("sw: 24 characters")
    assert "min_training_characters = 200" in note


def test_no_language_with_enough_text_leaves_all_documents_unscored(store: Store) -> None:
    files = write(store, [document(n, "one two") for n in range(3)], 1)

    record = run(store, config(), files)

    assert record.counters["kept"] == record.counters["bucket.unscored/en"] == 3


def test_a_document_without_a_token_is_unscored(store: Store) -> None:
    documents = [*made_up(), document(500, "\u200b \x01", source="commoncrawl")]
    documents[-1].text = "\x01\x02"

    record = run(store, config(), write(store, documents, 2))

    last = read(store, record.outputs_of(part="unique"))[-1]
    assert last.metadata["perplexity_bucket"] == "unscored"
    assert "perplexity" not in last.metadata
    assert step(store, "scores").counters["without_tokens/en"] == 1
    assert step(store, "scores").counters["scored/en"] == 100


def test_a_second_run_does_nothing_again_and_new_cuts_keep_the_models(store: Store) -> None:
    files = write(store, made_up(), 2)
    run(store, config(), files)

    again = run(store, config(), files)
    other = run(store, config(head_percentile=10, keep=["head"]), files)

    assert again.reused == again.units == 2
    assert step(store, "models").reused == step(store, "scores").units - 1 == 1
    assert step(store, "cuts").reused == 0
    assert other.counters["kept"] == 10


@pytest.mark.ray
def test_workers_on_ray_write_what_one_process_writes(tmp_path: Path, local_ray: None) -> None:
    made = []
    for inline in (True, False):
        store = Store(str(tmp_path / str(inline)))
        files = write(store, made_up(), 3)
        stage = StageRun(store, "test", inline=inline, quiet=True)
        outputs = score_perplexity(stage, config(), files).outputs
        models = step(store, "models").outputs
        made.append([(o.path, store.read_bytes(o.path)) for o in [*models, *outputs]])

    assert made[0] == made[1]


@pytest.mark.parametrize("smoothing", ["add_k", "good_turing", "katz", "kneser_ney"])
def test_kenlm_and_the_built_in_scorer_agree_in_the_stage(store: Store, smoothing: str) -> None:
    pytest.importorskip("kenlm", reason="kenlm is optional and not installed")
    files = write(store, made_up(), 2)
    found = []
    for scorer in ("built_in", "kenlm"):
        run(store, config(scorer=scorer, smoothing=smoothing), files)
        outputs = step(store, "scores").outputs
        tables = [store.read_table(output.path)["perplexity"].to_numpy() for output in outputs]
        found.append(np.concatenate(tables))

    assert np.abs(np.log10(found[0]) - np.log10(found[1])).max() < 1e-4
    assert len(np.unique(found[0])) > 90


def test_cuts_are_numpy_s_percentiles() -> None:
    values = np.random.default_rng(5).lognormal(5, 1, 1001)

    assert percentile_cuts(values, [30, 60]) == [
        pytest.approx(np.sort(values)[300]),
        pytest.approx(np.sort(values)[600]),
    ]
    assert percentile_cuts(np.array([1.0, 2.0]), [30, 60]) == pytest.approx([1.3, 1.6])


def test_buckets_are_below_their_cuts() -> None:
    cuts = {"head": 2.0, "middle": 3.0}
    found = Counter(bucket_of(value, cuts) for value in (1.9, 2.0, 2.9, 3.0, 9.0))

    assert found == {"head": 1, "middle": 2, "tail": 2}
    assert bucket_of(None, cuts) == bucket_of(1.0, None) == "unscored"


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="needs order 2 or more"):
        config(scorer="kenlm", order=1)
