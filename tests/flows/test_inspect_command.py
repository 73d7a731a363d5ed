"""`babelmill inspect` on files that the pack stage wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from flows.inspect_command import as_record, as_text, inspect, shown_piece
from pipelines.core.manifest import StageRecord, stage_record_key, write_json
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary
from tests.pipelines.pack_sequences.corpus import Corpus, make_corpus, model, rows_of

app = typer.Typer()
app.command()(inspect)


@pytest.fixture
def corpus(store: Store) -> Corpus:
    return with_record(make_corpus(store))


def with_record(corpus: Corpus) -> Corpus:
    """Leave what the vocabulary stage leaves, so that the run's vocabulary is found."""
    record = StageRecord(
        stage="vocabulary",
        binding_id="0" * 16,
        manifests=[],
        outputs=corpus.vocabulary,
        counters={},
        seconds=0,
        units=1,
        reused=0,
    )
    write_json(corpus.store, stage_record_key("packing", "vocabulary"), record)
    return corpus


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})


def test_a_file_shows_what_it_is_and_its_rows_as_text(corpus: Corpus) -> None:
    record = corpus.pack()
    [first, *_] = record.outputs_of(part="train", language="fi")
    rows = rows_of(corpus.store, record, part="train", language="fi")
    result = run(corpus.store.path(first.path), "--rows", "3")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == corpus.store.path(first.path)
    table = corpus.store.read_table(first.path)
    tokens = sum(len(row) for row in table["tokens"].to_pylist())
    assert lines[1] == (
        f"{first.rows} sequences of at most 48 tokens, mode stream; {tokens:,} tokens, "
        f"fill {tokens / (48 * table.num_rows):.2%}"
    )
    assert lines[2].startswith("ids of 16 bits, vocabulary of 302 rows, sha256 ")
    masked = len(rows[0]["mask_positions"][0])
    assert lines[4] == f"row 0  fi  48 tokens, {masked} masked  {rows[0]['sequence_id']}"
    assert lines[5] == f"  {rows[0]['document_ids'][0]}"
    assert len([line for line in lines if line.startswith("row ")]) == 3
    # Brackets taken for what stood there, the text is the text.
    begin, *others = rows[0]["document_starts"]
    end = others[0] if others else 48
    text = re.sub(r"\[([^\[\]]*) (?:→|=) [^\[\]]*\]", r"\1", lines[6]).strip()
    ids = [token for token in rows[0]["tokens"][begin:end] if token not in (0, 2)]
    wanted = Vocabulary(model()).decode(ids)
    assert re.sub(r"\s+", "", text) == re.sub(r"\s+", "", wanted)


def test_masks_read_what_stood_there_and_what_the_model_sees() -> None:
    vocabulary = Vocabulary(model())
    ids = vocabulary.encode("thingston whoubler")
    words = [shown_piece(int(i), vocabulary) for i in ids]
    other = int(vocabulary.encode("ea")[0])
    row = {
        "sequence_id": "d:0",
        "language": "en",
        "tokens": [0, *ids.tolist(), 2],
        "document_starts": [1],
        "document_ids": ["d"],
        "mask_positions": [[1, 2, len(ids)]],
        "mask_tokens": [[vocabulary.mask_id, other, int(ids[-1])]],
    }
    [_, title, document, text] = [line.plain for line in as_text(as_record(4, row, vocabulary, 0))]
    assert title == f"row 4  en  {len(ids) + 2} tokens, 3 masked  d:0"
    assert document == "  d"
    seen = shown_piece(other, vocabulary).strip()
    middle = "".join(words[2:-1])
    last = words[-1].strip()
    blank = " " if words[-1].startswith(" ") else ""
    assert text == (
        f"    [{words[0].strip()} → <mask>]{' ' * words[1].startswith(' ')}"
        f"[{words[1].strip()} → {seen}]{middle}{blank}[{last} = {last}]"
    )


def test_colours_on_a_terminal_only(corpus: Corpus) -> None:
    record = corpus.pack()
    [first, *_] = record.outputs_of(part="train", language="sw")
    assert "\x1b[" not in run(corpus.store.path(first.path)).stdout
    row = corpus.store.read_table(first.path).slice(0, 1).to_pylist()[0]
    terminal = Console(force_terminal=True, color_system="standard", highlight=False)
    with terminal.capture() as captured:
        for line in as_text(as_record(0, row, Vocabulary(model()), 0)):
            terminal.print(line)
    assert "\x1b[1;31m" in captured.get() and "\x1b[1;32m<mask>" in captured.get()


def test_a_run_by_its_name_a_language_and_a_place(corpus: Corpus) -> None:
    record = corpus.pack(masking={"views": 2})
    rows = rows_of(corpus.store, record, part="train", language="sw")
    [first, second] = record.outputs_of(part="train", language="sw")
    assert first.rows is not None
    result = run(
        "packing", "--store", corpus.store.url, "--language", "sw", "--json",
        "--from", str(first.rows - 2), "--rows", "4", "--view", "1",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["file"] for line in found if "file" in line] == [
        corpus.store.path(output.path) for output in (first, second)
    ]
    shown = [line for line in found if "row" in line]
    assert [line["row"] for line in shown] == [first.rows - 2, first.rows - 1, 0, 1]
    for line, row in zip(shown, rows[first.rows - 2 : first.rows + 2], strict=True):
        assert line["tokens"] == row["tokens"]
        assert line["sequence_id"] == row["sequence_id"]
        assert [m["position"] for m in line["masks"]] == row["mask_positions"][1]
        assert [m["seen_token"] for m in line["masks"]] == row["mask_tokens"][1]
    result = run("packing", "--store", corpus.store.url, "--language", "ja")
    assert result.exit_code == 2
    assert "--language ja: run packing has packed en, fi, sw" in result.stderr


def test_a_key_of_the_store_and_pairs(corpus: Corpus) -> None:
    record = corpus.pack(packing={"mode": "pairs"})
    [first, *_] = record.outputs_of(part="held-out", language="en")
    result = run(first.path, "--store", corpus.store.url, "--rows", "40")
    assert result.exit_code == 0, result.output
    rows = corpus.store.read_table(first.path).to_pylist()
    for row in rows[:40]:
        assert f"  A: {row['document_ids'][0]}\n" in result.stdout
        how = "follows A" if row["is_next"] else "from another document"
        assert f"  B, {how}: {row['document_ids'][1]}\n" in result.stdout


def test_documents_of_a_row_are_apart_and_marks_are_not_text(corpus: Corpus) -> None:
    record = corpus.pack(packing={"mode": "document", "length": 256}, masking={"views": 0})
    [first, *_] = record.outputs_of(part="train", language="en")
    result = run(corpus.store.path(first.path), "--rows", "1")
    [row] = corpus.store.read_table(first.path).slice(0, 1).to_pylist()
    lines = result.stdout.splitlines()
    assert "tokens, no masks" in lines[4]
    assert [line.strip() for line in lines[5::2]] == row["document_ids"]
    assert "</s>" not in result.stdout and "<s>" not in result.stdout
    refused = run(corpus.store.path(first.path), "--view", "1")
    assert refused.exit_code == 2 and "row 0 has 0 stored view(s)" in refused.stderr


def test_another_vocabulary_is_refused_with_both_named(corpus: Corpus, tmp_path: Path) -> None:
    record = corpus.pack()
    [first, *_] = record.outputs_of(part="train", language="en")
    path = tmp_path / "spm.model"
    path.write_bytes(model())
    assert run(corpus.store.path(first.path), "--vocabulary", str(path)).exit_code == 0

    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model())
    proto.pieces[40].score -= 1
    path.write_bytes(proto.SerializeToString())
    result = run(corpus.store.path(first.path), "--vocabulary", str(path))
    assert result.exit_code == 1
    [used] = [o.sha256 for o in corpus.vocabulary if o.labels["part"] == "spm.model"]
    assert re.search(rf"sha256 {used}, read with that of sha256 [0-9a-f]{{64}}", result.stderr)

    del proto.pieces[290:]
    path.write_bytes(proto.SerializeToString())
    result = run(corpus.store.path(first.path), "--vocabulary", str(path))
    assert result.exit_code == 1
    assert "a vocabulary of 302 rows" in result.stderr and "one of 292 rows" in result.stderr

    path.write_bytes(b"nothing of the kind")
    result = run(corpus.store.path(first.path), "--vocabulary", str(path))
    assert result.exit_code == 2 and f"{path}: no vocabulary" in result.stderr


def test_a_file_outside_a_run_needs_the_vocabulary(corpus: Corpus, tmp_path: Path) -> None:
    record = corpus.pack()
    [first, *_] = record.outputs_of(part="train", language="en")
    moved = tmp_path / "moved.parquet"
    moved.write_bytes(corpus.store.read_bytes(first.path))
    result = run(str(moved))
    assert result.exit_code == 2
    assert "lies in no run" in result.stderr and "--vocabulary FILE" in result.stderr
    assert run(str(moved), "--rows", "0").exit_code == 0


def test_a_damaged_file_is_named_without_a_traceback(corpus: Corpus) -> None:
    record = corpus.pack()
    [first, *_] = record.outputs_of(part="train", language="en")
    path = Path(corpus.store.path(first.path))
    whole = path.read_bytes()
    for damaged in (whole[:-100], whole[:4] + bytes(5000) + whole[5004:], whole[4:], b""):
        path.write_bytes(damaged)
        result = run(str(path), "--rows", "3000")
        assert result.exit_code == 1
        assert str(path) in result.stderr and "Traceback" not in result.output
        assert isinstance(result.exception, SystemExit)


def test_a_flipped_bit_that_still_reads_is_found(corpus: Corpus) -> None:
    record = corpus.pack(masking={"views": 0})
    [first, *_] = record.outputs_of(part="train", language="sw")
    path = Path(corpus.store.path(first.path))
    whole, right = path.read_bytes(), corpus.store.read_table(first.path)
    for place in range(4, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        try:
            other = pq.read_table(pa.BufferReader(bytes(damaged)))
        except (OSError, pa.ArrowInvalid):
            continue
        if other["tokens"] != right["tokens"]:
            break
    path.write_bytes(damaged)
    result = run(str(path), "--rows", "3000")
    assert result.exit_code == 1 and str(path) in result.stderr and "damaged" in result.stderr


def test_what_is_no_packed_file_is_said(corpus: Corpus, tmp_path: Path) -> None:
    corpus.pack()
    documents = corpus.store.path(corpus.unique[0].path)
    result = run(documents)
    assert result.exit_code == 2
    assert "holds documents, not packed sequences" in result.stderr
    assert "`babelmill documents" in result.stderr
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"tokens": [[1, 2]]}), other)
    result = run(str(other))
    assert result.exit_code == 1 and "are not those of packed sequences" in result.stderr
    result = run("nowhere", "--store", corpus.store.url)
    assert result.exit_code == 2 and "no such run in the store" in result.stderr
    assert "for another store use --store" in result.stderr
    result = run("no/where.parquet", "--store", corpus.store.url)
    assert result.exit_code == 2 and "no such key in the store" in result.stderr
    assert "for another store use --store" in result.stderr


def test_text_cannot_act_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = Vocabulary(model())
    monkeypatch.setattr(Vocabulary, "token", lambda self, token_id: "▁a\x1b[31m\u202e\u2028b")
    assert shown_piece(50, vocabulary) == " a\\u001b[31m\\u202e\\u2028b"


def test_word_pieces_read_as_words(store: Store) -> None:
    corpus = with_record(make_corpus(store, kind="wordpiece"))
    record = corpus.pack(masking={"views": 0})
    [first, *_] = record.outputs_of(part="train", language="sw")
    result = run(corpus.store.path(first.path), "--rows", "1")
    assert result.exit_code == 0, result.output
    assert "##" not in result.stdout and "[CLS]" not in result.stdout
