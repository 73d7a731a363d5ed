"""`babelmill inspect` on files that are not what a pack stage writes: named, no traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from flows.inspect_command import inspect
from flows.packed_rows import check_row
from pipelines.core.records import PackedFormat, read_packed_format
from pipelines.core.store import Store
from tests.flows.test_inspect_command import with_record
from tests.pipelines.pack_sequences.corpus import Corpus, make_corpus, model

app = typer.Typer()
app.command()(inspect)

Row = dict[str, Any]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of packed sequences, with the vocabulary beside it."""
    folder = tmp_path_factory.mktemp("packed")
    corpus = make_corpus(Store(str(folder / "store")))
    [first, *_] = corpus.pack(masking={"views": 2}).outputs_of(part="train", language="en")
    path = folder / "packed.parquet"
    pq.write_table(corpus.store.read_table(first.path).slice(0, 4), path)
    (folder / "spm.model").write_bytes(model())
    return path


def show(path: Path, *options: str) -> Result:
    return run(str(path), "--vocabulary", str(path.with_name("spm.model")), *options)


def changed(packed: Path, change: Callable[[Row], None]) -> Path:
    """The file again, with its third row changed."""
    table = pq.read_table(packed)
    rows = table.to_pylist()
    change(rows[2])
    schema = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    path = packed.with_name("changed.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def put(name: str, place: int, value: Any, view: int | None = None) -> Callable[[Row], None]:
    def change(row: Row) -> None:
        (row[name] if view is None else row[name][view])[place] = value

    return change


def replace(name: str, value: Any) -> Callable[[Row], None]:
    return lambda row: row.update({name: value})


CHANGES = [
    (put("tokens", 5, 60_000), "tokens has id 60000; the vocabulary has 0 to 301"),
    (put("tokens", 5, 302), "tokens has id 302"),
    (put("tokens", 5, None), "tokens has a null"),
    (replace("tokens", []), "0 tokens; need 1 to 48"),
    (replace("tokens", [5] * 49), "49 tokens; need 1 to 48"),
    (replace("tokens", None), "tokens has a null"),
    (replace("language", None), "language has a null"),
    (replace("document_starts", []), "document_starts is empty"),
    (put("document_starts", 0, -1), "document_starts has -1; the sequence has 0 to 47"),
    (put("document_starts", 0, 900), "document_starts has 900; the sequence has 0 to 47"),
    (replace("document_starts", [9, 3]), "document_starts does not rise"),
    (replace("document_ids", ["a"] * 40), "document_starts and 40 document_ids; need as many"),
    (put("mask_positions", -1, 48, 1), "mask_positions, view 1 has 48; the sequence has 0 to 47"),
    (put("mask_positions", 1, 0, 0), "mask_positions, view 0 does not rise"),
    (put("mask_tokens", 0, 302, 1), "mask_tokens, view 1 has id 302"),
    (put("mask_tokens", 0, None, 1), "mask_tokens has a null"),
    (put("mask_tokens", 1, [4], None), "mask_positions and 1 mask_tokens"),
    (replace("mask_tokens", [[4]]), "2 views in mask_positions and 1 in mask_tokens"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_row_that_cannot_be_is_named(
    packed: Path, change: Callable[[Row], None], message: str
) -> None:
    path = changed(packed, change)
    for options in ([], ["--json"]):
        result = show(path, *options)
        assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
        assert f"{path}, row 2: " in result.stderr and message in result.stderr
        assert "delete it and run the pack stage again" in result.stderr


def test_rows_of_every_mode_pass_and_pairs_are_held_against_their_own_columns(
    store: Store,
) -> None:
    corpus = make_corpus(store)
    for mode in ("stream", "document", "pairs"):
        record = corpus.pack(packing={"mode": mode})
        for output in record.outputs:
            if not output.path.endswith(".parquet"):
                continue
            table = store.read_table(output.path)
            stored = read_packed_format(table.schema.metadata, output.path)
            for row in table.to_pylist():
                check_row(row, stored, output.path)
    row, stored = table.slice(0, 1).to_pylist()[0], PackedFormat(302, "pairs", 48, "0" * 64)
    size = len(row["tokens"])
    for other, message in (
        ({"segments": [0] * (size - 1)}, f"segments are {size - 1} of \\[0\\]; need {size}"),
        ({"segments": [2] * size}, f"segments are {size} of \\[2\\]"),
        ({"is_next": None}, "is_next has a null"),
        ({"document_starts": [1], "document_ids": ["a"]}, "1 document_starts; a pair has 2"),
    ):
        with pytest.raises(ValueError, match=f"^f, row 0: {message}"):
            check_row({**row, **other}, stored, "f, row 0")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("length", b"0", "babelmill.length = 0; need 1 or more"),
        ("rows", b"-3", "babelmill.rows = -3; need 1 or more"),
        ("mode", b"streams", "babelmill.mode = 'streams'; need one of stream, document, pairs"),
        ("mode", b"\xff", "can't decode byte 0xff"),
        ("vocabulary", b"\xff", "can't decode byte 0xff"),
        ("length", b"many", "invalid literal"),
    ],
)
def test_metadata_that_cannot_be_are_named(
    packed: Path, key: str, value: bytes, message: str
) -> None:
    table = pq.read_table(packed)
    path = packed.with_name("metadata.parquet")
    metadata = {**table.schema.metadata, f"babelmill.{key}".encode(): value}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    result = show(path)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert f"{path}: its metadata" in result.stderr and message in result.stderr


@pytest.mark.parametrize("name", ["mask_tokens", "document_ids", "language", "document_starts"])
def test_a_column_that_is_missing_or_of_another_type_is_named(packed: Path, name: str) -> None:
    table = pq.read_table(packed)
    path = packed.with_name("columns.parquet")
    pq.write_table(table.drop_columns([name]), path)
    result = show(path)
    assert result.exit_code == 1 and f"{path}: it has no column {name}" in result.stderr
    place = table.schema.get_field_index(name)
    other = table.set_column(place, name, pa.array([5] * table.num_rows))
    pq.write_table(other, path)
    result = show(path)
    assert result.exit_code == 1 and f"{path}, column {name}: " in result.stderr
    pq.write_table(table.append_column("mine", pa.array([None] * table.num_rows)), path)
    assert show(path).exit_code == 0  # more than is needed does no harm


def test_text_that_is_no_utf8_is_damage(packed: Path) -> None:
    table = pq.read_table(packed)
    broken = pa.array([b"en", b"\xff", b"en", b"en"]).view(pa.string())
    place = table.schema.get_field_index("sequence_id")
    path = packed.with_name("broken.parquet")
    pq.write_table(table.set_column(place, "sequence_id", broken), path)
    result = show(path)
    assert result.exit_code == 1 and f"{path} is damaged ('utf-8' codec" in result.stderr


def test_any_flipped_bits_give_the_rows_or_one_line(packed: Path) -> None:
    whole, path = packed.read_bytes(), packed.with_name("flipped.parquet")
    right = show(packed, "--json", "--rows", "9").stdout.splitlines()[1:]
    dice = random.Random(7)
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(dice.choice([1, 1, 5])):
            content[dice.randrange(len(whole) // 2, len(whole))] ^= 1 << dice.randrange(8)
        path.write_bytes(content)
        result = show(path, "--json", "--rows", "9")
        assert result.exception is None or isinstance(result.exception, SystemExit)
        if result.exit_code:
            assert result.exit_code == 1 and str(path) in result.stderr, result.stderr
            assert result.stderr.count("error: ") == 1
        else:
            assert len(result.stdout.splitlines()[1:]) == len(right)


def test_names_cannot_act_on_the_terminal(packed: Path) -> None:
    def change(row: Row) -> None:
        row["sequence_id"] = "s\x1b[2J\n"
        row["language"] = "\x9b31m"
        row["document_ids"] = [f"\u202e{n}\x1b]0;x\x07" for n in row["document_ids"]]

    path = changed(packed, change)
    text = show(path).stdout
    assert r"row 2  \u009b31m" in text and r"s\u001b[2J\u000a" in text
    assert r"  \u202e" in text and r"\u001b]0;x\u0007" in text
    lines = show(path, "--json").stdout
    assert not set(text + lines) & {"\x1b", "\x9b", "\x07", "\u202e"}
    row = json.loads(lines.splitlines()[3])
    assert (row["sequence_id"], row["language"]) == ("s\x1b[2J\n", "\x9b31m")


def test_a_tag_is_read_as_a_run_reads_it_and_nothing_to_show_is_said(packed: Path) -> None:
    assert show(packed, "--language", "ENG").stdout == show(packed, "--language", "en").stdout
    result = show(packed, "--language", "sw", "--from", "1")
    assert result.exit_code == 2
    assert "--language sw: none of the 3 sequences is of it" in result.stderr
    result = show(packed, "--from", "4")
    assert result.exit_code == 2 and "--from 4: there are 4 sequences" in result.stderr
    assert show(packed, "--from", "3").exit_code == 0
    assert show(packed, "--from", "4", "--rows", "0").exit_code == 0
    result = run("a\0b", "--store", str(packed.parent))
    assert result.exit_code == 2 and "has a NUL" in result.stderr


def test_a_damaged_vocabulary_is_named_itself(store: Store) -> None:
    corpus: Corpus = with_record(make_corpus(store))
    [first, *_] = corpus.pack().outputs_of(part="train", language="en")
    [used] = [o for o in corpus.vocabulary if o.labels["part"] == "spm.model"]
    path = Path(store.path(used.path))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    result = run(store.path(first.path))
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert f"{used.path} is damaged" in result.stderr and first.path not in result.stderr
