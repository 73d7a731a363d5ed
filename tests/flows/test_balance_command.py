"""`babelmill balance` on any file of counts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.counts_file import read_counts
from model.data.sample_plan import Phase, SamplePlan
from model.data.sample_usage import usage_of
from pipelines.config import BalanceSection
from pipelines.core.config import ConfigError
from pipelines.rebalance import balance_table

TINY = "en,1000000\nsw,10000\nyo,1\n"
THREE = {"a": 900, "b": 90, "c": 10}


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["balance", *arguments], input=given)


def rows_of(*arguments: str, given: str | None = None) -> list[dict[str, Any]]:
    result = run("-", "--json", *arguments, given=given)
    assert result.exit_code == 0, result.stderr
    return list(json.loads(result.stdout)["plans"][0]["rows"])


def write(tmp_path: Path, content: str, name: str = "counts.csv") -> str:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_the_exponent_with_one_tiny_language() -> None:
    rows = rows_of("--alpha", "0.3", "--draws", "10000", given=TINY)
    assert [row["q"] for row in rows] == pytest.approx([0.78924, 0.19825, 0.01251], abs=5e-6)
    assert sum(row["q"] for row in rows) == pytest.approx(1, abs=1e-9)
    assert [row["draws"] for row in rows] == [7892, 1983, 125]
    assert rows[2]["repeats"] == pytest.approx(125.09, abs=0.005)
    assert [(row["once"], row["repeated"], row["never"]) for row in rows] == [
        (7892, 0, 992_108),
        (1983, 0, 8017),
        (0, 1, 0),
    ]


def test_the_terminal_says_unit_shares_repeats_draws_and_who_is_seen_often(tmp_path: Path) -> None:
    name = write(tmp_path, "language,sentences\n" + TINY + "xx,0\n")
    result = run(name, "--draws", "10000")
    assert result.exit_code == 0 and result.stderr == ""
    text = result.stdout
    assert "n counts sentences. Repeats are of a text in 10,000 draws; no cap on repeats." in text
    assert re.search(r"en +1,000,000 +99\.010 % +78\.924 % +0\.01 +7,892 ", text)
    assert re.search(r"yo +1 +9\.9e-05 % +1\.251 % +125\.09 +125 +o─+● *$", text, re.M)
    assert re.search(r"all 3 +1,010,001 +100\.000 % +100\.000 % +10,000", text)
    assert "yo (125.09 times)" in text
    assert "of 1,010,001 texts: once 9,875, repeated 1, never 1,000,125" in text
    assert "left out, 0 sentences (1): xx" in text
    assert "…" not in text and max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("alpha", "wanted"),
    [("0.3", [0.5680, 0.2847, 0.1473]), ("1", [0.9, 0.09, 0.01]), ("0", [1 / 3, 1 / 3, 1 / 3])],
)
def test_three_languages_under_several_exponents(alpha: str, wanted: list[float]) -> None:
    rows = rows_of("--alpha", alpha, given=json.dumps(THREE))
    assert [row["q"] for row in rows] == pytest.approx(wanted, abs=5e-5)


def test_exponents_are_compared_side_by_side() -> None:
    result = run("-", "--alpha", "0.3", "--alpha", "1", "--alpha", "0", given=json.dumps(THREE))
    assert re.search(r"b +90 +9\.000 % +28\.4\d+ % +3\.16 +9\.000 % +1\.00 +33\.3", result.stdout)
    assert "…" not in result.stdout
    tree = json.loads(
        run("-", "--alpha", "0.3", "--alpha", "1", "--json", given=json.dumps(THREE)).stdout
    )
    assert [plan["alpha"] for plan in tree["plans"]] == [0.3, 1.0]


def test_a_cap_and_a_weight_are_kept_and_said() -> None:
    result = run("-", "--max-repeats", "2", "--weight", "b=0.1", given=json.dumps(THREE))
    assert re.search(r"c +10 +1\.000 % +2\.000 % +2\.00\* +20", result.stdout)
    assert re.search(r"b +90 +9\.000 % +10\.000 % +1\.11 +100", result.stdout)
    assert "* held at 2 repeats (1): c" in result.stdout
    assert "set by hand (1): b" in result.stdout


def test_the_draws_are_those_of_a_sample_plan_of_that_length() -> None:
    counts = {"fi": 30, "en": 500, "sw": 7, "zh-Hans": 123}
    rows = rows_of("--alpha", "0.5", "--draws", "777", given=json.dumps(counts))
    shares = {row["language"]: row["q"] for row in rows}
    plan = SamplePlan(counts, [Phase(777, shares)], seed=3)
    wanted = {use.language: (use.draws, use.once, use.repeated) for use in usage_of(plan, 777)}
    assert {r["language"]: (r["draws"], r["once"], r["repeated"]) for r in rows} == wanted


def test_a_share_too_small_for_a_draw_is_named() -> None:
    given = json.dumps({"en": 10**9, "fi": 1})
    result = run("-", "--alpha", "1", "--draws", "1000", given=given)
    assert "never drawn, too small a share (1): fi" in result.stdout


@pytest.mark.parametrize(
    ("content", "unit"),
    [
        ("en,5\nsw,3\n", "texts"),
        ("en\t5\r\nsw\t3\r\n", "texts"),
        ("\ufeffLanguage; Documents\nen;5\n\nsw;3\n", "documents"),
        ("language,n\nen,5\nsw,3", "texts"),
        ("name,code,bytes,sentences\nEnglish,en,50,5\nSwahili,sw,30,3\n", "sentences"),
        ('{"en": 5, "sw": 3}', "texts"),
        ('{"en": {"bytes": 50, "sentences": 5}, "sw": {"bytes": 9, "sentences": 3}}', "sentences"),
        ('[{"language": "en", "count": 5}, {"lang": "sw", "count": "3"}]', "texts"),
        ('{"counters": {"sentences/en": 5, "sentences/sw": 3, "dropped.x/en": 9}}', "sentences"),
    ],
)
def test_every_form_of_counts_is_read(tmp_path: Path, content: str, unit: str) -> None:
    found = read_counts(write(tmp_path, content))
    assert (found.counts, found.unit) == ({"en": 5, "sw": 3}, unit)


def test_a_runs_own_table_is_read_with_the_languages_it_left_out(tmp_path: Path) -> None:
    sizes = {
        tag: {"documents": n, "sentences": 10 * n, "characters": 99 * n, "bytes": 100 * n}
        for tag, n in {"en": 50, "sw": 5, "yo": 1}.items()
    }
    name = write(tmp_path, json.dumps(balance_table(BalanceSection(), sizes)), "balance.json")
    assert read_counts(name).counts == {"en": 500, "sw": 50, "yo": 10}
    assert read_counts(name, "bytes").counts == {"en": 5000, "sw": 500, "yo": 100}
    assert "also counted there: documents, characters, bytes (--unit)" in run(name).stdout


def test_one_unnamed_count_takes_the_name_it_is_given(tmp_path: Path) -> None:
    assert read_counts(write(tmp_path, TINY), "documents").unit == "documents"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("en,5\nsw,12x\n", r"counts\.csv, line 2: count = '12x' is not a count"),
        ("en,12x\nsw,5\n", r"line 1: count = '12x'"),
        ("en,5\nsw,-3\n", r"line 2: count = '-3' .* 0 or more"),
        ("en,5\nsw,2.5\n", r"line 2: count = '2\.5'"),
        ("en,5\nsw\n", r"line 2: 1 columns in \['sw'\]; need language, count"),
        ("en,5\n\nen,6\n", r"line 3: 'en' was there already: .*line 1"),
        ("en,5\n,6\n", r"line 2: '' is not a language"),
        ("en\n", r"line 1: 'en'; need a language and a count"),
        ("en,5,6\n", "3 columns; need a header"),
        ("language,a,a\nen,5,6\n", "a column is named twice"),
        ("language,count\n", "a header and no line of counts"),
        ("language,words,lines\nen,5,6\n", "several counts, words, lines: choose one with --unit"),
        ("language,sentences,bytes\nen,5,6\nsw,x,7\n", "line 3: sentences = 'x' is not a count"),
        (" \n", "empty; need"),
        ('{"en": 5, "sw": true}', "'sw': count = True is not a count"),
        ('{"en": 5, "en": 6}', "'en' is there twice"),
        ('{"en": 5,\n "sw" 6}', "line 2: not JSON"),
        ('[{"language": "en", "count": 5}, 7]', "entry 2: 7; need"),
        ('[{"language": "en", "sentences": 5}, {"language": "sw"}]', "entry 2: no count"),
        ("{}", "no counts by language"),
    ],
)
def test_bad_input_is_named_by_file_line_and_value(
    tmp_path: Path, content: str, message: str
) -> None:
    name = write(tmp_path, content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_counts(name)
    assert name in str(caught.value)
    result = run(name)
    assert result.exit_code == 2 and result.stdout == "" and "error: " in result.stderr


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "none.csv: cannot be read: No such file" in run(str(tmp_path / "none.csv")).stderr
    latin = tmp_path / "latin.csv"
    latin.write_bytes(b"en,5\n\xe9,6\n")
    assert "latin.csv: byte 5 is not UTF-8" in run(str(latin)).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weight", "sv=0.1"], "weights: 'sv' has no text; did you mean 'sw'"),
        (["--weight", "sw=1.5"], "--weight 'sw=1.5': write language=share"),
        (["--weight", "sw"], "--weight 'sw': write"),
        (["--weight", "sw=0.6", "--weight", "en=0.6"], "weights sum to 1.2, above 1"),
        (["--weight", "sw=0.5", "--weight", "en=0.5"], "leave nothing for yo"),
        (["--weight", "sw=0.5", "--weight", "sw=0.1"], "has a weight already"),
        (["--unit", "byts"], ""),
        (["--draws", "100000000", "--max-repeats", "2"], "need more than 2.0 repeats"),
        (["--png", "nowhere/at/all.png"], "--png nowhere/at/all.png: No such file"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], message: str) -> None:
    result = run("-", *options, given=TINY)
    if message:
        assert result.exit_code == 2 and message in result.stderr
    else:  # a single unnamed count takes any name
        assert result.exit_code == 0


def test_a_unit_that_is_not_there_has_its_nearest_named(tmp_path: Path) -> None:
    name = write(tmp_path, "language,sentences,bytes\nen,5,6\n")
    assert "--unit 'byts'" in run(name, "--unit", "byts").stderr
    assert "did you mean 'bytes'?" in run(name, "--unit", "byts").stderr


def test_languages_without_text_alone_are_refused() -> None:
    result = run("-", given="en,0\nsw,0\n")
    assert result.exit_code == 2 and "every language has 0 texts: en, sw" in result.stderr


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "shares.png"
    assert run("-", "--png", str(path), given=json.dumps(THREE)).exit_code == 0
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 10_000


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from flows.cli import app\n"
        f"app(['balance', {write(tmp_path, TINY)!r}, '--draws', '100'], standalone_mode=False)\n"
        "heavy = {'torch', 'ray', 'prefect', 'matplotlib', 'datasets', 'sentencepiece'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
