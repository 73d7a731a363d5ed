"""The driver of the data stages: `python -m pipelines.run_stage STAGE --store URL --run RUN`.

One Ray job runs this once for each stage. It reads what the stage before wrote, through its record,
plans units, and hands them to the shard runner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.config import DataConfig, read_data_config
from pipelines.core.config import ConfigError
from pipelines.core.driver import drive
from pipelines.core.manifest import StageRecord, read_json, read_manifests, read_stage
from pipelines.core.shards import Step, Unit, run_step
from pipelines.core.store import Store
from pipelines.deduplicate.exact import deduplicate_step, deduplicate_units
from pipelines.extract import extract_step, extract_units
from pipelines.filters import filter_step, filter_units
from pipelines.pack_sequences import pack_step, pack_units
from pipelines.rebalance import balance_step, balance_units
from pipelines.sources import list_shards
from pipelines.train_vocabulary import vocabulary_step, vocabulary_units

Plan = tuple[Step, list[Unit]]


@dataclass(frozen=True)
class Inputs:
    """What a plan is made from: the configuration and the records of earlier stages."""

    store: Store
    config: DataConfig

    def stage(self, name: str) -> StageRecord:
        """The record of an earlier stage of this run."""
        return read_stage(self.store, self.config.run.name, name)


def plan_extract(inputs: Inputs) -> Plan:
    """One unit a source shard."""
    return extract_step(inputs.config), extract_units(inputs.config, list_shards(inputs.config))


def plan_filter(inputs: Inputs) -> Plan:
    """One unit an extracted shard."""
    return filter_step(inputs.config), filter_units(
        read_manifests(inputs.store, inputs.stage("extract"))
    )


def plan_deduplicate(inputs: Inputs) -> Plan:
    """One unit a language."""
    kept = inputs.stage("filter").outputs_of(part="kept")
    if not kept:
        raise ConfigError(
            "no document passed the filters: look at the rejects and their reasons in "
            "corpus/kept, and at filters, language_identification and run.languages"
        )
    return deduplicate_step(inputs.config), deduplicate_units(kept)


def plan_balance(inputs: Inputs) -> Plan:
    """A single unit."""
    record = inputs.stage("deduplicate")
    return balance_step(inputs.config, record.counters), balance_units(record.outputs)


def plan_vocabulary(inputs: Inputs) -> Plan:
    """A single unit."""
    [balance] = inputs.stage("balance").outputs_of(part="balance")
    unique = inputs.stage("deduplicate").outputs
    return vocabulary_step(inputs.config, balance, unique), vocabulary_units(balance, unique)


def plan_pack(inputs: Inputs) -> Plan:
    """One unit a file of deduplicated documents."""
    [output] = inputs.stage("balance").outputs_of(part="balance")
    balance = read_json(inputs.store, output.path)
    vocabulary = inputs.stage("vocabulary").outputs
    unique = inputs.stage("deduplicate").outputs
    return (
        pack_step(inputs.config, balance, vocabulary, unique),
        pack_units(balance, vocabulary, unique),
    )


PLANS: dict[str, Callable[[Inputs], Plan]] = {
    "extract": plan_extract,
    "filter": plan_filter,
    "deduplicate": plan_deduplicate,
    "balance": plan_balance,
    "vocabulary": plan_vocabulary,
    "pack": plan_pack,
}


def run_stage(stage: str, store: Store, run: str, *, inline: bool = False) -> StageRecord:
    """Run one data stage of a run.

    Raises:
        ConfigError: the configuration or the input does not allow it.
        StageFailed: shards failed; they are named.
    """
    config = read_data_config(store, run)
    step, units = PLANS[stage](Inputs(store, config))
    return run_step(step, units, store, run, inline=inline)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    return drive("pipelines.run_stage", __doc__, run_stage, list(PLANS), arguments)


if __name__ == "__main__":
    sys.exit(main())
