"""The exit status of `babelmill documents`, what the terminal shows, and its pipes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.document_stages import shown_live
from flows.document_stats import drops_of
from flows.documents_command import Wanted, run_documents
from pipelines.core.manifest import StageRecord
from tests.flows.document_rows import WORDS, corpus, lines_of, sentence, write_rows
from tests.pipelines.sources.dump_files import FOOT, HEAD, page


def run_command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["documents", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def last_line(text: str) -> str:
    return text.rstrip("\n").rpartition("\n")[2]


def test_c06_a_dump_of_several_streams_and_its_exit_status(tmp_path: Path) -> None:
    """C06: both pages, exit 0; with trailing NULs both pages and a warning; cut: one page, 3."""
    draw = random.Random(5)
    texts = ["\n\n".join(sentence("de", draw) for _ in range(3)) for _ in range(2)]
    streams = [
        bz2.compress(HEAD.encode()),
        bz2.compress(page("Eins", texts[0], number=5).encode()),
        bz2.compress((page("Zwei", texts[1], number=6) + FOOT).encode()),
    ]
    whole = b"".join(streams)
    cut = whole[: -len(streams[2]) // 2]
    results = {}
    for name, content in (("whole", whole), ("nuls", whole + bytes(3)), ("cut", cut)):
        path, out = tmp_path / f"{name}.xml.bz2", tmp_path / f"{name}.jsonl"
        path.write_bytes(content)
        status, shown, _ = run_command(str(path), "-o", str(out))
        results[name] = (status, [row["title"] for row in lines_of(out)])
        if name == "whole":
            assert "incomplete" not in shown
        else:
            assert last_line(shown).startswith(f"incomplete: {path} is damaged or cut off")
    assert results == {
        "whole": (0, ["Eins", "Zwei"]),
        "nuls": (3, ["Eins", "Zwei"]),  # three bytes that are nothing: nobody knows what they were
        "cut": (3, ["Eins"]),
    }


def test_a_dump_without_its_end_is_incomplete_unless_a_limit_stopped_it(tmp_path: Path) -> None:
    """C06's kind: no bytes are lost of a plain file, and its last line is missing all the same."""
    draw = random.Random(8)
    pages = [page(f"T{n}", sentence("de", draw), number=n) for n in range(1, 6)]
    path, out = tmp_path / "d.xml", tmp_path / "out.jsonl"
    path.write_text(HEAD + "".join(pages))
    arguments = (str(path), "-o", str(out), "--overwrite", "--set", "filters=[]")
    status, shown, _ = run_command(*arguments)
    assert status == 3 and "truncated_dump 1" in last_line(shown) and len(lines_of(out)) == 5
    status, shown, _ = run_command(*arguments, "--limit", "2")
    assert status == 0 and len(lines_of(out)) == 2 and "stopped at the limit" in shown


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", corpus(4)), tmp_path / "out.jsonl"
    stats = run_documents([str(rows), str(tmp_path / "r*.jsonl")], Wanted(str(out)))
    assert stats.counters["pages"] == 60


def wet_record(number: int, body: bytes) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://x.test/{number}\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + body + b"\r\n\r\n", mtime=0)


@pytest.mark.parametrize(("cut", "status"), [(0, 0), (30, 3), (4, 3)])
def test_c01_the_last_member_is_cut_off(tmp_path: Path, cut: int, status: int) -> None:
    """C01: A and B come out whole, C does not come out empty, and the exit status says it."""
    draw = random.Random(6)
    bodies = ["\n".join(sentence("de", draw) for _ in range(3)) for _ in range(3)]
    path, out = tmp_path / "three.warc.wet.gz", tmp_path / "out.jsonl"
    content = b"".join(wet_record(n, body.encode()) for n, body in enumerate(bodies))
    path.write_bytes(content[: len(content) - cut])
    found, shown, _ = run_command(str(path), "-o", str(out), "--set", "filters=[]")
    texts = [row["text"] for row in lines_of(out)]
    assert found == status
    assert texts == [body.replace("\n", "\n\n") for body in (bodies[:2] if cut else bodies)]
    line = f"incomplete: {path} is damaged or cut off (bytes_lost"
    assert last_line(shown).startswith(line) == bool(cut)
    assert ("truncated_record 1" in last_line(shown)) == bool(cut)


def test_a_record_cut_in_a_plain_archive_and_two_damaged_files_are_named(tmp_path: Path) -> None:
    """C01's kind: no packed bytes are lost, and the file is cut all the same."""
    draw = random.Random(7)
    plain = b"".join(
        gzip.decompress(wet_record(n, sentence("de", draw).encode())) for n in range(3)
    )
    paths = [tmp_path / "a.wet", tmp_path / "b.wet", tmp_path / "c.wet"]
    for path, content in zip(paths, (plain[:-30], plain, plain[:-9]), strict=True):
        path.write_bytes(content)
    status, shown, _ = run_command(*map(str, paths), "-o", str(tmp_path / "out.jsonl"))
    line = last_line(shown)
    assert status == 3 and line.startswith("incomplete: ")
    assert str(paths[0]) in line and str(paths[1]) not in line and str(paths[2]) in line


def test_exit_status_of_what_is_refused(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", corpus(1)), tmp_path / "o.jsonl"
    for arguments, expected, words in (
        ([str(rows), "-o", str(out), "--set", "extraction.min_charakters=1"], 2, "min_charakters"),
        ([str(rows), "-o", str(out), "--languages", "xx"], 2, "'xx' is not a language"),
        ([str(rows), "-o", str(out), "--preset", "dmeo"], 2, "dmeo"),
        ([str(rows), "-o", str(rows)], 2, "exists"),
        ([str(rows), "-o", str(out), "--limit", "0"], 2, "limit"),
        ([str(rows), str(tmp_path / "absent.jsonl"), "-o", str(out)], 1, "absent.jsonl"),
    ):
        status, _, said = run_command(*arguments)
        assert (status, words in said) == (expected, True), said
    empty, broken = tmp_path / "empty.jsonl", tmp_path / "broken.parquet"
    empty.touch()
    broken.write_bytes(b"PAR1 not really")
    status, _, said = run_command(str(empty), str(rows), str(broken), "-o", str(out))
    assert status == 1 and "empty.jsonl" in said and "broken.parquet" in said
    assert not out.exists()


@pytest.mark.parametrize("settings", [[], ["perplexity.enabled=true"]])
def test_when_nothing_passes_the_filters_the_table_says_why(
    tmp_path: Path, settings: list[str]
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ["Nur ein kurzer Satz, sonst nichts."] * 3)
    out, rejects = tmp_path / "out.parquet", tmp_path / "rejects.jsonl"
    given = [part for line in settings for part in ("--set", line)]
    status, shown, _ = run_command(str(rows), "-o", str(out), "--rejects", str(rejects), *given)
    assert status == 0 and "0 documents in" in shown and "too_short" in shown
    assert pq.read_table(out).num_rows == 0
    assert [row["reason"] for row in lines_of(rejects)] == ["too_short"] * 3
    status, shown, _ = run_command(
        str(rows), "-o", str(out), "--overwrite", "--languages", "fi", "--rejects", str(rejects)
    )
    assert status == 0 and "extract: language" in shown and lines_of(rejects) == []


def test_standard_output_may_be_closed_early(tmp_path: Path) -> None:
    """`babelmill documents … -o - | head -1` ends well and without a traceback."""
    rows = write_rows(tmp_path / "rows.jsonl", [t * 20 for t in corpus(3, 400)])
    code = "from flows.cli import main; main()"
    command = [sys.executable, "-c", code, "documents", str(rows), "-o", "-"]
    settings = ["--set", "filters=[]", "--set", "deduplication.paragraphs=false"]
    reading, writing = os.pipe()
    with subprocess.Popen(
        [*command, *settings], stdout=writing, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            first = pipe.readline()
        _, said = process.communicate()
    assert first, said
    assert json.loads(first)["offset"] == 0
    assert process.returncode == 0 and "Traceback" not in said and "BrokenPipe" not in said, said


def test_standard_input_leaves_no_trace_of_where_its_copy_lay(tmp_path: Path) -> None:
    text = WORDS["de"].capitalize() + "."
    contents = []
    for name in ("a.jsonl", "b.jsonl"):
        status = CliRunner().invoke(
            app, ["documents", "-", "-o", str(tmp_path / name)], input=text.encode()
        )
        assert status.exit_code == 0, status.output
        contents.append((tmp_path / name).read_bytes())
    [row] = lines_of(tmp_path / "a.jsonl")
    assert contents[0] == contents[1] and (row["shard"], row["url"]) == ("standard input", "-")


def test_reasons_are_counted_by_stage_unit_and_language() -> None:
    def record(stage: str, counters: dict[str, int]) -> StageRecord:
        return StageRecord(
            stage=stage,
            binding_id="",
            manifests=[],
            outputs=[],
            counters=counters,
            seconds=0,
            units=1,
            reused=0,
        )

    drops = drops_of(
        {
            "extract": record("extract", {"dropped.too_short": 2, "lost.cut": 1, "pages": 9}),
            "filter": record("filter", {"rejected.x": 3, "rejected.x/de": 2, "rejected.x/fr": 1}),
            "deduplicate": record(
                "deduplicate", {"dropped_paragraphs.duplicate/de": 4, "documents/de": 5}
            ),
        }
    )
    assert [(d.stage, d.reason, d.number, d.languages) for d in drops] == [
        ("extract", "too_short", 2, {}),
        ("extract", "lost: cut", 1, {}),
        ("filter", "x", 3, {"de": 2, "fr": 1}),
        ("deduplicate", "duplicate (paragraphs)", 4, {"de": 4}),
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.document_stages.SECONDS_BETWEEN", 0.01)
    for screen in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", screen)
        with shown_live(lambda: "reading a.warc.gz: 1,234 pages"):
            for _ in range(500):
                if "pages" in screen.getvalue():
                    break
                time.sleep(0.01 if isinstance(screen, Terminal) else 0.0001)
        shown = screen.getvalue()
        if isinstance(screen, Terminal):
            assert "reading a.warc.gz: 1,234 pages" in shown and shown.endswith("\r\x1b[K")
        else:
            assert shown == ""
