"""`babelmill documents`: files in, documents and figures out, and nothing half-written."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows import document_stages
from flows.documents_command import UnreadableInput, Wanted, run_documents
from pipelines.core.config import ConfigError
from pipelines.core.records import DOCUMENT_SCHEMA, REJECT_SCHEMA

GERMAN = [
    "Der Zug nach Hamburg fährt heute wegen der Bauarbeiten eine halbe Stunde später ab. "
    "Die Reisenden warten auf dem Bahnsteig und trinken Kaffee aus kleinen Bechern.",
    "Im Garten hinter dem Haus wachsen Äpfel, Birnen und einige alte Kirschbäume. "
    "Im Herbst kommen die Nachbarn vorbei und helfen bei der Ernte der Früchte.",
]
RUSSIAN = (
    "Вечером вся семья собирается за большим столом, и бабушка рассказывает внукам старые истории. "
    "За окном идёт снег, а в доме тепло и пахнет свежим хлебом."
)
SHORT = "Nur ein kurzer Satz, sonst nichts."


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    texts = [GERMAN[0], RUSSIAN, SHORT, GERMAN[0].upper(), GERMAN[1], GERMAN[0]]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_file_becomes_documents_rejects_and_figures(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, rejects = tmp_path / "out.jsonl", tmp_path / "rejects.jsonl"
    stats = run_documents([str(rows)], Wanted(str(out), rejects=str(rejects)))
    kept = lines_of(out)
    assert [row["text"] for row in kept] == [GERMAN[0], RUSSIAN, GERMAN[1]]
    assert [row["offset"] for row in kept] == [0, 1, 4]
    assert [row["language"] for row in kept] == ["de", "ru", "de"]
    assert list(kept[0]) == [name for name in DOCUMENT_SCHEMA.names if name != "paragraph_offsets"]
    dropped = {row["offset"]: row["reason"] for row in lines_of(rejects)}
    assert dropped[5] == "duplicate_documents" and dropped[2] == "too_short"
    assert dropped[3] in ("duplicate_documents", "near_duplicates")  # case alone is no difference
    assert len(dropped) == 3 and sum(drop.number for drop in stats.drops) == 3
    assert [drop.languages for drop in stats.drops if drop.reason == "too_short"] == [{"de": 1}]
    shown = capsys.readouterr().out
    assert "6 pages read" in shown and "duplicate_documents" in shown and "3 documents in" in shown
    assert "near-duplicates: " in shown and "language_score: " in shown  # the stages' own notes
    assert not list(tmp_path.glob(".*"))


def test_parquet_has_the_schemas_of_the_corpus(rows: Path, tmp_path: Path) -> None:
    out, rejects = tmp_path / "out.parquet", tmp_path / "rejects.parquet"
    run_documents([str(rows)], Wanted(str(out), rejects=str(rejects)))
    assert pq.read_schema(out).equals(DOCUMENT_SCHEMA)
    assert pq.read_schema(rejects).equals(REJECT_SCHEMA)
    assert pq.read_table(out)["offset"].to_pylist() == [0, 1, 4]


def test_languages_settings_and_a_limit_are_obeyed(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    stats = run_documents([str(rows)], Wanted(str(out)), languages=["ru"])
    assert [row["language"] for row in lines_of(out)] == ["ru"]
    assert stats.counters["dropped.language"] == 5
    stats = run_documents([str(rows)], Wanted(str(out), limit=2, overwrite=True))
    assert len(lines_of(out)) == 2 and stats.stopped == [str(rows)]
    assert stats.counters["pages"] == 2
    settings = tmp_path / "mine.toml"
    settings.write_text("filters = []\n")
    stats = run_documents([str(rows)], Wanted(str(out), overwrite=True), file=settings)
    assert {row["offset"] for row in lines_of(out)} == {0, 1, 2, 4}
    wanted = Wanted(str(out), overwrite=True)
    run_documents([str(rows)], wanted, settings=["extraction.min_characters=170"])
    assert all(len(str(row["text"])) >= 170 for row in lines_of(out))


def test_a_language_that_is_none_is_refused(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.languages.*not a language tag"):
        run_documents([str(rows)], Wanted(str(tmp_path / "o.jsonl")), languages=["no tag!"])


def test_several_inputs_share_one_search_for_duplicates(rows: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text(GERMAN[1])
    out = tmp_path / "out.jsonl"
    stats = run_documents([str(other), str(rows)], Wanted(str(out)))
    # Which of equals stays is the stage's to say: that of the first file by name.
    names = [Path(str(row["shard"])).name for row in lines_of(out)]
    assert names == ["other.txt", "rows.jsonl", "rows.jsonl"]
    assert stats.dropped("duplicate_documents") + stats.dropped("near_duplicates") == 3


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("{}/rows.jsonl", "exists.*--overwrite"),
        ("{}", "is a folder"),
        ("{}/no/out.jsonl", "there is no folder"),
        ("{}/out.txt", r"end the name in \.jsonl or \.parquet"),
        ("s3://bucket/out.jsonl", "not to an address"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_work(
    rows: Path, tmp_path: Path, output: str, problem: str
) -> None:
    before = rows.read_bytes()
    with pytest.raises(ConfigError, match=problem):
        run_documents([str(rows)], Wanted(output.format(tmp_path)))
    assert rows.read_bytes() == before and sorted(tmp_path.iterdir()) == [rows]


def test_a_wrong_setting_is_refused(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="min_charakters"):
        run_documents(
            [str(rows)], Wanted(str(tmp_path / "o.jsonl")), settings=["extraction.min_charakters=1"]
        )


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("absent.jsonl", None, r"absent\.jsonl: no such file"),
        ("a.warc.wat.gz", b"x", "a WAT file"),
        ("broken.parquet", b"PAR1 not really", "not a whole Parquet file"),
        ("error.warc.gz", gzip.compress(b"<html>503</html>", mtime=0), r"error\.warc\.gz"),
        ("empty.jsonl", b"", r"empty\.jsonl.*nothing in it was recognised"),
        ("fields.jsonl", b'{"body": "x"}\n', r"fields\.jsonl.*no field 'text'"),
        ("cut.txt.gz", gzip.compress(b"Ein Text.", mtime=0)[:-9], r"cut\.txt\.gz.*ends early"),
    ],
)
def test_an_input_that_cannot_be_read_is_named_and_leaves_nothing(
    rows: Path, tmp_path: Path, name: str, content: bytes | None, problem: str
) -> None:
    path, out = tmp_path / name, tmp_path / "out.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableInput, match=problem):
        run_documents([str(rows), str(path)], Wanted(str(out)))
    assert not out.exists() and not list(tmp_path.glob(".*"))


def test_damage_is_survived_and_noted(
    tmp_path: Path, rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "cut.jsonl.gz", tmp_path / "out.jsonl"
    path.write_bytes(gzip.compress(rows.read_bytes(), mtime=0)[:-6])
    stats = run_documents([str(path)], Wanted(str(out)))
    assert len(lines_of(out)) == 3
    assert stats.damage == {str(path): {"truncated_file": 1}}
    assert "cut.jsonl.gz" in capsys.readouterr().out.replace("\n", "")


@pytest.fixture
def server(rows: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=str(rows.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()


def test_a_url_is_fetched(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    run_documents([f"{server}/rows.jsonl"], Wanted(str(out)))
    # As the source `local_files` names it, so that a run gives the same ids.
    name = f"{server}/rows.jsonl".removeprefix("http://")
    assert {row["shard"] for row in lines_of(out)} == {name}
    with pytest.raises(UnreadableInput, match=rf"{server}/absent\.jsonl.*404"):
        run_documents([f"{server}/absent.jsonl"], Wanted(str(out), overwrite=True))
    assert len(lines_of(out)) == 3


def test_a_url_that_does_not_tell_its_format_is_looked_into(
    server: str, rows: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_bytes(gzip.compress(rows.read_bytes()))
    (tmp_path / "archive").write_bytes(b"PK\x03\x04" + bytes(100))
    out = tmp_path / "out.jsonl"
    run_documents([f"{server}/rows"], Wanted(str(out)))
    assert [row["offset"] for row in lines_of(out)] == [0, 1, 4]
    with pytest.raises(UnreadableInput, match=rf"{server}/archive is a ZIP archive"):
        run_documents([f"{server}/archive"], Wanted(str(out), overwrite=True))


def test_standard_input_and_output(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    packed = io.TextIOWrapper(io.BytesIO(gzip.compress(rows.read_bytes())))
    monkeypatch.setattr(sys, "stdin", packed)
    run_documents(["-"], Wanted("-"))
    shown = capfdbinary.readouterr()
    found = [json.loads(line) for line in shown.out.splitlines()]
    assert [row["offset"] for row in found] == [0, 1, 4]
    assert {row["shard"] for row in found} == {"standard input"}
    assert b"3 documents in" in shown.err


def test_an_interrupt_leaves_nothing(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(document_stages, "extract_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_documents([str(rows)], Wanted(str(tmp_path / "out.jsonl")))
    assert sorted(tmp_path.iterdir()) == [rows]


def test_the_same_input_gives_the_same_bytes(rows: Path, tmp_path: Path) -> None:
    contents = []
    for name in ("a.parquet", "b.parquet"):
        run_documents([str(rows)], Wanted(str(tmp_path / name)))
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("crawl/commoncrawl/CC-MAIN-20200808*head50.warc.gz", {"zh-Hans", "ru", "de", "nl"}),
        ("crawl/commoncrawl/CC-MAIN-20140820*.warc.wet", {"en"}),
        ("wiki/bgwiki-latest-pages-articles-shortened.xml.bz2", {"bg"}),
    ],
)
def test_real_files(shared_data: Path, tmp_path: Path, name: str, languages: set[str]) -> None:
    out = tmp_path / "out.jsonl"
    run_documents([str(shared_data / name)], Wanted(str(out)))
    found = lines_of(out)
    assert languages <= {str(row["language"]) for row in found}
    for row in found:
        text = str(row["text"])
        assert row["url"] and "{{" not in text and "[[" not in text


def test_every_real_crawl_file_is_read_or_refused_by_name(
    shared_data: Path, tmp_path: Path
) -> None:
    """Damaged, foreign and odd files: an answer that names the file, never another error."""
    files = sorted((shared_data / "crawl" / "edge").rglob("*arc*"))
    assert len(files) > 100
    read = 0
    for path in (path for path in files if path.is_file()):
        try:
            run_documents([str(path)], Wanted(str(tmp_path / "o.jsonl"), overwrite=True))
        except UnreadableInput as error:
            assert path.name in str(error)
        else:
            read += 1
    assert read > 20


def test_the_command_needs_no_cluster() -> None:
    code = "import sys, flows.documents_command as d; print({'ray', 'prefect'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
