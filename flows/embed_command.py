"""`babelmill embed`: vectors of texts."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
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
    Longer texts than the model reads are cut, and counted on the standard error. A lone surrogate,
    or a byte of an argument that is no UTF-8, is read and written as U+FFFD, and counted too.

    Exit status: 0; 1 the store or a disk fails; 2 wrong arguments, or a damaged input or model.
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
            except ConfigError:
                raise  # it is a ValueError too, and names the file
            except ValueError as error:
                raise ConfigError(f"--layer: {error}") from None
            write_vectors(embedder, read, target)
        said = f"{embedder.counters['texts']:,} texts, {embedder.size} numbers each; "
        said += f"{embedder.counters['cut']:,} cut to {embedder.length} tokens"
        if replaced := embedder.counters["replaced"]:
            said += f"; {replaced:,} with lone surrogates, read as U+FFFD"
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
        yield from _column(path)
        return
    name = "the standard input" if str(path) == "-" else str(path)
    for number, line in enumerate(_lines(path, name), 1):
        if kind in (".jsonl", ".ndjson"):
            where = f"{name}, line {number}"
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{where}: no JSON: {error}") from None
            yield _text(found.get("text") if isinstance(found, dict) else None, where)
        else:
            yield line


def _column(path: Path) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            if "text" not in file.schema_arrow.names:
                raise ConfigError(f"{path}: no column text; it has {file.schema_arrow.names}")
            for batch in file.iter_batches(columns=["text"]):
                for value in batch["text"]:
                    number += 1
                    yield _text(value.as_py(), f"{path}, row {number}")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}, row {number}: not UTF-8: {error.reason}") from None
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: damaged after {number} rows: {error}") from None


def _lines(path: Path, name: str) -> Iterator[str]:
    """Lines without their ends; a byte order mark is none of the first one's text."""
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            try:
                yield content.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ConfigError(f"{name}, line {number}: not UTF-8: {error.reason}") from None


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
    from pipelines.core.vocabulary import encodable

    remaining = iter(texts)
    with vector_file(target, embedder.size) as file:
        while part := list(islice(remaining, TEXTS_AT_ONCE)):
            file.write(encodable(part), embedder.embed(part))
