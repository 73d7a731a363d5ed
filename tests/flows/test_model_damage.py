"""`babelmill embed`, `fill-mask` and `export` on damaged folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from flows.cli import app
from model.embeddings import Embedder
from model.export import fill_mask
from pipelines.core.store import Store

WEIGHTS = "model.safetensors"


def babelmill(*arguments: Any, **more: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **more)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(whole, tmp_path / "model")


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def change_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}), encoding="utf-8")


def drop(tensors: dict[str, torch.Tensor], part: str) -> None:
    for name in [name for name in tensors if part in name]:
        del tensors[name]


def both_refuse(folder: Path, *words: str) -> None:
    """Both commands end with an error that holds the words, and write nothing."""
    for done in (
        babelmill("embed", folder, "wa", "-o", folder.parent / "out.npy"),
        babelmill("fill-mask", folder, "wa <mask>"),
    ):
        assert done.exit_code == 2, done.output
        for word in words:
            assert word in done.stderr
        assert done.stdout == ""
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_whole_folder_is_read_without_a_word_of_the_pooler(whole: Path) -> None:
    """In a process of its own: transformers writes to the standard error that it found."""
    program = "from flows.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "embed", str(whole), "wa"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "1 texts, 32 numbers each; 0 cut to 24 tokens\n"
    assert len(json.loads(done.stdout)["vector"]) == 32


def test_missing_weights_are_named(folder: Path) -> None:
    change_weights(folder, lambda tensors: drop(tensors, ".layer.1."))
    name = "encoder.layer.1.attention.output.LayerNorm.bias"
    both_refuse(folder, str(folder), "lack", name, "and 12 more")


def test_one_missing_tensor_is_named(folder: Path) -> None:
    change_weights(folder, lambda tensors: drop(tensors, "embeddings.LayerNorm.bias"))
    both_refuse(folder, "lack", "embeddings.LayerNorm.bias,")


def test_weights_without_a_place_are_named(folder: Path) -> None:
    change_config(folder, num_hidden_layers=1)
    both_refuse(folder, "has no place for", "roberta.encoder.layer.1.attention", "and 12 more")


def test_weights_of_another_shape_are_named(folder: Path) -> None:
    change_config(folder, max_position_embeddings=50)
    both_refuse(folder, "embeddings.position_embeddings.weight (shape [26, 32]", "[50, 32]")


def test_a_model_without_a_head_for_masks_has_vectors_and_no_guesses(
    folder: Path, whole: Path
) -> None:
    change_weights(folder, lambda tensors: drop(tensors, "lm_head"))
    done = babelmill("fill-mask", folder, "wa <mask>")
    assert done.exit_code == 2 and "lm_head.bias" in done.stderr
    vectors = [Embedder(path).embed(["wa", "thing"]) for path in (folder, whole)]
    np.testing.assert_array_equal(*vectors)


def test_weights_that_are_not_finite_are_refused(folder: Path) -> None:
    change_weights(folder, lambda t: t["roberta.embeddings.LayerNorm.weight"].fill_(torch.nan))
    both_refuse(folder, "not finite; the weights are damaged")


def test_a_folder_without_tokenizer_files_is_refused(folder: Path) -> None:
    for name in ("tokenizer.json", "sentencepiece.bpe.model"):
        (folder / name).unlink()
    both_refuse(folder, str(folder), "tokenizer")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink()
    both_refuse(folder, "no tokenizer; need one of", "tokenizer.json")


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    rows = tensors["roberta.embeddings.word_embeddings.weight"].shape[0]
    for name in ("roberta.embeddings.word_embeddings.weight", "lm_head.bias"):
        tensors[name] = tensors[name][:-1].clone()
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    change_config(folder, vocab_size=rows - 1)
    both_refuse(folder, f"ids up to {rows - 1:,}", f"{rows - 1:,} rows")


def test_rows_that_no_token_has_are_no_guesses(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    rows = len(tensors["lm_head.bias"])
    for name in ("roberta.embeddings.word_embeddings.weight", "lm_head.bias"):
        more = torch.zeros(8, *tensors[name].shape[1:])
        tensors[name] = torch.cat([tensors[name], more])
    tensors["lm_head.bias"][-8:] = 100.0  # the most probable ones
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    change_config(folder, vocab_size=rows + 8)
    guesses = fill_mask(folder, "wa <mask>", top=1000)
    assert len(guesses) == rows
    assert all(isinstance(token, str) for token, _, _ in guesses)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"[]", b"null", b"{", b"garbage", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_json_file_is_named(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    both_refuse(folder, str(folder / name), "JSON")


@pytest.mark.parametrize(
    "content", ["{}", '{"model_type": 5}', '{"model_type": "gpt9"}', '{"model_type": "t5"}']
)
def test_a_config_of_no_model_names_the_folder(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content, encoding="utf-8")
    both_refuse(folder, str(folder))


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize("value", ["a", -32, 0, None, [32]])
def test_a_size_that_is_none_names_the_folder(folder: Path, value: Any) -> None:
    change_config(folder, hidden_size=value)
    both_refuse(folder, str(folder))


def test_an_empty_tokenizer_file_names_the_folder(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    both_refuse(folder, str(folder), "the tokenizer cannot be read")


@pytest.mark.parametrize("kept", [0, 5, 1000, -1])
def test_truncated_weights_are_named(folder: Path, kept: int) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[:kept])
    both_refuse(folder, str(folder / WEIGHTS), "damaged")


def test_no_weights_at_all_name_the_folder(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    both_refuse(folder, str(folder), "no file named model.safetensors")


def test_a_layer_that_is_not_there_is_still_the_option_s(whole: Path) -> None:
    done = babelmill("embed", whole, "wa", "--layer", 9)
    assert done.exit_code == 2 and done.stderr.startswith("error: --layer: layer 9")


def test_a_fullwidth_mask_is_the_mask(whole: Path) -> None:
    assert fill_mask(whole, "wa ＜ｍａｓｋ＞ ki") == fill_mask(whole, "wa <mask> ki")
    done = babelmill("fill-mask", whole, "wa ＜mask＞ <mask>")
    assert done.exit_code == 2 and "it has 2" in done.stderr
    assert "fullwidth" in babelmill("fill-mask", "--help").stdout


def test_a_run_that_is_not_there_names_those_that_are(untrained: Store, tmp_path: Path) -> None:
    for arguments in (
        ("export", "nope", "--to", tmp_path / "to"),
        ("export", "nope", "--to", tmp_path / "to", "--checkpoint", 3),
        ("embed", "nope", "wa"),
        ("fill-mask", "nope", "wa <mask>"),
    ):
        done = babelmill(*arguments, "--store", untrained.url)
        assert done.exit_code == 2
        assert "no such run 'nope'" in done.stderr and "there are: tiny\n" in done.stderr
    assert list(tmp_path.iterdir()) == []
    done = babelmill("export", "nope", "--to", tmp_path / "to", "--store", tmp_path / "empty")
    assert done.exit_code == 2 and "there is none yet" in done.stderr
