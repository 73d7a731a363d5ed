from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from pipelines.config import DataConfig
from pipelines.core.held_out import is_held_out
from pipelines.core.manifest import StageRecord, read_stage
from pipelines.core.shards import StageFailed
from pipelines.core.store import Store
from pipelines.core.wordpiece import Cleaning
from pipelines.train_vocabulary import count_job
from pipelines.train_vocabulary.bert_words import bert_words, count_bert_words
from pipelines.train_vocabulary.count_job import LowestLines, Runs
from pipelines.train_vocabulary.merge import count_characters, read_plan
from pipelines.train_vocabulary.normalizer import word_normalizer
from pipelines.train_vocabulary.word_counts import count_words
from pipelines.train_vocabulary.word_tables import hashed
from tests.pipelines.train_vocabulary.corpus import RUN, config, run, texts_of, write

TEXTS = {"en": texts_of("en", 60), "ru": texts_of("ru", 24), "ja": texts_of("ja", 24)}


def merged_counts(store: Store) -> dict[tuple[str, str], int]:
    """(language, word) -> count, over all ranges of the merge."""
    plan = read_stage(store, RUN, "vocabulary-plan").outputs[0].ref
    languages = read_plan(store, plan).languages
    found: dict[tuple[str, str], int] = {}
    for output in read_stage(store, RUN, "vocabulary-merge").outputs_of(part="merged"):
        for row in store.read_table(output.path).to_pylist():
            key = (languages[row["language"]], row["word"])
            assert key not in found
            found[key] = row["count"]
    return found


def counted_by_hand(settings: DataConfig) -> Counter[tuple[str, str]]:
    """The same by SentencePiece's normaliser and a Counter, word by word."""
    expected: Counter[tuple[str, str]] = Counter()
    share, seed = settings.packing.held_out_share, settings.run.seed
    for language, texts in TEXTS.items():
        for number, text in enumerate(texts):
            if is_held_out(f"{language}-{number}", share, seed):
                continue
            for line in text.split("\n"):
                for word in line.removesuffix(".").split():
                    expected[language, f"▁{word}"] += 1
                expected[language, "."] += 1
    return expected


@pytest.mark.parametrize(("files", "rows_at_once"), [(1, 10**6), (5, 10**6), (3, 40)])
def test_counts_are_those_of_a_counter_however_the_corpus_lies(
    store: Store, files: int, rows_at_once: int
) -> None:
    settings = config(packing__held_out_share=0.1)
    run(store, settings, TEXTS, files, rows_at_once)

    expected = counted_by_hand(settings)
    assert merged_counts(store) == expected
    assert 0 < read_stage(store, RUN, "vocabulary-words").counters["held_out_documents/en"] < 20
    ranges = read_stage(store, RUN, "vocabulary-merge").units
    assert (ranges > 8) if rows_at_once == 40 else (ranges == 1)
    by_language = Counter(language for language, _ in expected)
    counters = read_stage(store, RUN, "vocabulary-merge").counters
    assert {f"distinct_words/{tag}": n for tag, n in by_language.items()} == counters


def final(store: Store) -> StageRecord:
    return read_stage(store, RUN, "vocabulary")


def checksums(record: StageRecord) -> dict[str, str]:
    return {output.labels["part"]: output.sha256 for output in record.outputs}


def test_layout_order_and_ranges_change_no_byte_of_the_vocabulary(tmp_path: object) -> None:
    found = []
    for number, (files, rows_at_once) in enumerate([(1, 10**6), (4, 10**6), (2, 40)]):
        store = Store(f"{tmp_path}/{number}")
        found.append(checksums(run(store, config(), TEXTS, files, rows_at_once)))
    assert {"spm.model", "tokenizer.json", "unigram", "report"} <= found[0].keys()
    assert found[0] == found[1] == found[2]


@pytest.mark.ray
def test_ray_workers_give_the_same_bytes(tmp_path: object, local_ray: None) -> None:
    here, there = Store(f"{tmp_path}/here"), Store(f"{tmp_path}/there")
    inline = run(here, config(), TEXTS, 2, 150)
    assert checksums(run(there, config(), TEXTS, 2, 150, inline=False)) == checksums(inline)
    assert read_stage(there, RUN, "vocabulary-words").units == 6
    assert read_stage(there, RUN, "vocabulary-merge").units > 1


def test_another_balance_counts_nothing_again_and_another_file_only_itself(store: Store) -> None:
    run(store, config(), TEXTS, 2)
    before = checksums(final(store))
    run(store, config(balance__alpha=0.9), TEXTS, 2)
    words = read_stage(store, RUN, "vocabulary-words")
    assert (words.units, words.reused) == (6, 6)
    assert read_stage(store, RUN, "vocabulary-merge").reused == 1
    assert final(store).reused == 0 and checksums(final(store)) != before

    unique = write(store, {"he": texts_of("he", 10)})
    run(store, config(), {**TEXTS, "he": texts_of("he", 10)}, 2)
    words = read_stage(store, RUN, "vocabulary-words")
    assert (words.units, words.reused) == (8, 6)
    assert [output.labels["language"] for output in unique] == ["he"]


def test_a_stage_that_broke_off_goes_on_where_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {**TEXTS, "th": texts_of("th", 12)}
    whole = checksums(run(Store(f"{store.url}-whole"), config(), texts, 2))
    real = count_job.count_texts

    def breaks(counted: list[str], *others: Any) -> pa.Table:
        if any("ฉ" in text for text in counted):
            raise OSError("no space left on device")
        return real(counted, *others)

    with monkeypatch.context() as patch:
        patch.setattr(count_job, "count_texts", breaks)
        with pytest.raises(StageFailed, match=r"th/part-0\.parquet: OSError: no space left"):
            run(store, config(), texts, 2)
    with pytest.raises(FileNotFoundError):
        final(store)
    assert checksums(run(store, config(), texts, 2)) == whole
    words = read_stage(store, RUN, "vocabulary-words")
    assert (words.units, words.reused) == (8, 6)


def test_runs_on_disk_give_what_memory_gives() -> None:
    words = [word for text in TEXTS["en"] for word in text.split()]
    tables = []
    for start in range(0, len(words), 50):
        counts = Counter(words[start : start + 50])
        columns = [list(counts), list(counts.values())]
        tables.append(hashed(pa.table(columns, names=["word", "count"])))
    with ExitStack() as stack:
        small, large = Runs(stack, rows_in_memory=60), Runs(stack)
        for table in tables:
            small.add(table)
            large.add(table)
        assert len(small._files) > 2 and not large._files
        spilled = pa.concat_tables(small.parts())
        assert spilled.equals(pa.concat_tables(large.parts()))
    found = dict(zip(spilled["word"].to_pylist(), spilled["count"].to_pylist(), strict=True))
    assert found == Counter(words)


def test_the_lowest_lines_are_kept_in_any_order() -> None:
    offered = [(key * 7919 % 10_007, f"line {key}") for key in range(500)]
    forwards, backwards = LowestLines(20), LowestLines(20)
    for key, line in offered:
        forwards.offer(key, line)
    for key, line in reversed(offered):
        backwards.offer(key, line)
    assert forwards.lines() == backwards.lines() == sorted(offered)[:20]


def test_characters_are_counted_as_often_as_their_words_stand_in_the_text() -> None:
    words = pa.chunked_array([pa.array(["▁aa\U0001f600", "b"]), pa.array(["a", "▁"])])
    points, counts = count_characters(words, words_counts := pa.array([3, 5, 2, 1]).to_numpy())
    assert len(words_counts) == len(words)
    assert dict(zip(map(chr, points.tolist()), counts.tolist(), strict=True)) == {
        "a": 8,
        "b": 5,
        "▁": 4,
        "\U0001f600": 3,
    }


def test_words_are_counted_in_the_form_that_the_rule_gives_them() -> None:
    """C24: the non-joiner is a blank under nmt_nfkc alone."""
    persian = "می\u200cخواهم"
    broken = count_words([persian], word_normalizer("nmt_nfkc"))["word"].to_pylist()
    assert sorted(broken) == sorted(["▁می", "▁خواهم"])
    for rule in ("nmt_nfkc_joiners", "nfkc", "identity"):
        assert count_words([persian], word_normalizer(rule))["word"].to_pylist() == [f"▁{persian}"]


def test_bert_words_of_a_text_are_those_of_its_stretches_between_blanks() -> None:
    texts = [
        "Héllo, wörld! don't 漢字abc ...\n\n  Two\tthree\x1cfour\u2028five ",
        "ÀÉ\u00a0x" * 60,
        "ก" * 250,
    ]
    for lowercase in (True, False):
        expected: Counter[str] = Counter()
        for text in texts:
            for word in bert_words(text, Cleaning(lowercase, lowercase)):
                for start in range(0, len(word), 100):
                    expected[word[start : start + 100]] += 1
        table = count_bert_words(texts, lowercase)
        columns = (table[name].to_pylist() for name in ("word", "count"))
        assert dict(zip(*columns, strict=True)) == expected
    assert count_bert_words(["Ünder"], True)["word"].to_pylist() == ["under"]
    assert count_bert_words(["Ünder"], False)["word"].to_pylist() == ["Ünder"]


def test_counting_reads_no_setting_of_balance_or_size() -> None:
    one = count_job.count_settings(config())
    assert one == count_job.count_settings(
        config(size=5000, character_coverage=0.99, balance__alpha=1.0, train_on="lines")
    )
    assert one != count_job.count_settings(config(normalization="nfkc"))
    assert one != count_job.count_settings(config(packing__held_out_share=0.2))


def test_characters_that_no_piece_can_hold_are_counted(store: Store) -> None:
    damaged = ["ein\0mal \u2585 zwei\x07 drei\n"]
    run(store, config(packing__held_out_share=1e-9), TEXTS | {"en": TEXTS["en"] + damaged})
    counters = read_stage(store, RUN, "vocabulary-words").counters
    assert counters["replaced_characters/en"] == 3
