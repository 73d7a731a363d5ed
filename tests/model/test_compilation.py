"""Compiled layers compute the same, keep their names, and are compiled once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from model import attention, checkpoint
from model import pretrain as loop
from model.compilation import Shape, compile_layers, warm_up
from model.config import EncoderSection, PretrainingSection
from model.data.batches import Batch
from model.data.training_data import TrainingData
from model.distributed import Worker
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.learner import compile_ahead
from model.plan import RunInputs, pretraining_job
from model.update import inputs_of
from pipelines.core.store import Store

from .tiny import build, tiny_config

ROWS, LENGTH = 90, 12

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU"
)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
    # Not left to `patch`: after a training in the block, its value has been seen to stay.
    torch._dynamo.config.error_on_recompile = False


def model_of(**settings: object) -> MaskedLanguageModel:
    torch.manual_seed(4)
    sizes = {"layers": 3, "hidden_size": 16, "heads": 2, "feed_forward_size": 32, "dropout": 0.0}
    section = EncoderSection.model_validate(sizes | settings)
    return MaskedLanguageModel(Encoder(section, ROWS, LENGTH))


MODERN = {
    "norm": "pre",
    "positions": "rotary",
    "feed_forward": "geglu",
    "biases": False,
    "segments": 0,
}
SHAPES = [Shape(3, LENGTH, training=True), Shape(3, LENGTH, training=False)]
FIRST_PADDED = 5


def batch(step: int, apart: bool) -> tuple[torch.Tensor | None, ...]:
    """Full until a padded one comes, with other documents and another number of masks each time."""
    made = torch.Generator().manual_seed(step)
    tokens = torch.randint(4, ROWS, (3, LENGTH), generator=made)
    if step >= FIRST_PADDED:
        tokens[2, 12 - step % 4 :] = 1
    masked = torch.arange(1 + step % 5)
    starts = torch.tensor([0, 3 + step % 5, 12, 24])[: 3 + step % 2]
    starts = torch.cat([starts[starts < 24], torch.tensor([24])])
    return tokens, masked, tokens.flatten()[masked], starts if apart else None


def step_of(model: MaskedLanguageModel, step: int, apart: bool) -> torch.Tensor:
    model.train()
    model.zero_grad(set_to_none=True)
    loss: torch.Tensor = model(*batch(step, apart), padded=step >= FIRST_PADDED)[0]
    loss.backward()
    return loss.detach()


def evaluation_of(model: MaskedLanguageModel, step: int, apart: bool) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        loss: torch.Tensor = model(*batch(step, apart), padded=step >= FIRST_PADDED)[0]
    return loss


@pytest.mark.parametrize("apart", [False, True], ids=["stream", "document"])
@pytest.mark.parametrize("layout", ["xlmr", "modern"])
def test_same_numbers_same_names_and_nothing_compiled_after_the_warm_up(
    layout: str, apart: bool
) -> None:
    changes = MODERN if layout == "modern" else {}
    plain, compiled = model_of(**changes), model_of(**changes)
    compile_layers(compiled.encoder)
    assert plain.state_dict().keys() == compiled.state_dict().keys()
    before = torch.get_rng_state()
    warm_up(compiled.encoder, [replace(shape, documents_apart=apart) for shape in SHAPES])
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in compiled.parameters())
    assert compiled.training
    graphs = counters["stats"]["unique_graphs"]
    # With a gradient and without; in a stream with a mask and without; and the first layer of
    # "modern" is another one.
    assert graphs == 2 * (1 if apart else 2) * (2 if layout == "modern" else 1)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for step in range(1, 8):
            torch.testing.assert_close(step_of(compiled, step, apart), step_of(plain, step, apart))
            for ours, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
            if step in (3, 6):
                ours, theirs = (evaluation_of(m, step, apart) for m in (compiled, plain))
                torch.testing.assert_close(ours, theirs)
    assert counters["stats"]["unique_graphs"] == graphs
    assert not counters["graph_break"]


def test_full_rows_of_a_stream_get_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    masks: list[bool] = []
    plain = attention.by_rows

    def watched(*tensors: torch.Tensor, mask: torch.Tensor | None, dropout: float) -> torch.Tensor:
        masks.append(mask is not None)
        return plain(*tensors, mask, dropout)

    monkeypatch.setattr(
        attention, "by_rows", lambda q, k, v, m, d: watched(q, k, v, mask=m, dropout=d)
    )
    model, settings = model_of(layers=1), PretrainingSection(compile=True)
    monkeypatch.setattr(Encoder, "compiled", True)  # takes its ways, without a compiler
    tokens, masked, labels, _ = batch(1, False)
    padded = tokens.clone()
    padded[2, 9:] = 1
    for ids, segments in ((tokens, None), (padded, None), (tokens, torch.zeros_like(tokens))):
        real, starts = int((ids != 1).sum()), torch.tensor([0, 12, 24])
        own = Batch(ids, masked, labels, real, [], starts, segments=segments)
        model(*inputs_of(own, settings, torch.device("cpu")))
    assert masks == [False, True, True], "pairs always count as padded"


def test_a_training_compiles_nothing_after_its_beginning(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the real loop: two lengths, steps with a last micro-batch of one sequence."""
    recipe = {
        "compile": True,
        "steps": 8,
        "sequences_per_step": 5,
        "lengths": [{"until": 0.5, "length": 12}],
        "evaluate_every_steps": 3,
        "checkpoint_every_steps": 8,
    }
    build(store, tiny_config(encoder={"dropout": 0.0}, pretraining=recipe))
    job = pretraining_job(RunInputs(store, "tiny"))
    graphs, padded = [], []

    def ahead(*arguments: Any) -> None:
        compile_ahead(*arguments)
        graphs.append(counters["stats"]["unique_graphs"])
        stack.enter_context(torch._dynamo.config.patch(error_on_recompile=True))

    def micro_batches(self: TrainingData, step: int, worker: Worker) -> list[Batch]:
        made = plain_batches(self, step, worker)
        padded.append((step, [batch.padding_tokens > 0 for batch in made]))
        return made

    plain_batches = TrainingData.micro_batches
    monkeypatch.setattr(TrainingData, "micro_batches", micro_batches)
    monkeypatch.setattr(loop, "compile_ahead", ahead)
    with ExitStack() as stack:  # the compiler's setting is put back after the loop
        loop.pretrain(job, store, "runs/tiny/checkpoints/compiled", Worker(), tmp_path / "cache")
    assert graphs == [counters["stats"]["unique_graphs"]]
    # Two lengths with a gradient and one without; with padding and without.
    assert graphs == [6]
    kinds = {kind for _, made in padded for kind in made}
    assert kinds == {False, True}, "both kinds came"
    found, _ = checkpoint.latest_complete(store, "runs/tiny/checkpoints/compiled")
    assert found is not None and found.step == 8
    plain = job.model_copy(
        update={"pretraining": job.pretraining.model_copy(update={"compile": False})}
    )
    loop.pretrain(plain, store, "runs/tiny/checkpoints/plain", Worker(), tmp_path / "cache")
    wanted, _ = checkpoint.latest_complete(store, "runs/tiny/checkpoints/plain")
    assert wanted is not None
    for own, other in zip(found.training["log"], wanted.training["log"], strict=True):
        assert own["loss"] == pytest.approx(other["loss"], abs=1e-4)
