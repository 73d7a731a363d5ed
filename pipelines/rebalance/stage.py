"""The balance stage: one unit, which writes the table of languages as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.config import BalanceSection, DataConfig
from pipelines.core.manifest import Output
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.rebalance.table import MEASURES, balance_table, notes_of, sizes_by_language


def balance_languages(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the table; languages that are left out or capped are named in it and in the notes."""
    section = BalanceSection.model_validate(config["balance"])
    table = balance_table(section, config["sizes"])
    attempt.counters["languages"] += len(table["rows"])
    attempt.counters["excluded"] += len(table["excluded"])
    for measure in MEASURES:
        attempt.counters[f"excluded_{measure}"] += sum(row[measure] for row in table["excluded"])
    attempt.notes.extend(notes_of(table))
    content = (json.dumps(table, indent=1, ensure_ascii=False) + "\n").encode("utf-8")
    attempt.write_bytes(f"balance-{attempt.unit_id}.json", content, part="balance")


def balance_step(config: DataConfig, counters: Mapping[str, int]) -> Step:
    """The balance stage under a configuration and the counts of the deduplicated corpus.

    Languages that `run.languages` names and that have no text at all are put to the others with
    sizes of 0, so that the table says so.

    Raises:
        ConfigError: no language has enough text, or the weights do not fit the languages.
    """
    asked = [] if config.run.languages == "all" else config.run.languages
    sizes = {tag: dict.fromkeys(MEASURES, 0) for tag in asked} | sizes_by_language(counters)
    balance_table(config.balance, sizes)
    read = {"balance": config.balance.model_dump(mode="json"), "sizes": sizes}
    return Step("balance", 2, f"runs/{config.run.name}/balance", read, balance_languages, "table")


def balance_units(unique: Sequence[Output]) -> list[Unit]:
    """A single unit: the whole table."""
    return [Unit("languages", tuple(output.ref for output in unique))]
