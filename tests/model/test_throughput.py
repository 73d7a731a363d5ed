from __future__ import annotations

import resource

import pytest
import torch

from model.config import EncoderSection
from model.cost import training_flops_per_token
from model.distributed import Worker
from model.throughput import Throughput, memory_peak
from model.update import StepResult
from model.wishes import Wishes

ENCODER = EncoderSection(layers=2, hidden_size=32, heads=2, feed_forward_size=64)


def result(masked: int, real: int, padded: int) -> StepResult:
    return StepResult(5.0, None, 1.0, masked, real, padded, Wishes())


def test_tokens_are_split_and_divided_by_the_seconds_of_training() -> None:
    speed = Throughput(ENCODER, 100, Worker())
    speed.add(result(15, 100, 28), seconds=2.0, waited=0.5, length=32)
    speed.add(result(30, 200, 56), seconds=4.0, waited=1.0, length=32)
    assert speed.real_per_second == pytest.approx(50.0)
    values = speed.take()
    assert values["tokens_per_second/real"] == pytest.approx(50.0)
    assert values["tokens_per_second/padded"] == pytest.approx(14.0)
    assert values["tokens_per_second/masked"] == pytest.approx(7.5)
    assert values["loader_idle_share"] == pytest.approx(0.25)
    assert "mfu" not in values, "the peak of a CPU is not known"
    assert speed.take()["tokens_per_second/real"] == 0.0, "each line begins anew"


def test_mfu_is_the_flops_of_real_tokens_over_the_peak_of_all_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model.throughput.peak_flops", lambda device: 1e9)
    speed = Throughput(ENCODER, 100, Worker(0, 2))
    speed.add(result(15, 100, 28), seconds=2.0, waited=0.0, length=32)
    speed.add(result(10, 100, 28), seconds=1.0, waited=0.0, length=16)
    flops = 100 * training_flops_per_token(ENCODER, 100, 32, 0.15)
    flops += 100 * training_flops_per_token(ENCODER, 100, 16, 0.10)
    assert speed.take()["mfu"] == pytest.approx(flops / 3.0 / 2e9)


def test_the_peak_of_memory_is_in_bytes_and_never_falls() -> None:
    before = memory_peak(torch.device("cpu"))
    assert before == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    block = torch.ones(40_000_000)  # 160 MB, all of it touched
    after = memory_peak(torch.device("cpu"))
    del block
    assert memory_peak(torch.device("cpu")) >= after >= before
    assert after > 160_000_000
