"""Counts that a spreadsheet wrote with separators or in UTF-16: named, never passed over."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.count_values import number
from flows.counts_file import read_counts
from pipelines.core.config import ConfigError


def written(tmp_path: Path, content: str) -> str:
    path = tmp_path / "counts.csv"
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            'language,sentences,bytes\nen,"1,000,000",5000000\nsw,"1,000",900\n',
            "line 2: sentences = '1,000,000' is not a count; .* write 1000000$",
        ),
        (
            "language;sentences;bytes\nde;1.000.000;12\nsw;1.000;9\n",
            "line 2: sentences = '1.000.000' .* write 1000000$",
        ),
        ("language;sentences;bytes\nsw;1.000;9\n", "line 2: sentences = '1.000' .* write 1000$"),
        ("language,tokens,bytes\nen,5.5,12\n", "line 2: tokens = '5.5' is not a count"),
        ("language,tokens,bytes\nen,7,12\nsw,about 9,3\n", "line 3: tokens = 'about 9'"),
        ("language;Zeilen;bytes\nde;1.000.000;12\n", "line 2: zeilen = '1.000.000'"),
        ('language,mine,bytes\nen,"1,000",12\n', "line 2: mine = '1,000' .* write 1000$"),
        ("language;mine;bytes\nfr;1\u202f000;12\n", "line 2: mine = .* write 1000$"),
        ("language,sentences,bytes\nen,,12\n", "line 2: sentences = '' is not a count"),
        ("en;1,000\n", "line 1: count = '1,000' .* write 1000$"),
        ('{"en": {"sentences": "1,000", "bytes": 9}}', "'en': sentences = '1,000' .* write 1000$"),
        ('[{"language": "en", "tokens": 1.5, "bytes": 9}]', "entry 1: tokens = 1.5"),
    ],
)
def test_a_column_of_counts_that_cannot_be_read_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_counts(written(tmp_path, content))


def test_the_column_that_is_asked_for_is_read_or_refused(tmp_path: Path) -> None:
    name = written(tmp_path, 'language,sentences,bytes\nen,"1,000",5\n')
    assert read_counts(name, "bytes").counts == {"en": 5}
    with pytest.raises(ConfigError, match="line 2: sentences = '1,000' .* write 1000$"):
        read_counts(name, "sentences")


def test_columns_that_hold_no_counts_are_passed_over(tmp_path: Path) -> None:
    content = "language,name,ratio,documents,bytes\nen,English,1.234,,12\nsw,A. 100,0.5,,9\n"
    found = read_counts(written(tmp_path, content))
    assert (found.counts, found.unit) == ({"en": 12, "sw": 9}, "bytes")


@pytest.mark.parametrize("value", ["1.5", "1,00", "1,0000", "-1,000", "x,000", "1e6"])
def test_only_groups_of_three_digits_are_said_to_be_separated(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        number("here", value)
    assert "write" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "counts.txt"
    path.write_text("language\tsentences\r\nen\t5\r\n", encoding=encoding)
    result = CliRunner().invoke(app, ["balance", str(path)])
    assert result.exit_code == 2
    assert "counts.txt: looks like UTF-16" in result.stderr and "save it as UTF-8" in result.stderr
