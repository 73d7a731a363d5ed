"""`babelmill plan`: what a training takes on GPUs, before anyone pays for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.core.config import ConfigError

if TYPE_CHECKING:
    from flows.config import RunConfig
    from model.cost import Gpu
    from model.run_cost import RunCost


MAX_PRICE = 1e9
"""Of a GPU-hour; what is above is a slip, or no number."""
MAX_PARAMETERS = 10**12
"""Of an encoder that is planned: thousands of times those of the largest one trained so far."""


def plan(
    preset: Annotated[
        str, typer.Option(help="A preset of flows/runs, or an encoder of model/presets.")
    ],
    gpus: Annotated[int, typer.Option(min=1, help="GPUs, one worker each.")] = 8,
    gpu: Annotated[str, typer.Option(help="Kind of GPU.")] = "H200",
    mfu: Annotated[
        float, typer.Option(min=0.01, max=1, help="Assumed share of the GPU's peak that is used.")
    ] = 0.4,
    price_per_gpu_hour: Annotated[
        float, typer.Option(min=0, max=MAX_PRICE, help="Assumed price, in any currency.")
    ] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    file: Annotated[Path | None, typer.Option(help="Your own TOML file over the preset.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One setting: pretraining.tokens=1e11.")
    ] = None,
) -> None:
    """Show parameters, memory, speed, time and price of a training. Starts nothing.

    The plan is for --gpus workers with a GPU each, whatever [cluster] says.

    Time follows from matrix products alone: FLOPs / (GPUs x peak x --mfu). Evaluation, checkpoints
    and the stages before training come on top. --mfu and --price-per-gpu-hour are assumptions.

    Exit status: 0; 2 wrong settings, or the micro-batch does not fit into the GPU, which is said
    with what would.
    """
    from flows.cli import _errors
    from flows.output import write, write_drawn

    with _errors():
        asked = plan_of(preset, file, settings or (), (gpu, gpus, mfu, price_per_gpu_hour))
        for note in overruled(file, settings or (), gpus):
            print(f"note: {note}", file=sys.stderr)  # noqa: T201 - this is the terminal
        if as_json:
            write(json.dumps(as_record(asked), indent=1, allow_nan=False) + "\n")
        else:
            write_drawn(as_table(asked))
        refuse_what_does_not_fit(asked)


@dataclass(frozen=True)
class Plan:
    """A training, and the GPUs it is planned on."""

    name: str
    config: RunConfig
    rows: int
    gpu: Gpu
    gpus: int
    mfu: float
    price: float
    """For a GPU and an hour."""
    cost: RunCost

    @property
    def gpu_hours(self) -> float:
        """Hours of all GPUs together."""
        return self.cost.seconds / 3600 * self.gpus


def plan_of(
    preset: str, file: Path | None, settings: Any, on: tuple[str, int, float, float]
) -> Plan:
    """Resolve a preset as `babelmill run` does, with one worker a GPU, and count.

    Args:
        preset: of a run; or of an encoder, which then takes the place of that of a run.
        on: kind of GPU, GPUs, MFU, price.

    Raises:
        ConfigError: a preset, setting or kind of GPU is wrong, or the encoder is of a size that no
            GPU holds.
    """
    from flows.config import resolve
    from model.cost import GPUS, parameters_of
    from model.run_cost import Rate, run_cost

    name, gpus, mfu, price = on
    found = {g.name.lower(): g for g in GPUS}.get(name.lower())
    if found is None:
        raise ConfigError(f"--gpu {name!r}: known are {', '.join(g.name for g in GPUS)}")
    run, own = run_of(preset)
    given = [*own, *settings, f"cluster.num_workers={gpus}", "cluster.use_gpu=true"]
    config = resolve(run, file, given)
    masking = config.masking
    rates = [Rate(phase.until, phase.rate) for phase in masking.phases] or [Rate(1, masking.rate)]
    rows = config.vocabulary.size + 2  # in either kind of vocabulary
    parameters = parameters_of(config.encoder, rows, config.packing.length)
    if parameters > MAX_PARAMETERS:
        raise ConfigError(
            f"encoder.layers = {config.encoder.layers}, hidden_size = "
            f"{config.encoder.hidden_size}, feed_forward_size = "
            f"{config.encoder.feed_forward_size}: {parameters:,} parameters; "
            f"a plan has at most {MAX_PARAMETERS:,}"
        )
    cost = run_cost(
        config.encoder,
        config.pretraining.model_copy(update={"precision": "bfloat16"}),
        rows=rows,
        length=config.packing.length,
        rates=rates,
        gpu=found,
        gpus=gpus,
        mfu=mfu,
    )
    title = run if run == preset else f"encoder {preset} with the training of {run}"
    return Plan(title, config, rows, found, gpus, mfu, price, cost)


def overruled(file: Path | None, settings: Sequence[str], gpus: int) -> list[str]:
    """What a person's file and settings say of the workers that --gpus says otherwise.

    Raises:
        ConfigError: the file or a setting cannot be read.
    """
    from flows.config import overlay

    given = overlay({}, file, settings).get("cluster")
    if not isinstance(given, Mapping):
        return []
    planned = {"num_workers": gpus, "use_gpu": True}
    return [
        f"cluster.{name} = {json.dumps(given[name], default=str)} is not used: the plan is for "
        f"--gpus {gpus}, one worker each"
        for name, value in planned.items()
        if name in given and given[name] != value
    ]


def run_of(preset: str) -> tuple[str, list[str]]:
    """The run preset to start from, and settings over it.

    An encoder preset that has no run of its own takes that of its family: bert-large bert-base's.

    Raises:
        ConfigError: there is neither a run nor an encoder of that name.
    """
    from flows.config import preset_names
    from model.config import preset_names as encoder_names

    runs, encoders = preset_names(), encoder_names()
    if preset in runs:
        return preset, []
    family = preset.split("-")[0]
    if preset in encoders and (near := [run for run in runs if run.split("-")[0] == family]):
        return near[0], [f"encoder.preset={preset}"]
    raise ConfigError(
        f"--preset {preset!r}: known are the runs {', '.join(runs)} and the encoders "
        f"{', '.join(encoders)}"
    )


def refuse_what_does_not_fit(plan: Plan) -> None:
    """End a plan whose micro-batch is too large for the GPU.

    Raises:
        ConfigError: with the settings that would fit.
    """
    if plan.cost.fits:
        return
    now = plan.config.pretraining.sequences_per_micro_batch
    most = plan.cost.largest_micro_batch
    ways = [f"pretraining.sequences_per_micro_batch = {most} or less"] if most else []
    for setting in ("activation_checkpointing", "shard_optimizer"):
        if not getattr(plan.config.pretraining, setting) and (n := _most_with(plan, setting)):
            as_it_is = "as it is" if n >= now else f"at most {n} sequences"
            ways.append(f"pretraining.{setting} = true ({as_it_is})")
    if not ways:
        ways = ["a GPU with more memory, or a smaller encoder"]
    raise ConfigError(
        f"pretraining.sequences_per_micro_batch = {now} needs "
        f"{_size(plan.cost.memory.total)}, and of a {plan.gpu.name} "
        f"{_size(plan.cost.usable_bytes)} are usable; what would fit: {'; or '.join(ways)}"
    )


def _most_with(plan: Plan, setting: str) -> int:
    from model.memory import largest_micro_batch

    return largest_micro_batch(
        plan.config.encoder,
        plan.rows,
        plan.config.packing.length,
        plan.config.pretraining.model_copy(update={"precision": "bfloat16", setting: True}),
        masked_share=max(phase.masking_rate for phase in plan.cost.phases),
        workers=plan.gpus,
        memory_bytes=plan.gpu.memory_bytes,
    )


def as_record(plan: Plan) -> dict[str, Any]:
    """The plan as plain data: bytes, seconds, FLOPs."""
    from dataclasses import asdict

    from model.run_cost import packed_bytes

    cost, masking = plan.cost, plan.config.masking
    length = plan.config.packing.length
    packed = packed_bytes(plan.rows, length, masking.rate, masking.views)
    if plan.config.packing.mode == "pairs":
        packed += length  # which segment a token is of
    return {
        "plan": plan.name,
        "gpu": plan.gpu.name,
        "gpus": plan.gpus,
        "assumed_mfu": plan.mfu,
        "assumed_price_per_gpu_hour": plan.price,
        "parameters": {**asdict(cost.parameters), "total": cost.parameters.total},
        "phases": [asdict(phase) for phase in cost.phases],
        "memory_bytes": {**asdict(cost.memory), "total": cost.memory.total},
        "usable_bytes": cost.usable_bytes,
        "fits": cost.fits,
        "sequences_per_micro_batch": plan.config.pretraining.sequences_per_micro_batch,
        "largest_micro_batch": cost.largest_micro_batch,
        "steps": cost.steps,
        "tokens": cost.tokens,
        "flops": cost.flops,
        "tokens_per_second": cost.tokens_per_second,
        "busy_share": cost.busy_share,
        "seconds_per_step": plan.config.pretraining.sequences_per_step
        * length
        / cost.tokens_per_second,
        "seconds": cost.seconds,
        "gpu_hours": plan.gpu_hours,
        "price": plan.gpu_hours * plan.price,
        "checkpoint_bytes": cost.checkpoint_bytes,
        "kept_checkpoint_bytes": cost.checkpoint_bytes
        * (plan.config.pretraining.keep_checkpoints + 1),
        "packed_bytes_per_sequence": packed,
        "packed_bytes_used_once": packed * cost.tokens / length,
    }


def as_table(plan: Plan) -> Any:
    """The plan for a person."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from flows.plan_rows import rows_of

    table = Table(title=Text(f"Plan of {plan.name}"), show_header=False, title_justify="left")
    for name, value, about in rows_of(plan, as_record(plan)):
        table.add_row(Text(name), Text(value, justify="right"), Text(about))
    notes = []
    if plan.config.pretraining.precision != "bfloat16":
        notes.append(
            "The run says precision = float32; the plan is for bfloat16, in which a GPU trains."
        )
    notes.append(
        f"Assumed: {plan.mfu:.0%} of the peak (--mfu), {plan.price:g} a GPU-hour "
        f"(--price-per-gpu-hour); full rows; nothing for evaluation and checkpoints."
    )
    return Group(table, *map(Text, notes))


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB"
