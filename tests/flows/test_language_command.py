"""`babelmill language`, through the real model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from flows.language_command import SHOWN_CHARACTERS, language
from tests.pipelines.identify_language.fasttext_format import write_model

app = typer.Typer()
app.command()(language)


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=given)


def test_each_text_has_one_line_of_five_columns() -> None:
    result = run("Uma boa experiencia", "Das ist ein Haus am See.\nEs ist groß.")
    assert result.exit_code == 0 and result.stderr == ""
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["pt", "de"] and all(len(row) == 5 for row in rows)
    assert all(0.5 <= float(row[1]) <= 1 and float(row[1]) > float(row[3]) for row in rows)
    assert rows[0][2] not in ("pt", "") and rows[1][4] == "Das ist ein Haus am See. Es ist groß."


def test_a_dash_reads_lines() -> None:
    result = run(
        "-", "Où est la gare, s'il vous plaît ?", given="Wo ist der Bahnhof?\r\n\nУ нас всё хорошо."
    )
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["de", "und", "ru", "fr"]


@pytest.mark.parametrize("text", ["", "42 😀", "https://a.example/b", "a!"])
def test_text_without_words_is_und_and_says_why(text: str) -> None:
    result = run(text)
    assert result.exit_code == 0
    assert result.stdout.startswith("und\t0.000\tund\t0.000\t(no words in it")


def test_below_the_threshold_the_guess_is_the_runner_up() -> None:
    result = run("--min-score", "1", "Uma boa experiencia de vida")
    label, score, second, second_score, about = result.stdout.rstrip("\n").split("\t")
    assert (label, second, score) == ("und", "pt", second_score)
    assert about == "(the best guess is under 1.0) Uma boa experiencia de vida"


def test_a_long_text_is_shown_in_part() -> None:
    about = run("Das ist ein Haus. " * 20).stdout.rstrip("\n").split("\t")[4]
    assert len(about) == SHOWN_CHARACTERS and about.endswith("…")


def test_a_model_file_is_used_and_its_checksum_said(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    sha256 = write_model(path, {"swh_Latn": ["nyumba"], "als_Latn": ["shtëpia"]})
    found = run("--model-file", str(path), "nyumba nyumba", "shtëpia shtëpia")
    assert [line.split("\t")[0] for line in found.stdout.splitlines()] == ["sw", "sq"]
    assert found.stderr == f"note: sha256 = {sha256}\n"
    pinned = run("--model-file", str(path), "--sha256", sha256, "nyumba nyumba")
    assert pinned.stdout.startswith("sw\t") and pinned.stderr == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "lid176"], "--model 'lid176' is not one of lid.176, py3langid, heliport"),
        (["--model", "heliport", "--model-file", "x"], "give one of them"),
        (["--sha256", "0" * 64], "--sha256 belongs to --model-file"),
        (["--model-file", "/no/such.bin"], "--model-file '/no/such.bin': No such file"),
        (["--model-file", "s3://bucket/m.bin"], "a URL needs --sha256"),
        (["--model-file", "x", "--sha256", "abc"], "sha256: String should match pattern"),
        (["--model-file", __file__, "--sha256", "0" * 64], "and language_identification.sha256"),
        (["--model-file", __file__], "not a fastText classifier"),
    ],
)
def test_a_bad_model_is_one_message_and_status_2(options: list[str], message: str) -> None:
    result = run(*options, "Ein Text.")
    errors = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
    assert result.exit_code == 2 and result.stdout == ""
    assert len(errors) == 1 and errors[0].startswith("error: ") and message in errors[0]


def test_a_model_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.identify_language import models

    models._load.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    result = run("--model", "py3langid", "Ein Text.")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1 and "pip install 'babelmill[py3langid]'" in result.stderr
    assert result.stdout == ""
