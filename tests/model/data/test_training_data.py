from __future__ import annotations

import io
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.config import PretrainingSection
from model.data.batches import Batch
from model.data.prefetch import Prefetched
from model.data.sample_plan import Phase, SamplePlan
from model.data.training_data import PretrainingJob, TrainingData, plan_of
from model.distributed import Worker
from model.plan import phases_of
from pipelines.core.config import ConfigError, merge
from pipelines.core.masking import MaskingRule
from pipelines.core.store import Store
from tests.model.packed import ROWS, RULE, SEED, VOCABULARY, Row, damage, make_row, packing, write
from tests.model.tiny import tiny_config

from .test_batches import check, reference

SIZES = {"en": 40, "fi": 13, "sw": 5}
STEPS, BATCH, MICRO = 40, 8, 3


def rows_of(language: str) -> list[Row]:
    return [make_row(f"{language}:{i}", 20 + (i * 11) % 45, 2) for i in range(SIZES[language])]


CORPUS = {language: rows_of(language) for language in SIZES}
BY_ID = {row.id: row for rows in CORPUS.values() for row in rows}


def build(store: Store, scratch: Path, files_per_language: int = 1) -> dict[str, list[str]]:
    """Write the corpus in so many files a language; the keys by language."""
    buffer = io.BytesIO()
    np.save(buffer, np.arange(ROWS, dtype=np.int64))
    store.publish_bytes("unigram", buffer.getvalue())
    keys: dict[str, list[str]] = {}
    for language, rows in CORPUS.items():
        ends = np.linspace(0, len(rows), files_per_language + 1).round().astype(int)
        for number, (begin, end) in enumerate(pairwise(ends)):
            name = f"{language}/{files_per_language}-{files_per_language - number}.parquet"
            keys.setdefault(language, []).append(
                write(store, name, rows[begin:end], packing(), scratch, language)
            )
    return keys


def job_of(keys: dict[str, list[str]], **changes: Any) -> PretrainingJob:
    tree: dict[str, Any] = {
        "seed": SEED,
        "length": 64,
        "rows": ROWS,
        "encoder": {},
        "pretraining": {
            "steps": STEPS,
            "sequences_per_step": BATCH,
            "sequences_per_micro_batch": MICRO,
            "warmup_steps": 1,
        },
        "evaluation": {"max_sequences_per_language": 4},
        "masking": {"rate": 0.15, "mask_probability": 0.8, "random_probability": 0.1},
        "phases": [{"until": 1.0, "shares": {"en": 0.5, "fi": 0.3, "sw": 0.2}}],
        "train": keys,
        "held_out": {"fi": keys["fi"]} if "fi" in keys else {},
        "unigram": {"path": "unigram"},
        "vocabulary_sha256": VOCABULARY,
    }
    return PretrainingJob.model_validate(merge(tree, changes))


@pytest.fixture
def keys(store: Store, tmp_path: Path) -> dict[str, list[str]]:
    return build(store, tmp_path)


def ids_of(batches: list[Batch]) -> list[str]:
    return [name for batch in batches for name in batch.sequence_ids]


def same(ours: list[Batch], theirs: list[Batch]) -> bool:
    names = ("tokens", "masked", "labels", "document_starts")
    return len(ours) == len(theirs) and all(
        a.sequence_ids == b.sequence_ids
        and all(torch.equal(getattr(a, name), getattr(b, name)) for name in names)
        for a, b in zip(ours, theirs, strict=True)
    )


def test_batches_are_those_of_the_slow_way(
    store: Store, tmp_path: Path, keys: dict[str, list[str]]
) -> None:
    job = job_of(keys)
    data = TrainingData(job, store, tmp_path / "cache")
    plan = SamplePlan(SIZES, [Phase(None, job.phases[0].shares)], SEED)
    passes_seen = set()
    for step in range(STEPS):
        batches = [b for rank in range(2) for b in data.micro_batches(step, Worker(rank, 2))]
        assert [len(batch.sequence_ids) for batch in batches] == [3, 3, 2]
        for number, batch in enumerate(batches):
            own = range(step * BATCH + number * MICRO, step * BATCH + min(BATCH, number * 3 + 3))
            samples = [plan.sample(g) for g in own]
            passes_seen |= {sample.pass_index for sample in samples}
            rows = [CORPUS[sample.language][sample.row] for sample in samples]
            check(batch, reference(rows, [s.pass_index for s in samples], 64), pairs=False)
            assert batch.number == number
    assert {0, 1, 2, 3} <= passes_seen, "stored and computed masks were both met"


def test_order_depends_on_neither_workers_nor_files_nor_cache(
    store: Store, tmp_path: Path, keys: dict[str, list[str]]
) -> None:
    wanted = [
        ids_of(TrainingData(job_of(keys), store, tmp_path / "cache").micro_batches(step, Worker()))
        for step in range(STEPS)
    ]
    small = {"pretraining": {"cache_gb": 0.0002}}
    for files, changes in ((1, {}), (5, {}), (5, small)):
        job = job_of(build(store, tmp_path, files), **changes)
        data = TrainingData(job, store, tmp_path / f"cache-{files}-{len(changes)}")
        for world_size in (1, 2, 4):
            workers = [Worker(rank, world_size) for rank in range(world_size)]
            for step in range(STEPS):
                found = [i for w in workers for i in ids_of(data.micro_batches(step, w))]
                assert found == wanted[step]


def test_a_small_cache_gives_the_same_tensors_and_says_what_it_costs(
    store: Store, tmp_path: Path
) -> None:
    keys = build(store, tmp_path, 5)
    whole = TrainingData(job_of(keys), store, tmp_path / "whole")
    job = job_of(keys, pretraining={"cache_gb": 0.0002})
    small = TrainingData(job, store, tmp_path / "small")
    for step in range(6):
        assert same(small.micro_batches(step, Worker()), whole.micro_batches(step, Worker()))
    assert same(small.held_out_batches("fi", Worker()), whole.held_out_batches("fi", Worker()))
    assert whole.notes == []
    [note] = small.notes
    assert "pretraining.cache_gb = 0.0002" in note and "about 8" in note
    used = sum(path.stat().st_size for path in (tmp_path / "small").glob("*.arrow"))
    assert 0 < used <= 200_000


@pytest.mark.parametrize("stop", [5, 21, 37])
@pytest.mark.parametrize("depth", [0, 2])
def test_resuming_goes_on_element_by_element(
    store: Store, tmp_path: Path, keys: dict[str, list[str]], stop: int, depth: int
) -> None:
    # C42: stopped in the first and in later passes, with several micro-batches a step.
    data = TrainingData(job_of(keys), store, tmp_path / "cache")
    straight = [data.micro_batches(step, Worker()) for step in range(STEPS)]
    later = TrainingData(job_of(keys), store, tmp_path / "cache")
    with Prefetched(
        lambda step: later.micro_batches(step, Worker()), range(stop, STEPS), depth
    ) as ready:
        for step in range(stop, STEPS):
            assert same(ready.take(step), straight[step])


def test_resuming_replays_nothing(
    store: Store, tmp_path: Path, keys: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    samples = SamplePlan.samples

    def counted(self: SamplePlan, first: int, count: int) -> Any:
        asked.append((first, count))
        return samples(self, first, count)

    monkeypatch.setattr(SamplePlan, "samples", counted)
    job = job_of(keys, pretraining={"steps": 10**9})
    TrainingData(job, store, tmp_path / "cache").micro_batches(10**9 - 1, Worker(1, 2))
    # Worker 1 of 2 takes micro-batches 1 and 2 of 3.
    assert asked == [((10**9 - 1) * BATCH + MICRO, BATCH - MICRO)]


def test_in_a_pass_every_sequence_comes_once(
    store: Store, tmp_path: Path, keys: dict[str, list[str]]
) -> None:
    data = TrainingData(job_of(keys), store, tmp_path / "cache")
    drawn = [i for step in range(STEPS) for i in ids_of(data.micro_batches(step, Worker()))]
    for language, size in SIZES.items():
        own = [name for name in drawn if name.startswith(language)]
        for begin in range(0, len(own) - size + 1, size):
            assert len(set(own[begin : begin + size])) == size
    counts = Counter(name[:2] for name in drawn)
    for language, share in (("en", 0.5), ("fi", 0.3), ("sw", 0.2)):
        assert abs(counts[language] - share * STEPS * BATCH) <= 1


def test_the_mix_changes_with_the_phases(
    store: Store, tmp_path: Path, keys: dict[str, list[str]]
) -> None:
    shares = [{"en": 0.75, "fi": 0.25}, {"en": 0.25, "fi": 0.25, "sw": 0.5}]
    phases = [{"until": u, "shares": s} for u, s in zip((0.3, 1.0), shares, strict=True)]
    data = TrainingData(job_of(keys, phases=phases), store, tmp_path / "cache")
    for steps, share in ((range(12), shares[0]), (range(12, STEPS), shares[1])):
        drawn = [ids_of(data.micro_batches(step, Worker())) for step in steps]
        counts = Counter(name[:2] for names in drawn for name in names)
        for language in SIZES:
            assert abs(counts[language] - share.get(language, 0) * len(steps) * BATCH) <= 1


def test_a_rate_of_its_own_makes_its_own_masks(
    store: Store, tmp_path: Path, keys: dict[str, list[str]]
) -> None:
    phases = [{"until": 0.25, "rate": 0.4}, {"until": 0.5, "rate": 0.15}, {"until": 1, "rate": 0.3}]
    data = TrainingData(job_of(keys, masking={"phases": phases}), store, tmp_path / "cache")
    plan = SamplePlan(SIZES, [Phase(None, {"en": 0.5, "fi": 0.3, "sw": 0.2})], SEED)
    for step in range(STEPS):
        rate = 0.4 if step < 10 else 0.15 if step < 20 else 0.3
        rule = MaskingRule(rate, 0.8, 0.1, RULE.mask_id, RULE.special_ids)
        batch = data.micro_batches(step, Worker())[0]
        samples = [plan.sample(step * BATCH + i) for i in range(MICRO)]
        rows = [CORPUS[s.language][s.row] for s in samples]
        check(batch, reference(rows, [s.pass_index for s in samples], 64, rule), pairs=False)


def test_short_rows_hold_the_same_samples(
    store: Store, tmp_path: Path, keys: dict[str, list[str]]
) -> None:
    lengths = {"lengths": [{"until": 0.5, "length": 16}, {"until": 0.9, "length": 32}]}
    whole = TrainingData(job_of(keys), store, tmp_path / "cache")
    curriculum = TrainingData(job_of(keys, pretraining=lengths), store, tmp_path / "cache")
    for step in range(STEPS):
        width = 16 if step < 20 else 32 if step < 36 else 64
        ours, theirs = (data.micro_batches(step, Worker()) for data in (curriculum, whole))
        for short, long in zip(ours, theirs, strict=True):
            assert short.tokens.shape[1] == min(width, long.tokens.shape[1])
            assert short.sequence_ids == long.sequence_ids
            assert short.real_tokens == long.real_tokens
            assert torch.equal(short.labels, long.labels)


def section(*lengths: tuple[float, int]) -> PretrainingSection:
    phases = [{"until": until, "length": length} for until, length in lengths]
    return PretrainingSection.model_validate({"lengths": phases})


def test_lengths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"length = 48 does not divide packing\.length = 128"):
        section((0.9, 48)).check_lengths(128, "stream")
    with pytest.raises(ConfigError, match=r"would cut pairs .*packing\.length = 96"):
        section((0.9, 48)).check_lengths(96, "pairs")
    section((0.9, 48)).check_lengths(96, "document")
    section((0.9, 96)).check_lengths(96, "pairs")
    with pytest.raises(ValueError, match="rising shares"):
        section((0.9, 48), (0.5, 96))
    change = {"pretraining": {"lengths": [{"until": 0.9, "length": 10}]}}
    with pytest.raises(ValueError, match=r"length = 10 does not divide packing\.length = 24"):
        tiny_config(**change)


def test_phases_of_shares_end_with_a_step() -> None:
    shares = {"en": 0.5, "fi": 0.3, "sw": 0.2}
    job = job_of(
        {"en": ["a"], "fi": ["b"], "sw": ["c"]},
        phases=[{"until": u, "shares": shares} for u in (0.33, 0.34, 1.0)],
    )
    # 0.33 and 0.34 of 320 samples are 105.6 and 108.8: step 14 begins at sample 112.
    assert [phase.samples for phase in plan_of(job, SIZES).phases] == [14 * 8, 0, None]


def test_shares_come_from_the_balance_table() -> None:
    rows = [{"language": tag, "q": q} for tag, q in (("en", 0.6), ("fi", 0.3), ("sw", 0.1))]
    table = {"phases": [{"until": 0.5, "rows": rows}, {"until": 1.0, "rows": rows[:2]}]}
    assert [phase.shares for phase in phases_of(table, ["en", "sw"])] == [
        {"en": 0.6, "sw": 0.1},
        {"en": 0.6},
    ]
    assert phases_of(table, ["mul"])[0].shares == {"mul": 1.0}
    with pytest.raises(ConfigError, match=r"\['xx'\], which the balance table does not have"):
        phases_of(table, ["en", "xx"])


def test_held_out_rows_are_whole_and_met_once(
    store: Store, tmp_path: Path, keys: dict[str, list[str]]
) -> None:
    lengths = {"lengths": [{"until": 1.0, "length": 16}]}
    data = TrainingData(job_of(keys, pretraining=lengths), store, tmp_path / "cache")
    rows = CORPUS["fi"][:4]
    [first, second] = data.held_out_batches("fi", Worker())
    check(first, reference(rows[:3], [0, 0, 0], 64), pairs=False)
    check(second, reference(rows[3:], [0], 64), pairs=False)
    shared = [ids_of(data.held_out_batches("fi", Worker(rank, 3))) for rank in range(3)]
    assert sorted(i for ids in shared for i in ids) == [row.id for row in rows]
    labels = [t for row in rows for t in np.array(row.tokens)[row.mask(0)[0]].tolist()]
    wanted = -sum(data.unigram[label] for label in labels)
    assert data.unigram_baseline()["fi"]["loss_sum"] == pytest.approx(wanted)
    assert data.unigram_baseline()["fi"]["tokens"] == len(labels)


def test_damage_reaches_the_loop_with_its_file(store: Store, tmp_path: Path) -> None:
    keys = build(store, tmp_path, 5)
    job = job_of(keys, pretraining={"cache_gb": 0.0002})
    data = TrainingData(job, store, tmp_path / "cache")
    damage(Path(store.path(keys["en"][2])))
    with (
        Prefetched(lambda step: data.micro_batches(step, Worker()), range(STEPS), 2) as ready,
        pytest.raises(OSError, match=rf"{keys['en'][2]} is damaged"),
    ):
        for step in range(STEPS):
            ready.take(step)


def test_languages_without_text_are_named(
    store: Store, tmp_path: Path, keys: dict[str, list[str]]
) -> None:
    data = TrainingData(job_of(keys, without_text=["yo"]), store, tmp_path / "cache")
    assert data.notes == ["no sequence was packed of yo: the other languages take their shares"]
