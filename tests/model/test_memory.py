"""The memory model against tensors counted while a real model trains, within 5 %."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from model import losses
from model.config import EncoderSection, PretrainingSection
from model.cost import gpu_of
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.memory import (
    USABLE_SHARE,
    largest_micro_batch,
    training_memory,
)

LARGE = EncoderSection(preset="xlmr-large")
LENGTH, SEQUENCES, SHARE = 128, 8, 0.15
TOLERANCE = 0.05


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all tensors that are alive, and the most there were."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: dict[int, Any] = {}

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.known:
            return

        def gone(_: object) -> None:
            self.now -= size
            del self.known[key]

        self.known[key] = weakref.ref(storage, gone)
        self.now += size
        self.peak = max(self.peak, self.now)

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        output = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf)
        return output


def peak_of_a_step(section: EncoderSection, rows: int, settings: PretrainingSection) -> int:
    """The peak of an update of two micro-batches, after one that made the optimizer's state."""
    model = MaskedLanguageModel(Encoder(section, rows, LENGTH))
    model.encoder.checkpoint_activations = settings.activation_checkpointing
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    tokens = torch.randint(5, rows - 1, (SEQUENCES, LENGTH))
    count = int(SHARE * tokens.numel())
    places = torch.arange(count) * (tokens.numel() // count)
    mixed = settings.precision == "bfloat16"

    def update() -> None:
        optimizer.zero_grad(set_to_none=True)
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                arguments = {"is_next": torch.ones(SEQUENCES, dtype=torch.bool), "padded": False}
                loss = model(tokens, places, tokens.view(-1)[places], **arguments).sum()
            loss.backward()
        optimizer.step()

    update()
    optimizer.zero_grad(set_to_none=True)
    live = LiveBytes()
    state = [t for values in optimizer.state.values() for t in values.values()]
    for tensor in [*model.parameters(), *state]:
        live.add(tensor)
    with live:
        update()
    return live.peak


def dense_look_up(tokens: torch.Tensor, weight: torch.Tensor, padding: int) -> torch.Tensor:
    return torch.nn.functional.embedding(tokens, weight, padding_idx=padding)


@pytest.mark.parametrize("preset", ["xlmr-base", "bert-base", "modern"])
@pytest.mark.parametrize("rows", [500, 8000])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"precision": "bfloat16"},
        {"precision": "bfloat16", "activation_checkpointing": True},
    ],
)
def test_the_model_agrees_with_a_measured_peak(
    preset: str, rows: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a GPU: large blocks of logits, and a dense gradient of the embedding.
    monkeypatch.setattr(losses, "CACHED_ELEMENTS", losses.DEVICE_ELEMENTS)
    monkeypatch.setattr("model.encoder.look_up", dense_look_up)
    sizes = {"layers": 6, "hidden_size": 128, "heads": 4, "feed_forward_size": 512, "dropout": 0.0}
    section = EncoderSection(preset=preset, **sizes)
    training = PretrainingSection(sequences_per_micro_batch=SEQUENCES, **settings)

    measured = peak_of_a_step(section, rows, training)
    ours = training_memory(section, rows, LENGTH, training, masked_share=SHARE).total
    assert ours == pytest.approx(measured, rel=TOLERANCE)


def settings(**changes: Any) -> PretrainingSection:
    return PretrainingSection(precision="bfloat16", sequences_per_micro_batch=16, **changes)


def test_state_of_xlmr_large_is_known() -> None:
    """float32 weights, gradients and AdamW's moments: 16 bytes a parameter, 9.0 GB."""
    whole = training_memory(LARGE, 250_002, 512, settings(), masked_share=0.15)
    assert whole.state - whole.casts == 16 * 560_142_482
    shared = training_memory(
        LARGE, 250_002, 512, settings(shard_optimizer=True), masked_share=0.15, workers=8
    )
    assert shared.optimizer == whole.optimizer / 8
    assert whole.total - shared.total == pytest.approx(7 * 560_142_482)


def test_activations_grow_with_the_tokens_and_checkpointing_saves_most_of_them() -> None:
    def activations(length: int, **changes: Any) -> float:
        found = training_memory(LARGE, 250_002, length, settings(**changes), masked_share=0.15)
        return found.activations

    assert activations(1024) == pytest.approx(2 * activations(512))
    assert activations(512, activation_checkpointing=True) < activations(512) / 5


def test_the_largest_micro_batch_fits_and_one_more_does_not() -> None:
    gpu = gpu_of("L4")
    assert gpu is not None
    wanted = settings(sequences_per_step=8192)
    arguments: dict[str, Any] = {"masked_share": 0.15, "workers": 8}
    most = largest_micro_batch(
        LARGE, 250_002, 512, wanted, memory_bytes=gpu.memory_bytes, **arguments
    )
    assert 1 < most < 1024

    def needed(sequences: int) -> float:
        tried = wanted.model_copy(update={"sequences_per_micro_batch": sequences})
        return training_memory(LARGE, 250_002, 512, tried, **arguments).total

    usable = USABLE_SHARE * gpu.memory_bytes
    assert needed(most) <= usable < needed(most + 1)
    none = largest_micro_batch(LARGE, 250_002, 512, wanted, memory_bytes=8e9, **arguments)
    assert none == 0


def test_no_worker_is_left_without_a_micro_batch() -> None:
    small = settings(sequences_per_step=256, batches=[{"until": 0.1, "sequences": 64}])
    most = largest_micro_batch(
        LARGE, 250_002, 512, small, masked_share=0.15, workers=8, memory_bytes=1e15
    )
    assert most == 8
