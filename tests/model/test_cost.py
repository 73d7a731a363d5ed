"""The cost model gives the known figures, and what is counted on the real model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.config import EncoderSection, preset_names
from model.cost import (
    GPUS,
    forward_flops_per_token,
    gpu_of,
    parameters_by_part,
    parameters_of,
    peak_flops,
    tokens_per_second,
    training_flops_per_token,
)
from model.encoder import Encoder
from model.heads import MaskedLanguageModel

ROWS = 250_002
H200 = 989.4e12
LARGE, BASE = EncoderSection(preset="xlmr-large"), EncoderSection(preset="xlmr-base")


def test_known_parameters() -> None:
    assert parameters_of(LARGE, ROWS, 512) == 560_142_482
    assert parameters_of(BASE, ROWS, 512) == 278_295_186
    assert parameters_of(EncoderSection(preset="bert-base"), 30_522, 512) == 110_106_428
    assert parameters_of(EncoderSection(preset="bert-large"), 30_522, 512) == 336_226_108
    parts = parameters_by_part(LARGE, ROWS, 512)
    assert (parts.words, parts.layers) == (256_002_048, 302_309_376)
    assert (parts.embeddings, parts.head) == (529_408, 1_301_650)


def test_known_flops_and_speed() -> None:
    forward = forward_flops_per_token(LARGE, ROWS, 512, 1.0)
    parts = [forward.layers, forward.attention, forward.head]
    assert [round(part / 1e6, 1) for part in parts] == [604.0, 50.3, 514.1]
    known = {(LARGE, 1.0): 3.505, (LARGE, 0.4): 2.580, (LARGE, 0.3): 2.426, (LARGE, 0.15): 2.194,
             (BASE, 1.0): 1.722, (BASE, 0.15): 0.740}  # fmt: skip
    for (encoder, share), giga in known.items():
        flops = training_flops_per_token(encoder, ROWS, 512, share)
        assert flops == pytest.approx(giga * 1e9, abs=0.0006e9)
    speed = tokens_per_second(training_flops_per_token(LARGE, ROWS, 512, 0.15), H200, 0.5)
    assert round(speed, -3) == 225_000
    assert 8192 * 512 / speed == pytest.approx(18.6, abs=0.05)


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize(("rows", "length"), [(1000, 16), (30_522, 512)])
def test_parameters_are_those_of_the_model(preset: str, rows: int, length: int) -> None:
    section = EncoderSection(preset=preset)
    with torch.device("meta"):
        model = MaskedLanguageModel(Encoder(section, rows, length))
    assert sum(p.numel() for p in model.parameters()) == parameters_of(section, rows, length)


def added_product(total: Any, left: Any, right: Any, **_: Any) -> int:
    """FLOPs of total += left x right, from shapes."""
    return 2 * int(left[0]) * int(left[1]) * int(right[1])


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("change", [{}, {"layers": 3, "hidden_size": 96, "heads": 4}])
def test_flops_are_those_that_torch_counts(preset: str, change: dict[str, int]) -> None:
    """Every product of a forward and a backward pass, attention step by step."""
    small = {"layers": 2, "hidden_size": 64, "heads": 2, "feed_forward_size": 160, **change}
    section = EncoderSection(preset=preset, **small)
    rows, batch, length, masked = 1200, 4, 32, 20
    model = MaskedLanguageModel(Encoder(section, rows, length))
    tokens = torch.randint(5, rows - 1, (batch, length))
    places = torch.arange(masked) * 6
    # torch's own table lacks the product that is added in place.
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: added_product})
    with counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        arguments = {"is_next": torch.ones(batch, dtype=torch.bool)}
        model(tokens, places, tokens.view(-1)[places], **arguments).sum().backward()
    share = masked / (batch * length)
    ours = training_flops_per_token(section, rows, length, share) * batch * length
    assert counter.get_total_flops() == pytest.approx(ours, rel=0.01)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 NVL", "H200-NVL"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla V100-SXM2-16GB", None),
        ("NVIDIA GeForce RTX 3090", None),
    ],
)
def test_a_device_is_known_by_its_name(device: str, name: str | None) -> None:
    found = gpu_of(device)
    assert (found.name if found else None) == name


def test_a_peak_is_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert peak_flops(torch.device("cpu")) is None
    names = iter(["NVIDIA H200", "Some Other Card"])
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: next(names))
    assert peak_flops(torch.device("cuda")) == H200
    assert peak_flops(torch.device("cuda")) is None


def test_every_gpu_is_found_by_its_own_name() -> None:
    assert [gpu_of(gpu.name) for gpu in GPUS] == list(GPUS)
