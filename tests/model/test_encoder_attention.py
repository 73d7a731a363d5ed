"""Ways to compute attention: which is taken, what the eager one shows, and what compiling keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from model.encoder import Encoder
from tests.model.layouts import (
    LAYOUTS,
    LENGTH,
    ROWS,
    masked_model,
    padded_batch,
    reference_of,
    section_of_layout,
)
from tests.model.layouts import inputs_of as reference_inputs
from tests.model.test_encoder_parity import load_ours

STARTS = torch.tensor([0, 4, 11, 20, 40, 60, 73])


@pytest.fixture(autouse=True)
def _compile_anew() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("layout", ["xlm-roberta", "bert", "modernbert"])
def test_weights_are_those_of_transformers(layout: str) -> None:
    section = section_of_layout(layout)
    own, theirs = masked_model(section), reference_of(section)
    load_ours(theirs, own)
    theirs.set_attn_implementation("eager")
    tokens = padded_batch()
    with torch.no_grad():
        inputs = {**reference_inputs(section, tokens), "token_type_ids": torch.zeros_like(tokens)}
        if layout == "modernbert":
            del inputs["token_type_ids"]
        reference = theirs(**inputs, output_attentions=True).attentions
        _, weights = own.eval().encoder.attentions(tokens)
    assert len(weights) == len(reference) == 2
    real = (tokens != 1)[:, None, :, None].expand_as(weights[0])
    for mine, other in zip(weights, reference, strict=True):
        assert (mine - other)[real].abs().max() <= 1e-6


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_sum_to_one_and_stay_in_the_document(layout: str) -> None:
    encoder = masked_model(section_of_layout(layout)).encoder.eval()
    tokens = padded_batch()
    with torch.no_grad():
        hidden, weights = encoder.attentions(tokens, STARTS)
        plain = encoder(tokens, STARTS)
    torch.testing.assert_close(hidden[tokens != 1], plain[tokens != 1], atol=1e-5, rtol=0)
    for layer in weights:
        assert layer.shape == (4, 3, LENGTH, LENGTH)
        torch.testing.assert_close(layer.sum(-1), torch.ones(4, 3, LENGTH))
        assert not layer[0, :, :4, 4:].any() and not layer[0, :, 4:11, 11:].any()
        assert not layer[0, :, 4:, :4].any() and bool((layer[0, :, 4:11, 4:11] > 0).all())
        assert not layer[2, :, :3, 3:].any()  # from text to padding


def test_the_fastest_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    encoder = Encoder(section_of_layout("xlm-roberta", dropout=0.1), ROWS, LENGTH)
    assert encoder.fastest(cpu, several=False) == "rows"
    assert encoder.fastest(cpu, several=True) == "documents"
    assert encoder.fastest(cuda, several=False) == "rows"  # float32
    capability = [(9, 0)]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability[0])
    encoder.bfloat16()
    assert encoder.fastest(cuda, several=True) == "mask"  # the kernel has no dropout
    assert encoder.fastest(cuda, several=False) == "rows"
    encoder.eval()
    assert encoder.fastest(cuda, several=True) == "varlen"
    assert encoder.fastest(cuda, several=False) == "varlen"
    capability[0] = (7, 5)
    assert encoder.fastest(cuda, several=True) == "mask"
    without = section_of_layout("xlm-roberta", dropout=0.1, attention_dropout=0.0)
    capability[0] = (8, 0)
    encoder = Encoder(without, ROWS, LENGTH)
    assert encoder.fastest(cuda, several=True) == "mask"
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.bfloat16)
    assert encoder.fastest(cuda, several=True) == "varlen"
    narrow = Encoder(section_of_layout("xlm-roberta", hidden_size=36), ROWS, LENGTH).bfloat16()
    assert narrow.fastest(cuda, several=True) == "mask"  # 12 wide


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_takes_what_it_is_given(layout: str) -> None:
    """Shapes and types only: torch's own operator, on tensors without values."""
    with torch.device("meta"):
        encoder = Encoder(section_of_layout(layout), ROWS, LENGTH).bfloat16()
        tokens, starts = torch.zeros(4, LENGTH, dtype=torch.int64), STARTS.to("meta")
    encoder.path = "varlen"
    hidden = encoder(tokens, starts, padded=True)
    assert (hidden.shape, hidden.dtype) == ((4, LENGTH, 24), torch.bfloat16)
    hidden.float().sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_on_a_gpu(layout: str) -> None:
    encoder = masked_model(section_of_layout(layout)).encoder.cuda().train()
    reference = masked_model(section_of_layout(layout)).encoder
    tokens = padded_batch()
    with torch.autocast("cuda", torch.bfloat16):
        assert encoder.fastest(torch.device("cuda"), several=True) == "varlen"
        hidden = encoder(tokens.cuda(), STARTS.cuda())
    wanted = reference(tokens, STARTS)
    real = tokens != 1
    torch.testing.assert_close(hidden.cpu().float()[real], wanted[real], atol=0.05, rtol=0.05)
    hidden[real.cuda()].float().square().sum().backward()
    wanted[real].square().sum().backward()
    for own, other in zip(encoder.parameters(), reference.parameters(), strict=True):
        assert own.grad is not None and other.grad is not None
        scale = float(other.grad.abs().max())
        assert float((own.grad.cpu().float() - other.grad).abs().max()) <= 0.05 * scale + 1e-3
    changed = tokens.clone()
    changed[0, 5] = 9
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        before, after = (encoder.eval()(t.cuda(), STARTS.cuda()) for t in (tokens, changed))
    assert torch.equal(before[0, :4], after[0, :4]) and torch.equal(before[1:], after[1:])
    assert not torch.equal(before[0, 4:11], after[0, 4:11])


def compiled(encoder: Encoder) -> Encoder:
    for layer in encoder.layers:
        layer.compile(backend="aot_eager", fullgraph=True, dynamic=False)
    return encoder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiled_layers_are_compiled_once(layout: str) -> None:
    own = compiled(masked_model(section_of_layout(layout)).encoder)
    plain = masked_model(section_of_layout(layout)).encoder
    graphs = []
    for shift, more in enumerate([[], [65], [62, 70], []]):
        tokens = padded_batch()
        tokens[1, 10 - shift :] = 1
        starts = torch.tensor([0, 4 + shift, 20, 40, 60, *more])
        hidden = own(tokens, starts)
        hidden.sum().backward()
        wanted = plain(tokens, starts)[tokens != 1]
        torch.testing.assert_close(hidden[tokens != 1], wanted, atol=1e-5, rtol=0)
        graphs.append(counters["stats"]["unique_graphs"])
    first_differs = layout == "modernbert"  # its first layer has no norm before attention
    assert graphs == [1 + first_differs] * 4
    assert not counters["graph_break"]
    assert own.state_dict().keys() == plain.state_dict().keys()


def test_the_kernel_s_bounds_may_be_of_any_number_in_a_compiled_layer() -> None:
    with torch.device("meta"):
        encoder = Encoder(section_of_layout("modernbert"), ROWS, LENGTH).bfloat16()
        tokens = torch.zeros(4, LENGTH, dtype=torch.int64)
    encoder.path = "varlen"
    compiled(encoder)
    graphs = []
    for documents in (5, 9, 7, 31, 12, 13, 14, 15, 16, 17):
        starts = torch.zeros(documents, dtype=torch.int64, device="meta")
        encoder(tokens, starts, padded=True).float().sum().backward()
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs == [2] * 10  # of the first layer, and of the others
    assert not counters["graph_break"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_activations_computed_again_give_the_same_gradients(layout: str) -> None:
    section = section_of_layout(layout, dropout=0.3).model_copy(update={"next_sentence": False})
    results: list[list[torch.Tensor]] = []
    passes: list[int] = []
    for again in (False, True):
        model = masked_model(section)
        model.encoder.checkpoint_activations = again
        calls: Counter[str] = Counter()
        for layer in model.encoder.layers:
            layer.attention.register_forward_hook(lambda *_, calls=calls: calls.update(["layer"]))
        torch.manual_seed(8)
        loss = model(padded_batch(), torch.tensor([1, 22]), torch.tensor([7, 8]), STARTS).sum()
        loss.backward()
        passes.append(calls["layer"])
        results.append([loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    assert passes == [2, 4]
    for plain, other in zip(*results, strict=True):
        assert torch.equal(plain, other)


@pytest.mark.parametrize("path", ["rows", "mask", "documents", "eager"])
def test_dropout_on_weights_keeps_their_mean(path: str) -> None:
    section = section_of_layout("xlm-roberta", layers=1, attention_dropout=0.5)
    encoder = masked_model(section).encoder.train()
    tokens = padded_batch()[:1]
    attention: Any = encoder.layers[0].attention
    outputs: list[torch.Tensor] = []
    attention.output.register_forward_pre_hook(lambda _, given: outputs.append(given[0]))
    torch.manual_seed(1)
    with torch.no_grad():
        for _ in range(600):
            if path == "eager":
                encoder.attentions(tokens)
            else:
                encoder.path = path  # type: ignore[assignment]
                encoder(tokens)
        made = torch.stack(outputs)
        encoder.eval()(tokens)
    assert not torch.equal(made[0], made[1])
    spread = made.std(dim=0) / len(made) ** 0.5
    assert bool(((made.mean(dim=0) - outputs[-1]).abs() <= 6 * spread + 1e-6).all())
