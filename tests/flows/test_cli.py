from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from flows.config import preset_names, resolve, to_toml
from flows.deployment_names import accept_bare_name, full_name
from flows.prefect_artifacts import progress_of
from flows.pretrain_multilingual import flatten, job_of, parameters_to_config
from flows.stages import DEFAULT_DEPLOYMENT, FLOW_NAME, STAGES
from pipelines.core.config import ConfigError

ROOT = Path(__file__).resolve().parents[2]


def babelmill(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
    )


def test_help_imports_nothing_heavy() -> None:
    text = (
        "import sys; from flows.cli import app; "
        "print(sorted({'torch', 'ray', 'prefect', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr


def test_every_command_has_help() -> None:
    done = babelmill("--help")
    assert done.returncode == 0
    own = ("plan", "export", "embed", "fill-mask")
    for command in ("up", "down", "status", "check", "run", "demo", "report", *own):
        assert command in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--preset", "nothing"),
        ("check", "--set", "packing.lenght=64"),
        ("check", "--set", "no equals sign"),
        ("check", "--file", "no-such-file.toml"),
        ("fill-mask", "no-such-run", "a <mask>"),
    ],
)
def test_a_wrong_setting_is_one_message_and_exit_2(arguments: tuple[str, ...]) -> None:
    done = babelmill(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["False", "false", "0", "no"])
def test_a_boolean_is_switched_off_over_a_file_that_says_true(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[deduplication]\nparagraphs = true\n", encoding="utf-8")
    config = resolve("demo", file, [f"deduplication.paragraphs={text}"])
    saved = tomllib.loads(to_toml(config).decode("utf-8"))
    assert saved["deduplication"]["paragraphs"] is False


def test_a_boolean_is_switched_on() -> None:
    assert resolve("demo", None, ["cluster.use_gpu=True"]).cluster.use_gpu is True


def test_a_mistyped_boolean_is_exit_2_with_its_name() -> None:
    done = babelmill("check", "--set", "deduplication.paragraphs=Flase")
    assert done.returncode == 2
    assert "deduplication.paragraphs = 'Flase'" in done.stderr


@pytest.mark.parametrize("value", ["false", False, 0, "no"])
def test_a_boolean_as_a_prefect_parameter(value: object) -> None:
    config = parameters_to_config(settings={"deduplication": {"paragraphs": value}})
    assert config.deduplication.paragraphs is False


def test_nested_and_dotted_settings_are_the_same_and_named_parameters_win() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": [2]}, "e.f": 3, "g": {}}) == {
        "a.b.c": 1,
        "a.d": [2],
        "e.f": 3,
        "g": {},
    }
    config = parameters_to_config(
        settings={"run.name": "one", "pretraining": {"steps": 500}}, run="two", languages=["sw"]
    )
    assert (config.run.name, config.pretraining.steps) == ("two", 500)
    assert (
        config.pretraining.warmup_steps == resolve("demo").pretraining.warmup_steps
    )  # the rest of the section stays
    assert config.run.languages == ["sw"]


def test_a_wrong_parameter_is_named() -> None:
    with pytest.raises(ConfigError, match=r"pretraining\.stepz"):
        parameters_to_config(settings={"pretraining.stepz": 3})


def test_a_jobs_id_stands_for_its_configuration_and_holds_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-show")
    ids = {}
    for steps in (400, 401, 400):
        config = resolve("demo", settings={"pretraining.steps": steps})
        job = job_of(STAGES[0], config, {}, "flow-run")
        assert "do-not-show" not in repr(job)
        ids.setdefault(steps, set()).add(job.base_id)
    assert ids[400] != ids[401]
    assert len(ids[400]) == 1
    assert ids[400].pop().startswith("demo-extract-")


@pytest.mark.parametrize(
    ("line", "percent"),
    [
        ("[extract] 3/8 shards | 1.0/s | 5 s left", 37.5),
        ("[pretrain] step 40/400 | loss 7.12 | lr 1.0e-03", 10.0),
        ("[finetune topic] 11/44 steps | 9.4/s", 25.0),
        ("[extract] done in 3 s", None),
        ("3/8 shards | ", None),
    ],
)
def test_progress_is_read_from_the_stages_lines(line: str, percent: float | None) -> None:
    assert progress_of(line) == percent


def test_only_our_flows_bare_name_is_completed() -> None:
    assert full_name(FLOW_NAME) == f"{FLOW_NAME}/{DEFAULT_DEPLOYMENT}"
    assert full_name("other") == "other"
    assert full_name(f"{FLOW_NAME}/xlmr-base") == f"{FLOW_NAME}/xlmr-base"


def test_a_client_that_is_built_otherwise_is_left_alone() -> None:
    import logging

    class Renamed:
        async def find_deployment(self, name: str) -> None: ...

    class Reordered:
        async def read_deployment_by_name(self, key: int, name: str) -> None: ...

    for client in (Renamed, Reordered):
        before = dict(vars(client))
        assert not accept_bare_name(client, logging.getLogger())
        assert dict(vars(client)) == before


def test_prefect_yaml_agrees_with_the_presets() -> None:
    tree = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    deployments = {d["name"]: d for d in tree["deployments"]}
    assert sorted(deployments) == preset_names()
    for name, deployment in deployments.items():
        assert deployment["parameters"] == {"preset": name}
        file, _, function = deployment["entrypoint"].partition(":")
        assert (ROOT / file).exists() and function == "pretrain_multilingual"
        assert deployment["concurrency_limit"]["limit"] == 1
        assert deployment["work_pool"]["name"] == "babelmill"


def test_xlmr_presets_have_the_papers_sizes() -> None:
    sizes = {}
    for name in ("xlmr-base", "xlmr-large"):
        config = resolve(name)
        e = config.encoder
        sizes[name] = (e.layers, e.hidden_size, e.heads, e.feed_forward_size)
        assert (config.vocabulary.size, config.packing.length, e.dropout) == (250_000, 512, 0.1)
        assert (config.pretraining.precision, config.pretraining.compile) == ("bfloat16", True)
    assert sizes == {"xlmr-base": (12, 768, 12, 3072), "xlmr-large": (24, 1024, 16, 4096)}


def test_bert_s_preset_is_the_papers() -> None:
    config = resolve("bert-base")
    training = config.pretraining
    assert (config.vocabulary.kind, config.vocabulary.size + 2) == ("wordpiece", 30_522)
    assert (config.packing.mode, config.packing.length) == ("pairs", 512)
    assert config.encoder.next_sentence and config.encoder.segments == 2
    assert (training.steps, training.sequences_per_step) == (1_000_000, 256)
    assert (training.learning_rate, training.warmup_steps) == (1e-4, 10_000)
    assert (training.beta1, training.beta2, training.weight_decay) == (0.9, 0.999, 0.01)
    assert (config.masking.rate, config.masking.random_from) == (0.15, "uniform")


def test_the_modern_preset_has_phases_of_everything() -> None:
    config = resolve("modern-base")
    training, masking = config.pretraining, config.masking
    assert (config.packing.mode, config.encoder.layout) == ("document", "modernbert")
    assert [phase.rate for phase in masking.phases] == [0.3, 0.15, 0.05]
    assert [phase.alpha for phase in config.balance.phases] == [0.7, 0.5, 0.3]
    assert [phase.until for phase in masking.phases] == [p.until for p in config.balance.phases]
    assert (training.schedule, training.final_rate_share) == ("trapezoid", 0.02)
    batches = [phase.sequences for phase in training.batches]
    assert [*batches, training.sequences_per_step] == [768, 1536, 3072, 4608]


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_steps_and_learning_rates(name: str) -> None:
    from model.schedules import check_schedule, learning_rate
    from model.step_plan import step_plan_of

    config = resolve(name)
    check_schedule(config.pretraining, config.packing.length)
    plan = step_plan_of(config.pretraining, config.packing.length)
    places = [0, plan.steps // 100, plan.steps // 2, plan.steps - 1]
    rates = [learning_rate(step, config.pretraining, plan) for step in places]
    assert max(rates) <= config.pretraining.learning_rate
    assert rates[0] < config.pretraining.learning_rate and rates[3] < rates[2]
