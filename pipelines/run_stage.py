"""The driver of the data stages: `python -m pipelines.run_stage STAGE --store URL --run RUN`.

One Ray job runs this once for each stage. A stage reads what the stage before wrote, through its
record, plans the units of its steps, and hands them to the shard runner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

from pipelines.config import DataConfig, read_data_config
from pipelines.core.config import ConfigError
from pipelines.core.driver import drive
from pipelines.core.manifest import StageRecord, read_json, read_manifests
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.deduplicate import stage as deduplication
from pipelines.extract.stage import extract_step, extract_units
from pipelines.filters import filter_step, filter_units
from pipelines.filters.derived import is_derived, score_histograms, with_derived
from pipelines.ngrams.stage import score_perplexity
from pipelines.pack_sequences import model_part, pack_notes, pack_step, pack_units, write_card
from pipelines.rebalance import balance_step, balance_units
from pipelines.sources import list_shards
from pipelines.train_vocabulary import train_vocabulary


def extract(stage: StageRun, config: DataConfig) -> StageRecord:
    """One unit a source shard."""
    return stage.run(extract_step(config), extract_units(config, list_shards(config)))


def filter_documents(stage: StageRun, config: DataConfig) -> StageRecord:
    """One unit an extracted shard; thresholds that the data set are found before."""
    record = stage.record("extract")
    extracted = read_manifests(stage.store, record)
    notes: list[str] = []
    if any(is_derived(section) for section in config.filters):
        histograms = score_histograms(stage.store, record)
        filters = with_derived(config.filters, histograms, notes)
        config = config.model_copy(update={"filters": filters})
    return stage.run(filter_step(config), filter_units(extracted), notes=notes)


def deduplicate(stage: StageRun, config: DataConfig) -> StageRecord:
    """Duplicates over all that was kept."""
    kept = stage.record("filter").outputs_of(part="kept")
    if not kept:
        raise ConfigError(
            "no document passed the filters: look at the rejects and their reasons in "
            "corpus/kept, and at filters, language_identification and run.languages"
        )
    return deduplication.deduplicate(stage, config, kept)


def perplexity(stage: StageRun, config: DataConfig) -> StageRecord:
    """Models of each language, and every document's perplexity."""
    unique = stage.record("deduplicate").outputs_of(part="unique")
    return score_perplexity(stage, config, unique)


def balance(stage: StageRun, config: DataConfig) -> StageRecord:
    """A single unit."""
    unique = unique_documents(stage, config)
    return stage.run(
        balance_step(config, unique.counters), balance_units(unique.outputs_of(part="unique"))
    )


def vocabulary(stage: StageRun, config: DataConfig) -> StageRecord:
    """Words counted file by file, then one vocabulary for all languages."""
    [shares] = stage.record("balance").outputs_of(part="balance")
    unique = unique_documents(stage, config).outputs_of(part="unique")
    return train_vocabulary(stage, config, shares, unique)


def pack(stage: StageRun, config: DataConfig) -> StageRecord:
    """One unit a file of documents; then the dataset card."""
    [output] = stage.record("balance").outputs_of(part="balance")
    shares = read_json(stage.store, output)
    pieces = stage.record("vocabulary").outputs
    unique = unique_documents(stage, config).outputs_of(part="unique")
    step = pack_step(config, shares, pieces)
    units = pack_units(shares, pieces, unique, mix_languages=config.packing.mix_languages)
    record = stage.run(step, units, notes=partial(pack_notes, config, shares))
    write_card(stage, config, step, record, model_part(pieces))
    return record


def unique_documents(stage: StageRun, config: DataConfig) -> StageRecord:
    """The record of the stage that the corpus comes out of."""
    return stage.record("perplexity" if config.perplexity.enabled else "deduplicate")


STAGES: dict[str, Callable[[StageRun, DataConfig], StageRecord]] = {
    "extract": extract,
    "filter": filter_documents,
    "deduplicate": deduplicate,
    "perplexity": perplexity,
    "balance": balance,
    "vocabulary": vocabulary,
    "pack": pack,
}


def run_stage(stage: str, store: Store, run: str, *, inline: bool = False) -> StageRecord:
    """Run one data stage of a run.

    Raises:
        ConfigError: the configuration or the input does not allow it.
        StageFailed: shards failed; they are named.
    """
    config = read_data_config(store, run)
    return STAGES[stage](StageRun(store, run, inline=inline), config)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    return drive("pipelines.run_stage", __doc__, run_stage, list(STAGES), arguments)


if __name__ == "__main__":
    sys.exit(main())
