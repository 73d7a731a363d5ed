"""Several documents in one row: each is encoded as if it stood alone, on every attention path."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model import boundaries
from model.config import PretrainingSection
from model.data.batches import Layout, batches_of
from model.data.packed_dataset import PackedSequences
from model.data.packed_files import FileCache
from model.encoder import AttentionPath, Encoder
from model.update import inputs_of
from pipelines.core.store import Store
from pipelines.core.vocabulary import BOS_ID, EOS_ID, PAD_ID

from .layouts import LAYOUTS, LENGTH, ROWS, masked_model, section_of_layout
from .packed import make_row, packing, write

PATHS = ("mask", "documents", "varlen", "eager")
ARCHITECTURES = ("xlm-roberta", "bert", "modernbert")


def document(rng: np.random.Generator, tokens: int) -> list[int]:
    return [BOS_ID, *rng.integers(4, ROWS - 1, tokens - 2).tolist(), EOS_ID]


def packed(documents: list[list[list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of documents, padded to one width, and where the documents begin."""
    width = max(sum(map(len, row)) for row in documents)
    tokens, starts = [], []
    for number, row in enumerate(documents):
        flat: list[int] = []
        for one in row:
            starts.append(number * width + len(flat))
            flat += one
        tokens.append(flat + [PAD_ID] * (width - len(flat)))
    return torch.tensor(tokens), torch.tensor(starts)


def plain_varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_query: torch.Tensor,
    cu_key: torch.Tensor,
    max_query: int,
    max_key: int,
) -> torch.Tensor:
    """What torch's kernel is documented to do, of shapes (tokens, heads, width), on any device."""
    assert cu_query.dtype == torch.int32 and torch.equal(cu_query, cu_key)
    assert cu_query[0] == 0 and cu_query[-1] == len(query) and bool((cu_query.diff() >= 0).all())
    assert int(cu_query.diff().max()) <= max_query == max_key
    out = torch.zeros_like(query)
    for begin, end in zip(cu_query[:-1].tolist(), cu_query[1:].tolist(), strict=True):
        q, k, v = (t[begin:end].transpose(0, 1) for t in (query, key, value))
        weights = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1)
        out[begin:end] = (weights @ v).transpose(0, 1)
    return out


@pytest.fixture(autouse=True)
def _the_kernel_needs_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU a plain copy of the kernel stands in, so that what it is given is tested."""
    if not torch.cuda.is_available():
        monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", plain_varlen)


def encoded(
    encoder: Encoder, path: str, tokens: torch.Tensor, starts: torch.Tensor | None = None
) -> torch.Tensor:
    """Hidden states by one of PATHS."""
    if path == "eager":
        return encoder.attentions(tokens, starts)[0]
    assert path in get_args(AttentionPath)
    encoder.path = path  # type: ignore[assignment]
    return encoder(tokens, starts)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("layout", ARCHITECTURES)
def test_packed_padded_and_one_by_one_are_the_same(layout: str, path: str) -> None:
    rng = np.random.default_rng(3)
    rows = [[document(rng, n) for n in sizes] for sizes in ([5, 5, 3, 7], [20], [2, 11])]
    documents = [d for row in rows for d in row]
    encoder = masked_model(section_of_layout(layout)).encoder.eval()
    with torch.no_grad():
        tokens, starts = packed(rows)
        together = encoded(encoder, path, tokens, starts).flatten(0, 1)
        padded = encoded(encoder, path, packed([[d] for d in documents])[0])
        first = 0
        for number, (one, start) in enumerate(zip(documents, starts.tolist(), strict=True)):
            encoder.path = "rows"
            alone = encoder(torch.tensor([one]))[0]
            size = len(one)
            torch.testing.assert_close(together[start : start + size], alone, atol=1e-5, rtol=0)
            torch.testing.assert_close(padded[number, :size], alone, atol=1e-5, rtol=0)
            first += size
    assert first == int((tokens != PAD_ID).sum())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("layout", ARCHITECTURES)
def test_a_document_is_not_changed_by_its_neighbour(layout: str, path: str) -> None:
    encoder = masked_model(section_of_layout(layout)).encoder.eval()
    rng = np.random.default_rng(4)
    a, b, c = document(rng, 6), document(rng, 8), document(rng, 6)
    with torch.no_grad():
        before = encoded(encoder, path, *packed([[a, b], [b, a]]))
        after = encoded(encoder, path, *packed([[c, b], [b, c]]))
        crossing = [encoded(encoder, path, packed([[one, b]])[0])[0, 6:] for one in (a, c)]
    assert torch.equal(before[0, 6:], after[0, 6:])
    assert torch.equal(before[1, :8], after[1, :8])
    assert not torch.equal(*crossing)  # without the starts the row is one text


@pytest.mark.parametrize("path", ["mask", "documents"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_packed_documents_are_those_of_single_ones(layout: str, path: str) -> None:
    section = section_of_layout(layout).model_copy(update={"next_sentence": False})
    model = masked_model(section)
    model.encoder.path = path  # type: ignore[assignment]
    rng = np.random.default_rng(5)
    documents = [document(rng, n) for n in (6, 9, 5)]
    tokens, starts = packed([documents, documents[:1]])
    starts = starts[:3]
    masked, labels = starts + 2, torch.tensor([one[2] for one in documents])
    model(tokens, masked, labels, torch.cat([starts, torch.tensor([20])])).sum().backward()
    together = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    for one in documents:
        model(torch.tensor([one]), torch.tensor([2]), torch.tensor([one[2]])).sum().backward()
    alone = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(alone) == len(together) > 20
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def brute_force(
    sizes: list[list[int]], width: int
) -> tuple[list[list[int]], list[list[int]], list[tuple[int, bool]]]:
    """Numbers of documents over the batch, steps in them, and their lengths; padding is one."""
    numbers, steps, lengths = [], [], []
    number = 0
    for row in sizes:
        line: list[int] = []
        inside: list[int] = []
        padding = width - sum(row)
        for size, real in [*((s, True) for s in row), *([(padding, False)] if padding else [])]:
            line += [number] * size
            inside += range(size)
            lengths.append((size, real))
            number += 1
        numbers.append(line)
        steps.append(inside)
    return numbers, steps, lengths


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=5), min_size=1, max_size=5))
def test_boundaries_are_those_of_a_loop(sizes: list[list[int]]) -> None:
    width = max(map(sum, sizes))
    real = torch.tensor([[True] * sum(row) + [False] * (width - sum(row)) for row in sizes])
    starts = torch.tensor(
        [n * width + sum(row[:k]) for n, row in enumerate(sizes) for k in range(len(row))]
    )
    wanted_numbers, wanted_steps, wanted_lengths = brute_force(sizes, width)
    cumulative = boundaries.cumulative_lengths(real, starts)
    assert len(cumulative) == len(starts) + 2 * len(sizes) + 1  # known from shapes alone
    numbers = boundaries.document_numbers(real, cumulative)
    assert boundaries.steps_in_documents(numbers, cumulative).tolist() == wanted_steps
    assert list(boundaries.document_lengths(real, cumulative)) == wanted_lengths
    wanted = torch.tensor(wanted_numbers)
    same = wanted[:, :, None] == wanted[:, None, :]
    assert torch.equal(boundaries.block_mask(numbers)[:, 0], same)
    by_length = torch.repeat_interleave(torch.tensor([size for size, _ in wanted_lengths]))
    assert by_length.tolist() == wanted.flatten().tolist()


def test_positions_begin_anew_in_each_document() -> None:
    section = section_of_layout("xlm-roberta")
    model = masked_model(section)
    rows = [[[0, 7, 2], [0, 8, 9, 2]], [[0, 5, 2]]]
    tokens, starts = packed(rows)
    model(tokens, torch.tensor([1]), torch.tensor([7]), starts).sum().backward()
    seen: list[torch.Tensor] = []
    table = model.encoder.positions
    assert table is not None
    table.register_forward_hook(lambda _, given, out: seen.append(given[0]))
    model.encoder(tokens, starts)
    assert seen[0].tolist() == [[2, 3, 4, 2, 3, 4, 5], [2, 3, 4, 1, 1, 1, 1]]
    other = masked_model(section_of_layout("bert")).encoder
    assert other.positions is not None
    other.positions.register_forward_hook(lambda _, given, out: seen.append(given[0]))
    other(tokens, starts)
    assert seen[1].tolist() == [[0, 1, 2, 0, 1, 2, 3], [0, 1, 2, 0, 1, 2, 3]]


def test_the_longest_sequence_may_hold_many_documents() -> None:
    encoder = masked_model(section_of_layout("xlm-roberta")).encoder
    tokens = torch.full((2, LENGTH), 5)
    starts = torch.arange(0, 2 * LENGTH, 2)
    assert encoder(tokens, starts).shape == (2, LENGTH, 24)
    with pytest.raises(ValueError, match="21 tokens is longer than the encoder's 20"):
        encoder(torch.full((1, LENGTH + 1), 5), torch.tensor([0, 10]))


@pytest.mark.parametrize("apart", [False, True])
def test_the_model_is_told_where_documents_begin(tmp_path: Path, apart: bool) -> None:
    store = Store(tmp_path.as_uri())
    made = packing(mode="document")
    key = write(store, "a.parquet", [make_row(str(i), 20) for i in range(3)], made, tmp_path / "w")
    rows = PackedSequences(FileCache(store, tmp_path / "c", made), {"en": [key]})
    taken, views = rows.take(np.arange(3), np.zeros(3, np.int64)), np.zeros(3, np.int64)
    [batch] = batches_of(taken, views, None, Layout(64, 8, documents_apart=apart))
    starts = inputs_of(batch, PretrainingSection(), torch.device("cpu"))[3]
    if apart:
        assert isinstance(starts, torch.Tensor)
        assert starts.tolist() == [1, 5, 21, 25, 41, 45]
    else:
        assert starts is None
