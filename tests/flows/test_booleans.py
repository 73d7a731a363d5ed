"""Boolean options that are given a word (case C72): off is off, and a typo is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from flows.booleans import flag_value, without_words
from flows.cli import app

FLAGS = {
    "--overwrite": ("--overwrite", "--no-overwrite"),
    "--no-overwrite": ("--no-overwrite", "--overwrite"),
    "--json": ("--json", None),
}
OFF = ["False", "false", "0", "no"]


@pytest.mark.parametrize("word", OFF)
def test_off_is_off(word: str) -> None:
    assert without_words(["--overwrite", word, "x"], FLAGS) == ["--no-overwrite", "x"]
    assert without_words([f"--overwrite={word}"], FLAGS) == ["--no-overwrite"]
    assert without_words(["--no-overwrite", word], FLAGS) == ["--overwrite"]
    assert without_words(["--json", word], FLAGS) == []


def test_on_is_on_and_other_arguments_stay() -> None:
    assert without_words(["a", "--json", "True", "0"], FLAGS) == ["a", "--json", "0"]
    assert without_words(["--overwrite", "some text"], FLAGS) == ["--overwrite", "some text"]
    assert without_words(["False", "--json", "--", "--json", "0"], FLAGS) == [
        "False", "--json", "--", "--json", "0",
    ]  # fmt: skip


@pytest.mark.parametrize("arguments", [["--json", "Flase"], ["--json=Flase"], ["--json=maybe"]])
def test_a_typo_is_named(arguments: list[str]) -> None:
    with pytest.raises(typer.BadParameter, match="is neither true nor false") as caught:
        without_words(arguments, FLAGS)
    assert caught.value.param_hint == "'--json'"


def test_only_words_that_look_like_booleans_are_read() -> None:
    assert [flag_value("--x", word) for word in ("ON", "off", "wa", "")] == [
        True,
        False,
        None,
        None,
    ]


def flags_of_the_command_line() -> list[tuple[str, str]]:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return [
        (name, option.opts[0])
        for name, command in commands.items()
        for option in command.params
        if getattr(option, "is_flag", False) and option.name != "help"
    ]


def test_there_are_flags() -> None:
    found = flags_of_the_command_line()
    assert {("export", "--overwrite"), ("embed", "--overwrite"), ("plan", "--json")} <= set(found)


@pytest.mark.parametrize(("command", "option"), flags_of_the_command_line())
def test_every_flag_of_every_command_refuses_a_typo(command: str, option: str) -> None:
    done = CliRunner().invoke(app, [command, option, "Flase"])
    assert done.exit_code == 2
    assert f"'{option}': 'Flase' is neither true nor false" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("word", "is_json"), [(w, False) for w in OFF] + [("True", True)])
def test_a_command_sees_the_value(word: str, is_json: bool) -> None:
    done: Any = CliRunner().invoke(app, ["plan", "--preset", "demo", "--gpus", "2", "--json", word])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("{") == is_json
    if is_json:
        json.loads(done.stdout)
