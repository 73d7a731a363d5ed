"""Several documents in one row: each is encoded as if it stood alone."""

from pathlib import Path

import numpy as np
import pytest
import torch

from model.batches import batches_of
from model.config import EncoderSection
from model.distributed import Worker
from model.encoder import Encoder, documents_of
from model.heads import MaskedLanguageModel
from model.packed_dataset import PackedSequences
from model.packed_files import FileCache
from model.pretrain import inputs_of
from pipelines.core.store import Store
from pipelines.core.vocabulary import BOS_ID, EOS_ID, PAD_ID

from .packed import make_row, packing, write

ROWS, LENGTH = 60, 24
SECTION = EncoderSection(layers=2, hidden_size=16, heads=2, feed_forward_size=32, dropout=0.0)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    torch.manual_seed(1)
    return Encoder(SECTION, ROWS, LENGTH).eval()


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


def test_packed_documents_are_encoded_as_one_by_one(encoder: Encoder) -> None:
    rng = np.random.default_rng(3)
    rows = [[document(rng, n) for n in sizes] for sizes in ([5, 9, 3, 7], [24], [2, 11])]
    tokens, starts = packed(rows)
    with torch.no_grad():
        together = encoder(tokens, starts).flatten(0, 1)
        first = 0
        for one, start in zip([d for row in rows for d in row], starts.tolist(), strict=True):
            alone = encoder(torch.tensor([one]))[0]
            torch.testing.assert_close(together[start : start + len(one)], alone, atol=1e-5, rtol=0)
            first += len(one)
    assert first == int((tokens != PAD_ID).sum())


def test_a_document_is_not_changed_by_its_neighbour(encoder: Encoder) -> None:
    rng = np.random.default_rng(4)
    a, b, c = document(rng, 6), document(rng, 8), document(rng, 6)
    with torch.no_grad():
        before = encoder(*packed([[a, b]]))[0, 6:]
        after = encoder(*packed([[c, b]]))[0, 6:]
        crossing = encoder(packed([[a, b]])[0])[0, 6:], encoder(packed([[c, b]])[0])[0, 6:]
    assert torch.equal(before, after)
    assert not torch.equal(*crossing)  # without the starts the row is one text


def test_documents_of_counts_within_rows() -> None:
    numbers, first = documents_of(torch.Size((2, 5)), torch.tensor([0, 3, 5]))
    assert numbers.tolist() == [[1, 1, 1, 2, 2], [1, 1, 1, 1, 1]]
    assert first.tolist() == [[0, 0, 0, 3, 3], [0, 0, 0, 0, 0]]


def test_gradients_of_packed_documents_are_those_of_single_ones() -> None:
    rng = np.random.default_rng(5)
    torch.manual_seed(2)
    model = MaskedLanguageModel(Encoder(SECTION, ROWS, LENGTH))
    documents = [document(rng, n) for n in (6, 9, 5)]
    tokens, starts = packed([documents])
    masked, labels = starts + 2, torch.tensor([one[2] for one in documents])
    model(tokens, masked, labels, starts).sum().backward()
    together = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    for one in documents:
        model(torch.tensor([one]), torch.tensor([2]), torch.tensor([one[2]])).sum().backward()
    alone = [p.grad for p in model.parameters() if p.grad is not None]
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("apart", [False, True])
def test_the_model_is_told_where_documents_begin(tmp_path: Path, apart: bool) -> None:
    store = Store(tmp_path.as_uri())
    made = packing(mode="document")
    key = write(store, "a.parquet", [make_row(str(i), 20) for i in range(3)], made, tmp_path / "w")
    rows = PackedSequences(FileCache(store, tmp_path / "c", made), {"en": [key]})
    taken, views = rows.take(np.arange(3), np.zeros(3, np.int64)), np.zeros(3, np.int64)
    [batch] = batches_of(taken, views, None, 64, 8, apart)
    given = inputs_of(batch, Worker())
    assert len(given) == 3 + apart
    assert not apart or given[3].tolist() == [1, 5, 21, 25, 41, 45]
