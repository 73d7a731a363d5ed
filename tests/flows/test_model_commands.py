"""`babelmill export`, `fill-mask` and `embed` on a tiny run and on a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM
from typer.testing import CliRunner

from flows.cli import app
from flows.model_folder import new_folder
from model.checkpoint import Checkpoint, save
from model.embeddings import Embedder
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.optimizer import optimizer_tensors
from model.plan import RunInputs, pretraining_job
from pipelines.core.config import ConfigError
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store
from tests.model.tiny import build, tiny_config

TEXTS = ["thing er", "wa ki mbo " * 30, "", "kaanen"]


def babelmill(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def a_model(inputs: RunInputs, seed: int) -> MaskedLanguageModel:
    job = pretraining_job(inputs)
    torch.manual_seed(seed)
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    for parameter in model.parameters():  # norms and biases away from 1 and 0
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A run with checkpoints of steps 4 and 8, as training leaves them."""
    store = Store(str(tmp_path_factory.mktemp("commands")))
    build(store, tiny_config())
    inputs = RunInputs(store, "tiny")
    folder = f"runs/tiny/checkpoints/{'0' * 16}"
    for step in (4, 8):
        model = a_model(inputs, step)
        optimizer = torch.optim.AdamW(model.parameters())
        model.bias.sum().backward()
        optimizer.step()
        state = {"bias": {"languages": {"en": {"loss_sum": 50.0, "tokens": 10}}}}
        training = {
            "tokens_seen": step * 100,
            "log": [],
            "evaluations": [{"step": step, **state["bias"]}],
        }
        tensors = {name: t.detach() for name, t in model.state_dict().items()}
        moments = optimizer_tensors(model, optimizer)
        save(store, folder, Checkpoint(step, tensors, moments, training))
    return store


@pytest.fixture(scope="module")
def folder(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exports") / "last"
    done = babelmill("export", "tiny", "--to", path, "--store", store.url)
    assert done.exit_code == 0, done.output
    return path


def is_the_model_of(folder: Path, store: Store, step: int) -> bool:
    theirs = AutoModelForMaskedLM.from_pretrained(folder).eval()
    optimizer_made = a_model(RunInputs(store, "tiny"), step)
    return torch.equal(
        theirs.roberta.embeddings.word_embeddings.weight, optimizer_made.encoder.words.weight
    )


def test_a_running_run_exports_its_last_checkpoint(folder: Path, store: Store) -> None:
    assert is_the_model_of(folder, store, 8)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "| updates | 8 of 12 (training went on) |" in card
    assert "| sw |" in card and "5.000" in card
    tensors = load_file(folder / "model.safetensors")
    parameters = sum(p.numel() for p in a_model(RunInputs(store, "tiny"), 8).parameters())
    assert sum(tensor.numel() for tensor in tensors.values()) == parameters
    assert {"config.json", "tokenizer.json", "tokenizer_config.json"} <= {
        path.name for path in folder.iterdir()
    }


def test_a_named_checkpoint_is_exported(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "four"
    done = babelmill("export", "tiny", "--to", target, "--checkpoint", 4, "--store", store.url)
    assert done.exit_code == 0, done.output
    assert "step 4 of run tiny; logits within" in done.stdout
    assert is_the_model_of(target, store, 4) and not is_the_model_of(target, store, 8)


def test_a_checkpoint_that_is_not_there_is_refused(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "none"
    done = babelmill("export", "tiny", "--to", target, "--checkpoint", 5, "--store", store.url)
    assert done.exit_code == 2
    assert "tiny@4, tiny@8" in done.stderr
    assert list(tmp_path.iterdir()) == []
    other = babelmill("export", "nobody", "--to", target, "--store", store.url)
    assert other.exit_code == 2 and "nobody" in other.stderr


def test_a_folder_with_something_in_it_is_kept(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep", encoding="utf-8")
    arguments = ["export", "tiny", "--to", tmp_path / "mine", "--store", store.url]
    for more in ([], ["--overwrite", "False"]):
        done = babelmill(*arguments, *more)
        assert done.exit_code == 2
        assert "not empty; give --overwrite" in done.stderr
        assert (tmp_path / "mine" / "notes.txt").read_text(encoding="utf-8") == "keep"
    done = babelmill(*arguments, "--overwrite")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "mine" / "notes.txt").exists()
    assert is_the_model_of(tmp_path / "mine", store, 8)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_is_whole_or_untouched(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("old", encoding="utf-8")
    with pytest.raises(OSError, match="disk"), new_folder(target, overwrite=True) as folder:
        (folder / "half").write_text("half", encoding="utf-8")
        raise OSError("the disk is full")
    assert [path.name for path in target.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(ConfigError, match="it is a file"), new_folder(target / "old", True):
        pass
    with pytest.raises(ConfigError, match="there is no folder"), new_folder(target / "a/b", True):
        pass


def test_a_finished_run_gives_the_export_it_has_proven(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    """The files are copied as they are, and a damaged one is refused."""

    def write(unit: Unit, config: Any, attempt: Attempt) -> None:
        for path in sorted(folder.iterdir()):
            name = f"{attempt.unit_id}/{path.name}"
            attempt.write_file(name, path, part="export", file=path.name)

    finished = Store(str(tmp_path / "store"))
    build(finished, tiny_config())
    step = Step("export", 1, "runs/tiny/export", {}, write)
    record = run_step(step, [Unit("all", ())], finished, "tiny", inline=True, quiet=True)
    arguments = ["export", "tiny", "--store", finished.url]
    done = babelmill(*arguments, "--to", tmp_path / "copy")
    assert done.exit_code == 0, done.output
    for path in folder.iterdir():
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()

    [output] = record.outputs_of(file="config.json")
    Path(finished.path(output.path)).write_bytes(b"x" * output.bytes)
    done = babelmill(*arguments, "--to", tmp_path / "damaged")
    assert done.exit_code == 1
    assert "config.json" in done.stderr
    assert not (tmp_path / "damaged").exists()


def test_fill_mask_reads_a_folder_or_a_run(folder: Path, store: Store) -> None:
    done = babelmill("fill-mask", folder, "wa <mask> ki", "--top", 3)
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 3
    assert babelmill("fill-mask", folder, "no mask").exit_code == 2
    done = babelmill("fill-mask", folder.parent, "wa <mask>")
    assert done.exit_code == 2 and "config.json" in done.stderr
    done = babelmill("fill-mask", "tiny", "wa <mask>", "--store", store.url)
    assert done.exit_code == 2 and "export" in done.stderr


@pytest.fixture(scope="module")
def vectors(folder: Path) -> np.ndarray[Any, Any]:
    return Embedder(folder).embed(TEXTS)


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS), encoding="utf-8")
    yield path


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_vectors_are_written_in_the_order_of_the_texts(
    folder: Path, vectors: np.ndarray[Any, Any], lines: Path, tmp_path: Path, ending: str
) -> None:
    target = tmp_path / f"out{ending}"
    done = babelmill("embed", folder, "--input", lines, "-o", target)
    assert done.exit_code == 0, done.output
    assert done.stderr == "4 texts, 32 numbers each; 1 cut to 24 tokens\n"
    if ending == ".npy":
        found = np.load(target)
        assert found.dtype == np.float32
    elif ending == ".jsonl":
        rows = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
        assert [row["text"] for row in rows] == TEXTS
        found = np.array([row["vector"] for row in rows], dtype=np.float32)
    else:
        table = pq.read_table(target)
        assert table["text"].to_pylist() == TEXTS
        found = np.array(table["vector"].to_pylist(), dtype=np.float32)
    np.testing.assert_array_equal(found, vectors)
    assert babelmill("embed", folder, "--input", lines, "-o", target).exit_code == 2


def test_vectors_of_parts_are_those_of_the_whole(
    folder: Path, vectors: np.ndarray[Any, Any], lines: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("flows.embed_command.TEXTS_AT_ONCE", 3)
    done = babelmill("embed", folder, "--input", lines, "-o", tmp_path / "out.npy")
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), vectors, atol=1e-5)


def test_texts_of_the_command_line_and_of_lines(
    folder: Path, vectors: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    done = babelmill("embed", folder, *TEXTS)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    np.testing.assert_array_equal(np.array([r["vector"] for r in rows], np.float32), vectors)
    text = tmp_path / "in.txt"
    text.write_text("".join(f"{t}\r\n" for t in TEXTS), encoding="utf-8")
    done = babelmill("embed", folder, "--input", text, "--pooling", "first", "--layer", 1)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    first = Embedder(folder, "first", 1).embed(TEXTS)
    np.testing.assert_array_equal(np.array([r["vector"] for r in rows], np.float32), first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give texts, or --input"),
        (("wa", "-o", "out.csv"), "end the name in"),
        (("wa", "--layer", "9"), "--layer: layer 9"),
        (("--input", "nothing.txt"), "no such file"),
        (("wa", "-o", "missing/out.npy"), "there is no folder"),
    ],
)
def test_wrong_arguments_are_named(
    folder: Path, arguments: tuple[str, ...], message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = babelmill("embed", folder, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
