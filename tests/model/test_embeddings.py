"""A text's vector is its own: padding and neighbours have no part in it (case C66)."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, XLNetConfig, XLNetModel

from model import embeddings
from model.config import EncoderSection
from model.embeddings import Embedder, pooled
from model.encoder import Encoder
from model.export import AnyVocabulary, export_masked_model
from model.heads import MaskedLanguageModel
from model.plan import RunInputs
from pipelines.core.store import Store
from tests.model.tiny import build, tiny_config

SIZES = {"layers": 2, "hidden_size": 32, "heads": 2, "feed_forward_size": 64}
LONG = "thing er wa ki " * 200


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> AnyVocabulary:
    store = Store(str(tmp_path_factory.mktemp("embed")))
    build(store, tiny_config())
    return RunInputs(store, "tiny").vocabulary


@pytest.fixture(scope="module", params=["xlmr-base", "bert-base", "modern"])
def folder(
    request: pytest.FixtureRequest,
    vocabulary: AnyVocabulary,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """An export of each layout."""
    torch.manual_seed(5)
    section = EncoderSection(preset=request.param, **SIZES)
    model = MaskedLanguageModel(Encoder(section, vocabulary.rows, 24))
    for parameter in model.parameters():  # norms and biases away from 1 and 0
        parameter.data += 0.1 * torch.randn_like(parameter)
    path = tmp_path_factory.mktemp("folder")
    export_masked_model(path, model, vocabulary, "card")
    return path


def test_a_model_without_a_last_position_takes_what_its_tokenizer_does(
    folder: Path, vocabulary: AnyVocabulary, tmp_path: Path
) -> None:
    """XLNet's positions are relative: its configuration names no most."""
    shutil.copytree(folder, tmp_path / "xlnet")
    config = XLNetConfig(
        vocab_size=vocabulary.rows, d_model=32, n_layer=1, n_head=2, d_inner=64, dropout=0.0
    )
    XLNetModel(config).save_pretrained(tmp_path / "xlnet")
    embedder = Embedder(tmp_path / "xlnet")
    assert embedder.length == embedder.tokenizer.model_max_length == 24
    assert embedder.embed([LONG, "er"]).shape == (2, 32)
    assert embedder.counters["cut"] == 1


def test_padding_is_not_in_the_mean() -> None:
    hidden = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 2.0]]])
    real = torch.tensor([[True, True, False, False]])

    assert pooled(hidden, real, "mean").tolist() == [[1.0, 0.0]]
    assert pooled(hidden, torch.ones(1, 4).bool(), "mean").tolist() == [[0.5, 1.0]]
    assert pooled(hidden, real, "first").tolist() == [[1.0, 0.0]]
    with pytest.raises(ValueError, match="no vector"):
        pooled(hidden, torch.zeros(1, 4).bool(), "mean")


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_alone_is_as_in_a_batch_with_a_long_text(folder: Path, pooling: embeddings.Pooling) -> None:
    embedder = Embedder(folder, pooling)
    texts = ["thing er", LONG, "", "wa ki mbo", "kaanen"]
    together = embedder.embed(texts)
    alone = np.stack([embedder.embed([text])[0] for text in texts])

    assert np.isfinite(together).all()
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.abs(together[0] - together[3]).max() > 1e-2  # texts have vectors of their own


def test_vectors_are_those_of_the_model_s_states(folder: Path) -> None:
    text = "thing er wa"
    model = AutoModel.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        states = model(ids, output_hidden_states=True).hidden_states
    for layer, wanted in ((None, states[-1]), (0, states[0]), (1, states[1])):
        [vector] = Embedder(folder, layer=layer).embed([text])
        np.testing.assert_allclose(vector, wanted[0].mean(dim=0).numpy(), atol=1e-5)
    [first] = Embedder(folder, "first").embed([text])
    np.testing.assert_allclose(first, states[-1][0, 0].numpy(), atol=1e-5)


def test_order_is_the_input_s_whatever_the_batches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"thing {'er ' * n}" for n in (3, 1, 9, 2, 0, 5)]
    whole = Embedder(folder).embed(texts)
    monkeypatch.setattr(embeddings, "TOKENS_PER_BATCH", 8)
    np.testing.assert_allclose(Embedder(folder).embed(texts), whole, atol=1e-5)
    np.testing.assert_allclose(Embedder(folder).embed(texts[::-1]), whole[::-1], atol=1e-5)


def test_long_texts_are_cut_and_counted(folder: Path) -> None:
    embedder = Embedder(folder)
    [cut, short] = embedder.ids([LONG, "wa"])

    assert embedder.length == len(cut) == 24
    assert (cut[0], cut[-1]) == (0, 2)
    assert len(short) < 24
    assert embedder.counters == {"texts": 2, "cut": 1}
    assert embedder.embed([]).shape == (0, 32)


def test_a_layer_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"layer 3: the model has layers 0 \(embeddings\) to 2"):
        Embedder(folder, layer=3)
