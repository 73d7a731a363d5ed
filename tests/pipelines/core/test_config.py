from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.config import RunConfig, resolve, to_toml
from pipelines.core.config import ConfigError, parse_setting, set_path


@pytest.mark.parametrize("word", ["False", "false", "0", "no"])
def test_a_boolean_that_says_no_is_off(word: str) -> None:
    assert (
        resolve("demo", None, [f"extraction.main_content={word}"]).extraction.main_content is False
    )


def test_a_boolean_that_says_true_is_on() -> None:
    assert resolve("demo", None, ["cluster.use_gpu=True"]).cluster.use_gpu is True


def test_a_misspelt_boolean_is_refused_by_name_and_value() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.use_gpu = 'Flase'"):
        resolve("demo", None, ["cluster.use_gpu=Flase"])


def test_a_single_setting_wins_over_the_file_and_the_file_over_the_preset(tmp_path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[extraction]\nmain_content = true\n[pretraining]\nsteps = 77\n")

    config = resolve("demo", file, ["extraction.main_content=false"])

    assert config.extraction.main_content is False
    assert config.pretraining.steps == 77
    assert tomllib.loads(to_toml(config).decode())["extraction"]["main_content"] is False


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("pretraning.steps=3", "pretraning: no such setting; did you mean 'pretraining'"),
        ("pretraining.stesp=3", "pretraining.stesp: no such setting; did you mean 'steps'"),
        ("sources.0.snapsot=x", "did you mean 'snapshot'"),
        ("vocabulary.size=many", "vocabulary.size = 'many'"),
        ("sources=[]", r"sources = \[\]"),
        ("run.languages=[]", "run.languages"),
        ("run.name=A b", "run.name = 'A b'"),
        ("sources.9.snapshot=x", "'9' is not an entry"),
        ("run.name.first=x", "lies below a plain value"),
        ("masking.random_probability=0.5", "above 1"),
        ("pretraining.warmup_steps=100000", "must be below steps"),
        ("cluster.num_workers=5", "a step of 24 sequences has only 2 micro-batches"),
        ("cluster.num_workers=[2, 1]", "the fewest come first"),
        ("encoder.preset=xlmr-larg", "did you mean .xlmr-large."),
        ("encoder.heads=5", "not a multiple of heads"),
        ("nonsense", "write section.setting=value"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve("demo", None, [setting])


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"preset = 'demmo'.*known: .*demo"):
        resolve("demmo")


def test_norwegian_is_a_language_and_not_a_boolean() -> None:
    assert resolve("demo", None, ['run.languages=["no", "sw"]']).run.languages == ["nb", "sw"]


def test_the_resolved_configuration_reads_back_as_itself() -> None:
    config = resolve("demo")

    assert RunConfig.model_validate(tomllib.loads(to_toml(config).decode())) == config


@given(st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
def test_plain_values_survive_the_command_line(value: float) -> None:
    text = str(value).lower() if isinstance(value, bool) else repr(value)

    assert parse_setting(f"a.b = {text}") == ("a.b", value)


def test_set_path_leaves_its_input_alone() -> None:
    tree = {"a": [{"b": 1}, {"b": 2}]}

    assert set_path(tree, "a.1.b", 3) == {"a": [{"b": 1}, {"b": 3}]}
    assert tree == {"a": [{"b": 1}, {"b": 2}]}
