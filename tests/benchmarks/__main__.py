"""Run benchmarks: `python -m tests.benchmarks [NAME…] [--data FOLDER]`, or `make bench`.

Each benchmark is a module of this folder with `run(data: Path) -> dict`. Its figures are ratios
against the named peer in the same run; they are written to results/NAME.json with the machine and
the versions of the packages, and shown as a table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.machine import Skipped, machine, versions

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER.parents[1].parent / "shared" / "data"
NAMES = (
    "crawl",
    "extraction_quality",
    "wikipedia",
    "language",
    "filters",
    "deduplicate",
    "memory",
    "reader",
    "balance_plan",
    "vocabulary",
    "vocabulary_report",
    "mask",
    "tokenize",
    "pack",
    "learning",
    "pretrain_step",
    "vocabulary_loss",
    "two_workers",
    "gpu",
    "ray_overhead",
)

SHOWN_ENTRIES = 30
"""A table with more entries, one for each language say, is only in the file."""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of real public data")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    console = Console()
    for name in given.names or NAMES:
        began = time.monotonic()
        try:
            figures = importlib.import_module(f"tests.benchmarks.{name}").run(given.data)
        except Skipped as reason:
            console.print(f"{name}: skipped: {reason}", markup=False)
            continue
        result = {
            "benchmark": name,
            "seconds": round(time.monotonic() - began, 1),
            "machine": machine(),
            "versions": versions(),
            "figures": figures,
        }
        path = FOLDER / "results" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        console.print(table_of(name, figures))


def table_of(name: str, figures: dict[str, Any]) -> Table:
    """The figures as rows; nested ones by their path."""
    table = Table("figure", "value", title=name)

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, dict) and len(value) > SHOWN_ENTRIES:
            table.add_row(prefix, f"{len(value)} entries, in the file")
        elif isinstance(value, dict):
            for key, below in value.items():
                add(f"{prefix}.{key}" if prefix else str(key), below)
        elif not isinstance(value, list):
            table.add_row(prefix, f"{value:,.4g}" if isinstance(value, float) else str(value))

    add("", figures)
    return table


if __name__ == "__main__":
    main()
