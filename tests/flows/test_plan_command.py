"""`babelmill plan`: the known figures, what it refuses, and its JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.config import preset_names
from flows.plan_command import as_record, plan_of, refuse_what_does_not_fit
from model.config import preset_names as encoder_names
from pipelines.core.config import ConfigError


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_xlmr_large_on_eight_h200() -> None:
    done = run("--preset", "xlmr-large", "--gpus", "8", "--mfu", "0.5", "--json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)

    assert plan["parameters"]["total"] == 560_142_482
    assert plan["phases"][0]["flops_per_token"] == pytest.approx(2.194e9, rel=1e-3)
    assert plan["tokens_per_second"] == pytest.approx(8 * 225_450, rel=1e-3)
    assert plan["seconds_per_step"] == pytest.approx(18.6 / 8, rel=1e-3)
    assert plan["gpu_hours"] == pytest.approx(323 * 24, rel=0.002)
    assert plan["price"] == pytest.approx(plan["gpu_hours"] * 3.0)
    assert plan["fits"] is True
    assert plan["checkpoint_bytes"] == 12 * 560_142_482
    assert plan["packed_bytes_per_sequence"] == pytest.approx(512 * 4 + 0.15 * 512 * 6)


def test_the_page_names_its_assumptions() -> None:
    done = run("--preset", "xlmr-large", "--price-per-gpu-hour", "2.5")
    assert done.exit_code == 0
    text = " ".join(done.output.split())
    assert "560,142,482" in text and "2.194 G" in text
    assert "Assumed: 40% of the peak (--mfu), 2.5 a GPU-hour (--price-per-gpu-hour)" in text


def test_what_does_not_fit_is_refused_with_what_would() -> None:
    asked = ["--preset", "xlmr-large", "--gpu", "L4", "--gpus", "4"]
    done = run(*asked, "--set", "pretraining.sequences_per_micro_batch=64")
    assert done.exit_code == 2
    assert "pretraining.sequences_per_micro_batch = 64 needs" in done.stderr
    for way in ("sequences_per_micro_batch = ", "activation_checkpointing = true", "shard_optim"):
        assert f"pretraining.{way}" in done.stderr
    # What it advises does fit.
    most = json.loads(run(*asked, "--json").stdout)["largest_micro_batch"]
    assert f"pretraining.sequences_per_micro_batch = {most} or less" in done.stderr
    assert run(*asked, "--set", f"pretraining.sequences_per_micro_batch={most}").exit_code == 0
    more = run(*asked, "--set", f"pretraining.sequences_per_micro_batch={most + 1}", "--json")
    assert more.exit_code == 2
    assert json.loads(more.stdout)["fits"] is False


def test_a_model_too_large_in_any_way_is_said() -> None:
    on = ("L4", 1, 0.4, 3.0)
    settings = ["encoder.layers=96", "encoder.hidden_size=4096", "encoder.feed_forward_size=16384"]
    with pytest.raises(ConfigError, match="a GPU with more memory, or a smaller encoder"):
        refuse_what_does_not_fit(plan_of("xlmr-large", None, settings, on))


@pytest.mark.parametrize("preset", sorted({*preset_names(), *encoder_names()}))
def test_every_preset_has_a_plan_that_fits_an_h200(preset: str) -> None:
    plan = plan_of(preset, None, ["pretraining.sequences_per_micro_batch=4"], ("h200", 2, 0.4, 3))
    record = as_record(plan)
    assert record["fits"] and record["seconds"] > 0
    assert record["memory_bytes"]["total"] < record["usable_bytes"]
    assert sum(p["tokens"] for p in record["phases"]) == pytest.approx(record["tokens"])


def test_an_encoder_takes_the_training_of_its_family() -> None:
    plan = plan_of("bert-large", None, (), ("H200", 8, 0.4, 3))
    assert plan.name == "encoder bert-large with the training of bert-base"
    assert plan.cost.parameters.total == 336_226_108
    assert plan.config.pretraining.steps == 1_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "xlmr-huge"), "known are the runs"),
        (("--preset", "xlmr-large", "--gpu", "TPU"), "known are B200"),
        (("--preset", "xlmr-large", "--set", "pretraining.stepz=3"), "pretraining.stepz"),
        (("--preset", "demo", "--gpus", "512"), "use at most"),
    ],
)
def test_a_wrong_argument_is_named(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize("price", ["inf", "nan", "1e308", "-1"])
def test_a_price_that_is_none_is_refused(price: str) -> None:
    for more in ((), ("--json",)):
        done = run("--preset", "xlmr-large", "--price-per-gpu-hour", price, *more)
        assert done.exit_code == 2
        assert "price-per-gpu-hour" in done.stderr
        assert done.stdout == ""
    assert run("--preset", "xlmr-large", "--price-per-gpu-hour", "1e9").exit_code == 0


@pytest.mark.parametrize("setting", ["layers", "hidden_size", "feed_forward_size"])
def test_an_encoder_that_nobody_can_hold_is_refused_before_anything_is_printed(
    setting: str,
) -> None:
    for value in (16 * 10**11, 16 * 10**40):
        done = run("--preset", "xlmr-large", "--set", f"encoder.{setting}={value}")
        assert done.exit_code == 2
        assert f"{setting} = {value}" in done.stderr
        assert "a plan has at most 1,000,000,000,000" in done.stderr
        assert done.stdout == ""


def test_workers_that_gpus_overrules_are_said(tmp_path: Path) -> None:
    asked = ["--preset", "xlmr-large", "--gpus", "8", "--json"]
    quiet = run(*asked, "--set", "cluster.num_workers=8", "--set", "cluster.cpus_per_worker=2")
    assert quiet.exit_code == 0 and quiet.stderr == ""
    file = tmp_path / "mine.toml"
    file.write_text("[cluster]\nnum_workers = [1, 4]\n", encoding="utf-8")
    said = {
        "cluster.num_workers = 3": ("--set", "cluster.num_workers=3"),
        "cluster.num_workers = [1, 4]": ("--file", str(file)),
        "cluster.use_gpu = false": ("--set", "cluster.use_gpu=false"),
    }
    for words, given in said.items():
        done = run(*asked, *given)
        assert done.exit_code == 0
        note = f"note: {words} is not used: the plan is for --gpus 8, one worker each\n"
        assert done.stderr == note
        assert json.loads(done.stdout) == json.loads(quiet.stdout)


def test_it_imports_neither_torch_nor_ray() -> None:
    import subprocess
    import sys

    program = (
        "import sys; from flows.cli import main\n"
        "sys.argv[1:] = ['plan', '--preset', 'xlmr-base']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'ray', 'prefect', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_the_table_in_the_readme_is_what_the_plan_says() -> None:
    text = (Path(__file__).resolve().parents[2] / "model/README.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "k / " in line]
    assert len(rows) == 5
    for name, parameters, giga, speeds, memory, whole in rows:
        preset = "modern-base" if name.startswith("modern") else name
        plan = plan_of(preset, None, (), ("H200", 8, 0.4, 3))
        flops = plan.cost.phases[0].flops_per_token
        own = as_record(plan)
        assert parameters == f"{own['parameters']['total']:,}"
        assert giga == f"{flops / 1e9:.3f}"
        assert speeds == " / ".join(
            f"{plan.gpu.bf16_flops * mfu / flops / 1e3:.0f}k" for mfu in (0.33, 0.4, 0.5)
        )
        assert memory == (
            f"{own['memory_bytes']['total'] / 1e9:.0f} GB, {own['sequences_per_micro_batch']}"
        )
        number, unit = whole.split()[:2]
        seconds = float(number) * {"days": 86_400, "hours": 3600}[unit]
        assert own["seconds"] == pytest.approx(seconds, rel=0.05)
