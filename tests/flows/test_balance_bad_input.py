"""`babelmill balance` on files and options that are wrong: one line, status 2, no traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from flows.balance_plan import MOST_DRAWS, plan_of
from flows.cli import app
from flows.count_values import LARGEST_COUNT
from flows.counts_file import LARGEST_FILE, Counts, read_counts
from pipelines.core.config import ConfigError
from pipelines.core.languages import normalise

TINY = "en,1000000\nsw,10000\nyo,1\n"


def run(*arguments: str, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["balance", *arguments], input=given)


def write(tmp_path: Path, content: str, name: str = "counts.csv") -> str:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"en,{'9' * 400}\nsw,5\n", r"line 1: count = '9+… is too large for a count"),
        (f"sw,5\nen,{'9' * 5000}\n", r"line 2: count = '9+… is too large for a count"),
        (f"sw,5\nen,-{'9' * 5000}\n", r"line 2: count = '-9+… is not a count"),
        (f"sw,5\nen,{LARGEST_COUNT + 1}\n", "line 2: .* need at most 9,223,372,036,854,775,807"),
        (f'{{"sw": 5, "en": 1{"0" * 5000}}}', r"'en': count = '10+… is too large for a count"),
        (f'{{"sw": 5, "en": -1{"0" * 5000}}}', r"'en': count = '-10+… is not a count"),
        ('{"rows": [], "excluded": null}', "excluded = None; need a list of languages"),
        ('{"rows": [{"language": "en", "n": 5}], "excluded": 5}', "excluded = 5; need a list"),
        ('{"rows": 5}', "rows = 5; need a list of languages"),
        ('{"rows": {"en": 5}}', r"rows = \{'en': 5\}; need a list of languages"),
        ('{"counters": 5}', "counters = 5; need counters by name"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
        ("en,5\n" + "x" * 200_000 + ",3\n", "line 2: field larger than field limit"),
        ("en,5\nEN,3\n", "line 2: 'EN', read as 'en', was there already: .*line 1"),
        ("zh-Hans,5\nsw,1\ncmn_Hans,3\n", "line 3: 'cmn_Hans', read as 'zh-Hans', was there"),
        ('{" ": 5}', "' ' is not a language"),
        ('[{"language": "en", "count": 5}, "' + "x" * 500 + '"]', "entry 2: 'x{50,60}…; need"),
    ],
)
def test_bad_input_is_named_by_file_place_and_value(
    tmp_path: Path, content: str, message: str
) -> None:
    name = write(tmp_path, content)
    with pytest.raises(ConfigError, match=message):
        read_counts(name)
    result = run(name)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"error: {name}")
    assert len(result.stderr) < 400 and result.stderr.count("\n") == 1


@settings(deadline=None, max_examples=100)
@given(st.one_of(st.binary(max_size=60), st.text(alphabet='en,5{}[]":\n\t;-.\\u\x1b', max_size=60)))
@example(b"en,5\nsw,3\n")
@example(b'{"\\ud800": 5, "$x$": 3}')
def test_any_input_gives_an_answer_or_one_line(content: str | bytes) -> None:
    result = run("-", "--json", given=content)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    if result.exit_code:
        assert result.exit_code == 2 and result.stderr.startswith("error: ")
    else:
        assert json.loads(result.stdout)["plans"][0]["rows"]


def test_a_name_with_a_nul_and_an_endless_file_are_refused() -> None:
    nul = run("a\0b")
    assert nul.exit_code == 2 and r"'a\x00b': cannot be read" in nul.stderr
    endless = run("-", given=b"en,5\n" + b"x" * LARGEST_FILE)
    assert endless.exit_code == 2 and "-: more than 67,108,864 bytes" in endless.stderr


@pytest.mark.parametrize("tag", ["EN", "eng", "iw", "swh", "pt_BR", "zh_hant", "no", "uz-Latn"])
def test_a_tag_is_read_as_a_run_reads_it(tmp_path: Path, tag: str) -> None:
    wanted = normalise(tag)
    assert wanted != tag
    assert read_counts(write(tmp_path, f"{tag},5\nfi,3\n")).counts == {wanted: 5, "fi": 3}
    assert read_counts(write(tmp_path, json.dumps({tag: 5}))).counts == {wanted: 5}
    rows = json.loads(run("-", "--json", "--weight", f"{tag}=0.9", given=f"{tag},5\nfi,3\n").stdout)
    assert {r["language"]: r["weighted"] for r in rows["plans"][0]["rows"]} == {
        wanted: True,
        "fi": False,
    }
    twice = run("-", "--weight", f"{tag}=0.1", "--weight", f"{wanted}=0.1", given=TINY)
    assert twice.exit_code == 2 and f"{wanted!r} has a weight already" in twice.stderr


def test_what_is_no_tag_stays_as_it_is(tmp_path: Path) -> None:
    counts = read_counts(write(tmp_path, "a,5\nall other languages,3\n")).counts
    assert counts == {"a": 5, "all other languages": 3}


def test_a_name_cannot_act_on_the_terminal() -> None:
    given = "\x1b[31men,5\n\x9b2Jx,4\nsw,3\n\u202ezz,2\nq\x7f,0\n"
    for options in (["--draws", "4"], ["--json"], ["--alpha", "0.3", "--alpha", "1"]):
        text = run("-", *options, given=given).stdout
        for shown in (r"\u001b[31men", r"\u009b2Jx", r"\u202ezz", r"q\u007f"):
            assert shown in text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    rows = json.loads(run("-", "--json", given=given).stdout)["plans"][0]["rows"]
    assert rows[0]["language"] == "\x1b[31men"  # the escape is JSON's own
    refused = run("-", given="\x1b[31men,5\n\x1b[31men,5\n")
    assert refused.exit_code == 2 and "\x1b" not in refused.stderr


def test_a_picture_goes_into_the_file_that_is_named_or_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    refused = run("-", "--png", str(folder), given=TINY)
    assert refused.exit_code == 2 and "is a directory; name a file in it" in refused.stderr
    for name in ("shares.foo", "shares", "shares.svg"):
        refused = run("-", "--png", str(tmp_path / name), given=TINY)
        assert refused.exit_code == 2 and "let its name end in .png" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    odd = tmp_path / "odd.PNG"
    assert run("-", "--png", str(odd), given="$\\x$,5\n\x1b$,3\n").exit_code == 0
    assert odd.read_bytes()[:4] == b"\x89PNG"


def test_draws_end_where_shares_are_too_coarse_for_them() -> None:
    given = json.dumps({"a": 10**11, "b": 7, "c": 10**12, "d": 10**10})
    refused = run("-", "--draws", str(MOST_DRAWS + 1), given=given)
    assert refused.exit_code == 2
    assert "need at most 1,099,511,627,776 (2^40)" in refused.stderr
    assert run("-", "--draws", str(MOST_DRAWS), given=given).exit_code == 0


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 10**12), min_size=1, max_size=30),
    st.floats(0, 1),
    st.integers(1, MOST_DRAWS),
)
@example([10**11, 7, 10**12, 10**10], 0.3, MOST_DRAWS)
def test_draws_are_within_2_of_their_share(sizes: list[int], alpha: float, draws: int) -> None:
    counts = {f"l{i}": size for i, size in enumerate(sizes)}
    plan = plan_of(Counts(counts, "n", ("n",)), alpha, float("inf"), draws, {})
    found = [plan.draws(share) for share in plan.shares]
    assert sum(found) == draws
    off = np.array(found) - np.array([share.q for share in plan.shares]) * draws
    assert np.abs(off).max() < 2


def test_no_exponent_reads_minus_0() -> None:
    assert "q ~ p^0 " in run("-", "--alpha", "-0.0", given=TINY).stdout
