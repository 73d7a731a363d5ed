"""Compiled layers compute the same, keep their names, and are compiled once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
import torch
from torch._dynamo.utils import counters

from model.compilation import compile_layers
from model.config import EncoderSection
from model.encoder import Encoder
from model.heads import MaskedLanguageModel

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


def model_of(**settings: object) -> MaskedLanguageModel:
    torch.manual_seed(4)
    sizes = {"layers": 3, "hidden_size": 16, "heads": 2, "feed_forward_size": 32, "dropout": 0.0}
    section = EncoderSection.model_validate(sizes | settings)
    return MaskedLanguageModel(Encoder(section, ROWS, LENGTH))


def batch(step: int) -> tuple[torch.Tensor, ...]:
    """A full batch, with documents that begin elsewhere and another number of masks each time."""
    made = torch.Generator().manual_seed(step)
    tokens = torch.randint(4, ROWS, (3, LENGTH), generator=made)
    tokens[2, 12 - step % 4 :] = 1
    masked = torch.arange(1 + step % 5)
    starts = torch.tensor([0, 3 + step % 5, 12, 24])[: 3 + step % 2]
    starts = torch.cat([starts[starts < 24], torch.tensor([24])])
    return tokens, masked, tokens.flatten()[masked], starts


def step_of(model: MaskedLanguageModel, step: int) -> torch.Tensor:
    model.train()
    model.zero_grad(set_to_none=True)
    loss: torch.Tensor = model(*batch(step), padded=True)[0]
    loss.backward()
    return loss.detach()


def evaluation_of(model: MaskedLanguageModel, step: int) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        loss: torch.Tensor = model(*batch(step), padded=True)[0]
    return loss


@pytest.mark.parametrize("layout", ["xlmr", "modern"])
def test_same_numbers_same_names_and_nothing_compiled_again(layout: str) -> None:
    modern = {
        "norm": "pre",
        "positions": "rotary",
        "feed_forward": "geglu",
        "biases": False,
        "segments": 0,
    }
    changes = modern if layout == "modern" else {}
    plain, compiled = model_of(**changes), model_of(**changes)
    compile_layers(compiled.encoder)
    assert plain.state_dict().keys() == compiled.state_dict().keys()
    for warm_up in range(1):
        step_of(compiled, warm_up)
        evaluation_of(compiled, warm_up)
    graphs = counters["stats"]["unique_graphs"]
    assert graphs > 0, "the layers are compiled"
    with torch._dynamo.config.patch(error_on_recompile=True):
        for step in range(1, 7):
            torch.testing.assert_close(step_of(compiled, step), step_of(plain, step))
            for ours, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
            if step % 3 == 0:
                ours, theirs = evaluation_of(compiled, step), evaluation_of(plain, step)
                torch.testing.assert_close(ours, theirs)
    assert counters["stats"]["unique_graphs"] == graphs
    assert not counters["graph_break"]
