"""Time and disk of a whole training are arithmetic on its phases."""

from __future__ import annotations

import pytest

from model.config import EncoderSection, PretrainingSection
from model.cost import gpu_of, training_flops_per_token
from model.run_cost import Rate, RunCost, packed_bytes, phases_of, run_cost

LARGE = EncoderSection(preset="xlmr-large")
H200 = gpu_of("H200")
assert H200 is not None


def cost(settings: PretrainingSection, rates: list[Rate], **changes: float) -> RunCost:
    arguments = {"rows": 250_002, "length": 512, "gpus": 8, "mfu": 0.5, **changes}
    return run_cost(LARGE, settings, rates=rates, gpu=H200, **arguments)  # type: ignore[arg-type]


def test_the_original_xlmr_large_run() -> None:
    """6.29 T tokens, 1.38e22 FLOP, 323 H200-days at 50 %; one step takes one of them 18.6 s."""
    settings = PretrainingSection(steps=1_500_000, sequences_per_step=8192, warmup_steps=1)
    whole = cost(settings, [Rate(1.0, 0.15)])

    assert whole.tokens == 1_500_000 * 8192 * 512
    assert whole.flops == pytest.approx(1.38e22, rel=0.002)
    assert whole.seconds / 86_400 == pytest.approx(323 / 8, rel=0.002)
    assert whole.tokens_per_second / 8 == pytest.approx(225_450, rel=1e-4)
    alone = cost(settings, [Rate(1.0, 0.15)], gpus=1)
    assert alone.seconds / alone.steps == pytest.approx(18.6, abs=0.05)
    assert whole.checkpoint_bytes == 12 * 560_142_482


def test_phases_are_cut_where_a_length_or_a_rate_ends() -> None:
    settings = PretrainingSection(lengths=[{"until": 0.9, "length": 128}])
    rates = [Rate(0.5, 0.3), Rate(1.0, 0.15)]
    assert phases_of(settings.lengths, rates, 512, 0.15, 1000) == [
        (0.5, 128, 0.3, pytest.approx(500)),
        (0.9, 128, 0.15, pytest.approx(400)),
        (1.0, 512, 0.15, pytest.approx(100)),
    ]


def test_time_adds_up_over_phases() -> None:
    settings = PretrainingSection(
        steps=1000, sequences_per_step=8, warmup_steps=1, lengths=[{"until": 0.25, "length": 128}]
    )
    found = cost(settings, [Rate(1.0, 0.3)], gpus=1, mfu=0.4)
    tokens = 1000 * 8 * 512
    short, full = (training_flops_per_token(LARGE, 250_002, n, 0.3) for n in (128, 512))
    assert [phase.flops_per_token for phase in found.phases] == [short, full]
    assert found.seconds == pytest.approx(tokens * (0.25 * short + 0.75 * full) / (0.4 * 989.4e12))


def test_gpus_wait_for_the_one_with_most_micro_batches() -> None:
    """8,192 sequences in micro-batches of 16 are 512: 2 on the busiest of 300 GPUs."""
    settings = PretrainingSection(
        steps=10, sequences_per_step=8192, sequences_per_micro_batch=16, warmup_steps=1
    )
    even = cost(settings, [Rate(1.0, 0.15)], gpus=256)
    uneven = cost(settings, [Rate(1.0, 0.15)], gpus=300)
    assert even.busy_share == 1.0
    assert uneven.busy_share == 512 / 600
    assert uneven.seconds == pytest.approx(even.seconds)


def test_a_budget_of_tokens_is_met() -> None:
    settings = PretrainingSection(tokens=10**9, warmup_tokens=10, sequences_per_step=64)
    assert 10**9 <= cost(settings, [Rate(1.0, 0.15)]).tokens < 10**9 + 64 * 512


def test_bytes_of_a_packed_sequence() -> None:
    assert packed_bytes(30_522, 512, 0.15, 0) == 1024
    assert packed_bytes(250_002, 512, 0.25, 2) == 2048 + 2 * 128 * 6
