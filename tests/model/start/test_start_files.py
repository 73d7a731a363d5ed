"""Files to start from that hold something else: each is refused with its name and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.config import EncoderSection
from model.hugging_face.configs import config_of, section_of
from model.start.find_start import Wanted, find_start
from model.start.warm_start import read_tensors, starting_tensors
from pipelines.core.config import ConfigError
from pipelines.core.store import Store

from .test_warm_start import change_tensors, exported, job_of, model_for, started, xlmr_job

LAYER = "roberta.encoder.layer.1.output.dense.weight"
Export = tuple[Store, Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """A run, and an export of a model of its size."""
    store = Store(str(tmp_path_factory.mktemp("built")))
    folder = tmp_path_factory.mktemp("folder") / "export"
    exported(store, job_of(store), "tiny", folder)
    return store, folder


@pytest.fixture
def copy(built: Export, tmp_path: Path) -> Export:
    """The same with a folder that may be changed."""
    store, folder = built
    (tmp_path / "copy").mkdir()
    for path in folder.iterdir():
        (tmp_path / "copy" / path.name).write_bytes(path.read_bytes())
    return store, tmp_path / "copy"


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (torch.ones(32, 64, dtype=torch.int8), "holds int8"),
        (torch.ones(32, 64, dtype=torch.complex64), "holds complex64"),
        (torch.ones(32, 64, dtype=torch.bool), "holds bool"),
        (torch.full((32, 64), 1e39, dtype=torch.float64), "not finite in float32"),
        (torch.full((32, 64), float("inf")), "not finite in float32"),
    ],
    ids=["int8", "complex", "bool", "above float32", "inf"],
)
def test_weights_that_are_no_numbers_for_us(copy: Export, tensor: torch.Tensor, said: str) -> None:
    store, folder = copy
    change_tensors(folder, lambda tensors: tensors.update({LAYER: tensor}))
    with pytest.raises(ConfigError, match=rf"encoder\.layers\.1\.contract\.weight .*{said}"):
        started(xlmr_job(store, folder), store)


@pytest.mark.parametrize("kind", [torch.int8, torch.complex64])
def test_words_that_are_no_floats(copy: Export, kind: torch.dtype) -> None:
    """Rows of another vocabulary would be means of them."""
    store, folder = copy
    words = "roberta.embeddings.word_embeddings.weight"
    change_tensors(folder, lambda t: t.update({words: t[words].to(kind)}))
    with pytest.raises(ConfigError, match=r"encoder\.words\.weight holds (int8|complex64)"):
        started(xlmr_job(store, folder), store)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_other_floats_become_float32(copy: Export, kind: torch.dtype) -> None:
    store, folder = copy
    change_tensors(folder, lambda t: t.update({n: v.to(kind) for n, v in t.items()}))
    model, _ = started(xlmr_job(store, folder), store)
    wanted = load_file(folder / "model.safetensors")[LAYER].float()
    assert torch.equal(model.state_dict()["encoder.layers.1.contract.weight"], wanted)


@pytest.mark.parametrize("rows", [223, 300])
def test_rows_of_the_config_and_of_the_weights(copy: Export, rows: int) -> None:
    store, folder = copy
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "vocab_size": rows}))
    with pytest.raises(
        ConfigError, match=rf"the shape \(222, 32\), .*vocab_size = {rows}: they do"
    ):
        started(xlmr_job(store, folder), store)


INDEXES = {
    "{}": 'need an object with "weight_map"',
    "[]": 'need an object with "weight_map"',
    "null": 'need an object with "weight_map"',
    "nothing": "not JSON: ",
    '{"weight_map": {}}': 'need an object with "weight_map"',
    '{"weight_map": ["a"]}': 'need an object with "weight_map"',
    '{"weight_map": {"a": 3}}': 'need an object with "weight_map"',
    '{"weight_map": {"a": "b"}}': r"names \['b'\], which are not there",
    "[" * 100_000: "not JSON: ",
}


@pytest.mark.parametrize("content", INDEXES, ids=range(len(INDEXES)))
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_an_index_that_is_none(copy: Export, name: str, content: str) -> None:
    store, folder = copy
    (folder / "model.safetensors").unlink()
    (folder / f"{name}.index.json").write_text(content)
    with pytest.raises(ConfigError, match=rf"{name}\.index\.json:? {INDEXES[content]}"):
        xlmr_job(store, folder)


CONFIGS: list[tuple[Any, str]] = [
    ([], r"need an object, not \[\]"),
    (None, "need an object, not None"),
    ({"model_type": ["bert"]}, r"model_type = \['bert'\]: the encoders known are"),
    ({"num_hidden_layers": 0}, "num_hidden_layers = 0: need a whole number from 1 on"),
    ({"num_hidden_layers": "2"}, "num_hidden_layers = '2': need a whole number"),
    ({"num_attention_heads": -2}, "num_attention_heads = -2: need a whole number"),
    ({"hidden_size": 32.0}, "hidden_size = 32.0: need a whole number"),
    ({"hidden_size": None}, "hidden_size = None: need a whole number"),
    ({"vocab_size": True}, "vocab_size = True: need a whole number"),
    ({"max_position_embeddings": 2}, "max_position_embeddings = 2: room for no token"),
    ({"max_position_embeddings": "many"}, "max_position_embeddings = 'many': need a whole"),
    ({"pad_token_id": None}, "pad_token_id = None: need a whole number from 0 on"),
    ({"type_vocab_size": 9}, "type_vocab_size = 9: Input should be less than or equal to 2"),
    ({"layer_norm_eps": 0.0}, "layer_norm_eps = 0.0: Input should be greater than 0"),
    ({"layer_norm_eps": float("nan")}, "layer_norm_eps = nan: Input should be"),
    ({"layer_norm_eps": "tiny"}, "layer_norm_eps"),
    ({"hidden_dropout_prob": 7}, "hidden_dropout_prob = 7: Input should be"),
    ({"initializer_range": -1.0}, "initializer_range = -1.0: Input should be"),
    ({"num_attention_heads": 5}, "5"),
]


@pytest.mark.parametrize(("change", "said"), CONFIGS, ids=range(len(CONFIGS)))
def test_a_config_that_is_none(copy: Export, change: Any, said: str) -> None:
    store, folder = copy
    path = folder / "config.json"
    whole = {**json.loads(path.read_text()), **change} if isinstance(change, dict) else change
    path.write_text(json.dumps(whole))
    with pytest.raises(ConfigError, match=rf"config\.json: .*{said}") as error:
        find_start(str(folder), Wanted(store, "new", EncoderSection(), 24, None))
    assert "pydantic" not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000], ids=range(4))
def test_a_config_that_is_no_json(copy: Export, content: bytes) -> None:
    store, folder = copy
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.json: "):
        xlmr_job(store, folder)


def test_rotary_settings_that_are_none() -> None:
    modern = EncoderSection(
        norm="pre", positions="rotary", feed_forward="geglu", segments=0, layers=2
    )
    config = config_of(modern, 300, 24).to_dict()
    section, rows, length = section_of(config)
    assert (section.rotary_base, rows, length) == (10_000.0, 300, 24)
    for wrong in ({"full_attention": {"rope_type": "yarn", "rope_theta": 1e4}}, 7, ["a"]):
        with pytest.raises(ConfigError, match="rope"):
            section_of({**config, "rope_parameters": wrong})


BINARIES: list[tuple[Any, str]] = [
    ([torch.zeros(2)], "holds a list; need tensors by name"),
    (torch.zeros(2), "holds a Tensor; need tensors by name"),
    ({"a": 3}, "'a' is a int; need tensors by name"),
    ({3: torch.zeros(2)}, "3 is a Tensor; need tensors by name"),
    ({"state_dict": {"a": torch.zeros(2)}}, "'state_dict' is a dict; need tensors by name"),
    (None, "holds a NoneType; need tensors by name"),
]


@pytest.mark.parametrize(("content", "said"), BINARIES, ids=range(len(BINARIES)))
def test_a_bin_file_of_something_else(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save(content, path)
    with pytest.raises(ConfigError, match=f"^here:? {said}"):
        read_tensors(path, "here")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("cut", [0, 1, 40, 500, -1, None])
def test_a_file_that_is_damaged(tmp_path: Path, name: str, cut: int | None) -> None:
    path, tensors = tmp_path / name, {"a": torch.arange(300.0)}
    save_file(tensors, path) if name.startswith("model") else torch.save(tensors, path)
    assert torch.equal(read_tensors(path, "here")["a"], tensors["a"])
    path.write_bytes(b"\x93garbage" * 50 if cut is None else path.read_bytes()[:cut])
    with pytest.raises(ConfigError, match="^here (holds no weights|is no file of torch.save)"):
        read_tensors(path, "here")


def test_a_bin_file_is_named_where_it_is_read(copy: Export) -> None:
    store, folder = copy
    (folder / "model.safetensors").unlink()
    torch.save([torch.zeros(2)], folder / "pytorch_model.bin")
    job = xlmr_job(store, folder)
    with pytest.raises(ConfigError, match=r"start_from = .*pytorch_model\.bin holds a list"):
        starting_tensors(job, store, model_for(job))
