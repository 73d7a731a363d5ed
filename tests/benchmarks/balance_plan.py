"""The plan over 10^9 sequences of 100 languages, against orders that are written out.

Peers, both in NumPy and at 10^7 sequences (their time and memory grow with the number): an order
drawn whole, and the rule of fairseq's multilingual_masked_lm, which draws every language's blocks
anew, with replacement, and shuffles them.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from model.data.sample_plan import Phase, SamplePlan, Samples
from model.data.sample_usage import usage_of
from pipelines.rebalance import sampling_plan

SEQUENCES = 10**9
WRITTEN_OUT = 10**7
LANGUAGES = 100
BATCH = 8192
ALPHA, MAX_REPEATS = 0.3, 8.0


def run(data: Path) -> dict[str, Any]:
    """Seconds and memory of making the plan, of batches, of a restart; and of the peers."""
    counts = counts_of(SEQUENCES)
    (shares, plan), making = measured(lambda: made(counts, SEQUENCES))
    _, batch = measured(lambda: plan.samples(SEQUENCES // 3, BATCH))
    _, restart = measured(lambda: made(counts, SEQUENCES)[1].samples(SEQUENCES // 2, BATCH))
    uses, telling = measured(lambda: usage_of(plan, SEQUENCES))
    small = counts_of(WRITTEN_OUT)
    small_shares, small_plan = made(small, WRITTEN_OUT)
    last, own = measured(lambda: walked(small_plan))
    _, whole = measured(lambda: written_out(small, small_shares))
    resampled, anew = measured(lambda: resampled_order(small, small_shares))
    again = made(small, WRITTEN_OUT)[1].samples(WRITTEN_OUT - BATCH, BATCH)
    return {
        "sequences": SEQUENCES,
        "languages": LANGUAGES,
        "batch": BATCH,
        "make_plan": making,
        "draw_a_batch": batch,
        "restart_in_the_middle_and_draw_a_batch": restart,
        "tell_the_use_of_all_texts": telling,
        "largest_deviation_from_q_x_samples": max(
            abs(use.draws - shares[use.language] * SEQUENCES) for use in uses
        ),
        "order_of_10^7": {
            "ours_batch_by_batch": own,
            "ours_samples_per_second": WRITTEN_OUT / own["seconds"],
            "ours_is_the_same_after_a_restart": bool(np.array_equal(last.rows, again.rows)),
            "written_out": whole,
            "resampled": anew,
            "memory_written_out_over_ours": whole["peak_kilobytes"] / own["peak_kilobytes"],
        },
        "written_out_at_10^9_by_factor_100": {
            "seconds": 100 * whole["seconds"],
            "peak_gigabytes": 100 * whole["peak_kilobytes"] / 1e6,
            "seconds_over_our_restart": 100 * whole["seconds"] / restart["seconds"],
        },
        "texts_never_used_in_languages_with_a_draw_for_each": {
            "ours": unused_by_plan(small_plan),
            "resampled": unused(small, small_shares, resampled),
        },
    }


def walked(plan: SamplePlan) -> Samples:
    """Every batch of a plan; the last is kept."""
    firsts = [*range(0, WRITTEN_OUT - BATCH, BATCH), WRITTEN_OUT - BATCH]
    for first in firsts:
        samples = plan.samples(first, BATCH)
    return samples


def counts_of(sequences: int) -> dict[str, int]:
    """Sequences of 100 languages that fall as rank^-1.5, as those of crawls roughly do."""
    sizes = np.arange(1, LANGUAGES + 1) ** -1.5
    counts = np.floor(sizes / sizes.sum() * sequences).astype(int)
    counts[0] += sequences - counts.sum()
    return {f"l{i:03}": int(count) for i, count in enumerate(counts)}


def made(counts: dict[str, int], samples: int) -> tuple[dict[str, float], SamplePlan]:
    """Shares by q, and a plan of so many samples."""
    shares = {share.language: share.q for share in sampling_plan(counts, ALPHA, MAX_REPEATS)}
    return shares, SamplePlan(counts, [Phase(samples, shares)], seed=1)


def written_out(counts: dict[str, int], shares: dict[str, float]) -> tuple[Any, Any]:
    """Every sample's language and row: languages by chance, rows by whole permutations."""
    rng = np.random.default_rng(1)
    tags = list(counts)
    languages = rng.choice(len(tags), size=WRITTEN_OUT, p=[shares[tag] for tag in tags])
    rows = np.empty(WRITTEN_OUT, dtype=np.int64)
    for index, tag in enumerate(tags):
        places = np.flatnonzero(languages == index)
        passes = -(-len(places) // counts[tag])
        order = [rng.permutation(counts[tag]) for _ in range(passes)]
        rows[places] = np.concatenate(order)[: len(places)] if order else 0
    return languages, rows


def resampled_order(counts: dict[str, int], shares: dict[str, float]) -> Any:
    """Blocks of all languages drawn anew, with replacement where it repeats, then shuffled."""
    rng = np.random.default_rng(1)
    parts, start = [], 0
    for tag, count in counts.items():
        size = round(shares[tag] * WRITTEN_OUT)
        parts.append(start + rng.choice(count, size=size, replace=size >= count))
        start += count
    return rng.permutation(np.concatenate(parts))


def unused(counts: dict[str, int], shares: dict[str, float], order: Any) -> float:
    """Share of texts that are not in the order, over languages with draws for each of theirs."""
    found, begin = np.zeros(sum(counts.values()), dtype=bool), 0
    found[order] = True
    missed = texts = 0
    for tag, count in counts.items():
        if round(shares[tag] * WRITTEN_OUT) >= count:
            missed += count - int(found[begin : begin + count].sum())
            texts += count
        begin += count
    return missed / texts


def unused_by_plan(plan: SamplePlan) -> float:
    """The same of a plan, whose draws come without replacement."""
    found = [use for use in usage_of(plan, WRITTEN_OUT) if use.draws >= use.texts]
    return sum(use.never for use in found) / sum(use.texts for use in found)


def measured(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Result, processor seconds of one run, and peak memory of another that traces allocations.

    All of it runs in one thread, so processor seconds are those of a core that does nothing else.
    """
    began = time.process_time()
    result = work()
    seconds = time.process_time() - began
    del result
    tracemalloc.start()
    result = work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, {"seconds": seconds, "peak_kilobytes": peak / 1000}
