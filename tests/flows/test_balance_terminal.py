"""What `babelmill balance` shows: every line in 80 columns, and what a cap did to weights."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app

SMALL = {"en": 1_000_000, "sw": 1_000}
LARGE = {"en": 1_234_567_890, "sw": 100_000, "yo": 1}
HUGE = {"en": 9_123_456_789_012, "sw": 10**9, "zh-Hant": 1}


def run(given: dict[str, int], *arguments: str, columns: int = 80) -> Result:
    environment = {"COLUMNS": str(columns)}
    result = CliRunner().invoke(
        app, ["balance", "-", *arguments], input=json.dumps(given), env=environment
    )
    assert result.exit_code == 0, result.stderr
    return result


@pytest.mark.parametrize("counts", [SMALL, LARGE, HUGE])
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--draws", "1000000000"],
        ["--alpha", "0.3", "--alpha", "0.7", "--alpha", "1", "--draws", "1000000000"],
        ["--max-repeats", "8", "--weight", "sw=0.5"],
    ],
)
def test_no_line_is_longer_than_80_and_none_is_cut(
    counts: dict[str, int], options: list[str]
) -> None:
    text = run(counts, *options).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for option, value in zip(options[::2], options[1::2], strict=True):
        assert option != "--alpha" or re.search(rf" q {value} ", text)
    for language in counts:
        assert re.search(rf"^{language} ", text, re.M)


def test_the_bar_goes_first_then_large_numbers_are_rounded_then_the_draws_go() -> None:
    wide = run(LARGE, columns=120).stdout
    assert "o p, ● q" in wide and "1,234,567,890" in wide and " draws" in wide.splitlines()[2]
    narrow = run(LARGE, columns=80).stdout
    assert "o p, ● q" not in narrow and "1,234,567,890" in narrow
    narrower = run(LARGE, columns=68).stdout
    assert re.search(r"^en +1\.235G +99\.992 % +94\.242 % .* 1\.164G *$", narrower, re.M)
    assert "M, G, T, P, E: 10^6, 10^9, 10^12" in narrower
    narrowest = run(LARGE, columns=57).stdout
    assert re.search(r"^en +1\.235G +99\.992 % +94\.242 % +0\.94 *$", narrowest, re.M)


def test_exponents_that_do_not_fit_side_by_side_are_below_each_other() -> None:
    options = ["--alpha", "0.3", "--alpha", "0.7", "--alpha", "1"]
    assert run(LARGE, *options, columns=120).stdout.count("q ~ p^alpha") == 1
    assert run(LARGE, *options, columns=80).stdout.count("q ~ p^alpha") == 2


def test_a_weight_that_the_cap_does_not_allow_is_not_said_to_be_set() -> None:
    # 8 x 1,000 / 1,001,000 = 0.799 %; 50 % - 0.799 % = 49.201 %
    options = ["--weight", "sw=0.5", "--max-repeats", "8"]
    text = run(SMALL, *options, columns=120).stdout
    assert "set by hand" not in text
    wanted = "weight not met (1), the cap of 8 repeats is lower: sw has 0.799 %, not 50.000 %"
    assert wanted in text
    assert "moved by the cap to the other languages: 49.201 % of all draws" in text
    [plan] = json.loads(run(SMALL, *options, "--json").stdout)["plans"]
    assert plan["moved_by_cap"] == pytest.approx(0.5 - 8 / 1001)
    assert [row["q_uncapped"] for row in plan["rows"]] == pytest.approx([0.5, 0.5])


def test_a_weight_that_takes_what_others_cannot_is_said() -> None:
    # fi and sw are held at 1.5 x 10 / 120 each; en, set to 10 %, takes the other 75 %.
    options = ["--weight", "en=0.1", "--max-repeats", "1.5"]
    text = run({"en": 100, "fi": 10, "sw": 10}, *options, columns=120).stdout
    assert "it takes what languages at the cap cannot: en has 75.000 %, not 10.000 %" in text
    assert "moved by the cap to the other languages: 65.000 % of all draws" in text
    assert "set by hand" not in text


def test_a_weight_under_the_cap_is_set_and_nothing_moves() -> None:
    text = run(SMALL, "--weight", "sw=0.005", "--max-repeats", "8").stdout
    assert "set by hand (1): sw" in text
    assert "not met" not in text and "moved" not in text
    assert "moved" not in run(SMALL).stdout


def test_help_keeps_its_brackets_and_fills_its_lines() -> None:
    def shown(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "80"})
        assert result.exit_code == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)

    inspect = re.sub(r"\s+", " ", shown("inspect"))
    assert "A masked place reads [what stood there → what the model sees]; [x = x]" in inspect
    assert "Text with one <mask>" in shown("fill-mask")
    balance = [line.strip() for line in shown("balance").splitlines()]
    first = next(n for n, line in enumerate(balance) if line.startswith("COUNTS has"))
    paragraph = balance[first : balance.index("", first)]
    assert min(map(len, paragraph[:-1])) > 60
    assert '{"sw": 12}, [{"language": "sw", "count": 12}]' in " ".join(paragraph)
