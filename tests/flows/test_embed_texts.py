"""`babelmill embed` and `fill-mask` on texts and files that are no clean text."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.vector_files import vector_table
from model.embeddings import Embedder


def babelmill(*arguments: Any, **more: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **more)


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_lone_surrogates_are_replaced_and_counted(whole: Path, tmp_path: Path, ending: str) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / f"out{ending}"
    texts = ["a\ud800b", "wa ki", "\udfff"]
    clean = ["a\ufffdb", "wa ki", "\ufffd"]
    source.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
    done = babelmill("embed", whole, "--input", source, "-o", target)
    assert done.exit_code == 0, done.output
    said = "0 cut to 24 tokens; 2 with lone surrogates, read as U+FFFD\n"
    assert done.stderr == f"3 texts, 32 numbers each; {said}"
    wanted = Embedder(whole).embed(clean)
    if ending == ".npy":
        np.testing.assert_array_equal(np.load(target), wanted)
    elif ending == ".parquet":
        table = pq.read_table(target)
        assert table["text"].to_pylist() == clean
        np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), wanted)
    else:
        rows = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
        assert [row["text"] for row in rows] == clean


def test_arguments_that_are_not_utf_8(whole: Path) -> None:
    """The shell gives any bytes; Python makes lone surrogates of those that are not UTF-8."""
    bad = b"\xff".decode("utf-8", "surrogateescape")
    done = babelmill("embed", whole, bad)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["text"] == "\ufffd"
    done = babelmill("fill-mask", whole, f"{bad}<mask>")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 5


def test_a_byte_order_mark_is_no_text(whole: Path, tmp_path: Path) -> None:
    for ending, content in ((".txt", "wa\n\ufeffki\n"), (".jsonl", '{"text": "wa"}\n')):
        path = tmp_path / f"in{ending}"
        path.write_text(f"\ufeff{content}", encoding="utf-8")
        done = babelmill("embed", whole, "--input", path)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout.splitlines()[0])["text"] == "wa"
    [_, second] = babelmill("embed", whole, "--input", tmp_path / "in.txt").stdout.splitlines()
    assert json.loads(second)["text"] == "\ufeffki"  # only the first of a file is a mark
    done = babelmill("embed", whole, "--input", "-", input="\ufeffwa\r\nki")
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["wa", "ki"]


@pytest.mark.parametrize(
    ("ending", "line", "message"),
    [
        (".txt", b"\xff", "not UTF-8"),
        (".jsonl", b"\xff", "not UTF-8"),
        (".jsonl", b"{", "no JSON"),
        (".jsonl", b"[" * 100_000, "no JSON"),
        (".jsonl", b'{"text": ' + b"9" * 5000 + b"}", "no JSON"),
        (".jsonl", b"[]", "need a text"),
        (".jsonl", b'{"title": "ki"}', "need a text"),
        (".jsonl", b'{"text": 5}', "need a text"),
    ],
)
def test_a_damaged_line_is_named(
    whole: Path, tmp_path: Path, ending: str, line: bytes, message: str
) -> None:
    source = tmp_path / f"in{ending}"
    good = b'{"text": "wa"}\n'
    source.write_bytes(good + line + b"\n" + good)
    done = babelmill("embed", whole, "--input", source, "-o", tmp_path / "out.npy")
    assert done.exit_code == 2, done.output
    assert f"in{ending}, line 2: {message}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def test_a_standard_input_that_is_not_utf_8_names_its_line(whole: Path) -> None:
    done = babelmill("embed", whole, "--input", "-", input=b"wa\n\xff\n")
    assert done.exit_code == 2
    assert "the standard input, line 2: not UTF-8" in done.stderr


def test_damaged_parquet_is_named(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    path.write_bytes(b"PAR1 nothing PAR1")
    done = babelmill("embed", whole, "--input", path)
    assert done.exit_code == 2 and str(path) in done.stderr
    pq.write_table(pa.table({"text": ["wa", None]}), path)
    done = babelmill("embed", whole, "--input", path)
    assert done.exit_code == 2 and f"{path}, row 2: need a text" in done.stderr
    invalid = pa.StringArray.from_buffers(
        1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")
    )
    pq.write_table(pa.table({"text": invalid}), path)
    done = babelmill("embed", whole, "--input", path)
    assert done.exit_code == 2 and f"{path}, row 1: not UTF-8" in done.stderr


def test_a_table_that_is_not_finished_leaves_nothing_and_says_nothing_more(
    whole: Path, tmp_path: Path
) -> None:
    """In a process of its own: what Python cannot raise, it writes to the standard error."""
    source = tmp_path / "in.txt"
    source.write_bytes(b"wa\n\xff\n")
    program = (
        "from flows import embed_command; embed_command.TEXTS_AT_ONCE = 1\n"
        "from flows.cli import main; main()"
    )
    target = tmp_path / "out.parquet"
    done = subprocess.run(
        [sys.executable, "-c", program, "embed", whole, "--input", source, "-o", target],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == f"error: {source}, line 2: not UTF-8: invalid start byte\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_the_only_thing_said_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing fails too then; Python must not try a third time when it takes the writer away."""
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    vectors = np.random.default_rng(0).standard_normal((200, 100), dtype=np.float32)

    def fill() -> None:
        file = open("/dev/full", "wb", buffering=100_000)  # noqa: SIM115 - closing it fails too
        try:
            with vector_table(file, 100) as table:
                table.write(["wa"] * 200, vectors)
                file.flush()
        finally:
            with suppress(OSError):
                file.close()

    with pytest.raises(OSError, match="No space left"):
        fill()
    gc.collect()
    assert unraisable == []
