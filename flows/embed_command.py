"""`babelmill embed`: vectors of texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pipelines.core.config import ConfigError

if TYPE_CHECKING:
    from model.embeddings import Embedder

TEXTS_AT_ONCE = 4096
"""Texts that are sorted by length together, and held in memory."""
FORMATS = (".npy", ".jsonl", ".parquet")


def embed(
    model: Annotated[
        str, typer.Argument(help="Name of a run, or a folder that holds config.json.")
    ],
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts.")] = None,
    inputs: Annotated[
        Path | None,
        typer.Option("--input", help="Texts: .jsonl and .parquet (text), .txt or - a line each."),
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", help="A file: .npy, .jsonl, .parquet; or -.")
    ] = "-",
    pooling: Annotated[
        Literal["mean", "first"], typer.Option(help="Mean over tokens, or the first token.")
    ] = "mean",
    layer: Annotated[
        int | None, typer.Option(min=0, help="States of this layer; by default the last.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is there.")] = False,
    store: Annotated[
        str | None, typer.Option(help="URL of the store; by default the preset's.")
    ] = None,
) -> None:
    """Write one vector a text, in the order of the texts.

    The mean is over a text's own tokens, its two special ones too; padding is in no vector, so a
    text's vector does not depend on the others. An empty text has the vector of its special tokens.
    Longer texts than the model reads are cut, and counted on the standard error.

    Exit status: 0; 1 an input cannot be read; 2 wrong arguments.
    """
    from flows.cli import _errors
    from flows.status import store_of

    with _errors():
        target = checked_output(output, overwrite)
        if bool(texts) == (inputs is not None):
            raise ConfigError("give texts, or --input FILE: one of the two")
        read = read_texts(inputs) if inputs is not None else iter(texts or ())
        from flows.model_folder import model_folder
        from pipelines.core.store import Store

        with model_folder(model, Store(store_of(store))) as folder:
            from model.embeddings import Embedder

            try:
                embedder = Embedder(folder, pooling, layer)
            except ValueError as error:
                raise ConfigError(f"--layer: {error}") from None
            write_vectors(embedder, read, target)
        said = f"{embedder.counters['texts']:,} texts, {embedder.size} numbers each; "
        said += f"{embedder.counters['cut']:,} cut to {embedder.length} tokens"
        print(said, file=sys.stderr)  # noqa: T201 - this is the terminal


def checked_output(output: str, overwrite: bool) -> Path | None:
    """The file to write, None for the standard output.

    Raises:
        ConfigError: it exists and `overwrite` is False, or cannot be written or told a format.
    """
    from flows.document_files import check_output

    if output == "-":
        return None
    check_output(output, overwrite)
    if Path(output).suffix.lower() not in FORMATS:
        raise ConfigError(f"{output}: end the name in {', '.join(FORMATS)}")
    return Path(output)


def read_texts(path: Path) -> Iterator[str]:
    """Texts of a file, in order.

    Raises:
        ConfigError: a line or the file is not of its kind; it is named.
    """
    kind = path.suffix.lower()
    if str(path) != "-" and not path.is_file():
        raise ConfigError(f"--input {path}: no such file")
    if kind == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            if "text" not in file.schema_arrow.names:
                raise ConfigError(f"{path}: no column text; it has {file.schema_arrow.names}")
            for batch in file.iter_batches(columns=["text"]):
                for place, text in enumerate(batch["text"].to_pylist()):
                    yield _text(text, f"{path}: text {place} of a batch")
        return
    number = 0
    for number, line in enumerate(_lines(path), 1):
        if kind in (".jsonl", ".ndjson"):
            try:
                found = json.loads(line)
                text = found["text"] if isinstance(found, dict) else None
            except (json.JSONDecodeError, KeyError):
                text = None
            yield _text(text, f"{path}, line {number}")
        else:
            yield line


def _lines(path: Path) -> Iterator[str]:
    if str(path) == "-":
        for line in sys.stdin:
            yield line.rstrip("\r\n")
        return
    with path.open(encoding="utf-8", newline="\n") as file:
        try:
            for line in file:
                yield line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not UTF-8: {error.reason}") from None


def _text(text: Any, where: str) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"{where}: need a text under the name text")
    return text


def write_vectors(embedder: Embedder, texts: Iterable[str], target: Path | None) -> None:
    """Write vectors as they are made; a file gets its name when it is whole.

    .npy: float32, shape (texts, size). .jsonl and the standard output: an object with text and
    vector a line. .parquet: columns text and vector.
    """
    from flows.vector_files import vector_file

    remaining = iter(texts)
    with vector_file(target, embedder.size) as file:
        while part := list(islice(remaining, TEXTS_AT_ONCE)):
            file.write(part, embedder.embed(part))
