"""`babelmill filters`: what the filters of a run would drop. Reads the store, writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flows.config import RunConfig, overlay
from pipelines.core.config import ConfigError, validate
from pipelines.core.hashing import digest
from pipelines.core.manifest import Manifest, read_manifests, read_stage
from pipelines.core.records import Document, table_to_documents
from pipelines.core.run_file import config_key, read_run_file
from pipelines.core.store import Store
from pipelines.filters import filter_units
from pipelines.filters.derived import score_histograms, with_derived
from pipelines.filters.dry_run import Drops, DryRun, what_filters_drop

LANGUAGES_SHOWN = 20
"""Rows of the table of reasons and languages; the rest are counted in its last row."""


def show_filters(
    store_url: str,
    run: str,
    file: Path | None = None,
    settings: Sequence[str] = (),
    sample: int | None = None,
) -> None:
    """Print what the filters would drop from a run's extracted documents.

    Args:
        file, settings: laid over the run's saved configuration; lists replace lists.
        sample: so many of the run's shards, the same ones every time; all when None.

    Raises:
        ConfigError: no such run, extract has not finished, or a setting is wrong.
    """
    store, console, notes = Store(store_url), Console(), list[str]()
    report = dry_run(store, run, run_config(store, run, file, settings), sample, notes)
    for line in example_lines(report):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for note in notes:
        console.print(f"note: {note}", markup=False)
    # The whole comes last: what a person sees without scrolling.
    console.print(reasons_table(report))
    console.print(filters_table(report, run))


def run_config(
    store: Store, run: str, file: Path | None = None, settings: Sequence[str] = ()
) -> RunConfig:
    """A run's saved configuration with a person's changes over it.

    Raises:
        ConfigError: no such run, or a setting is wrong.
    """
    tree = overlay(read_run_file(store, run), file, settings)
    return validate(RunConfig, tree, origin=config_key(run))


def dry_run(
    store: Store, run: str, config: RunConfig, sample: int | None, notes: list[str]
) -> DryRun:
    """Try a configuration's filters on what a run has extracted.

    Raises:
        ConfigError: extract has not finished in this run, or no filter is configured.
    """
    if not config.filters:
        raise ConfigError(f"run {run!r} has no [[filters]]; give some with --file or --set")
    try:
        record = read_stage(store, run, "extract")
        manifests = read_manifests(store, record)
    except FileNotFoundError as error:
        raise ConfigError(f"run {run!r}, store {store.url}: {error}") from None
    sections = with_derived(config.filters, score_histograms(store, record), notes)
    chosen = sampled(manifests, config.run.seed, sample)
    if len(chosen) < len(manifests):
        notes.append(f"{len(chosen)} of {len(manifests)} shards were read")
    return what_filters_drop(_documents(store, chosen), sections)


def sampled(manifests: Sequence[Manifest], seed: int, sample: int | None) -> list[Manifest]:
    """So many manifests of a stage, chosen by the seed and their keys, in their own order."""
    if sample is None:
        return list(manifests)
    order = sorted(manifests, key=lambda m: digest("filters sample", seed, m.binding.key))
    chosen = {manifest.binding.key for manifest in order[:sample]}
    return [manifest for manifest in manifests if manifest.binding.key in chosen]


def _documents(store: Store, manifests: Sequence[Manifest]) -> Iterator[Document]:
    for unit in filter_units(manifests):
        for ref in unit.inputs:
            for table in store.iterate_tables(ref.path):
                yield from table_to_documents(table)


def filters_table(report: DryRun, run: str) -> Table:
    """One row for each filter: what it drops alone and in its place, and what it changes."""
    known = report.documents - report.unknown_language
    table = Table(title=f"What the filters of {run} drop: {report.documents:,} documents")
    table.add_column("filter", overflow="fold")
    for name in ("alone", "share", "characters", "in sequence", "characters", "changed"):
        table.add_column(name, justify="right")
    for entry in report.filters:
        alone, placed = entry.total(alone=True), entry.total(alone=False)
        table.add_row(
            entry.name,
            f"{alone.documents:,}",
            f"{alone.documents / known:.1%}" if known else "",
            f"{alone.characters:,}",
            f"{placed.documents:,}",
            f"{placed.characters:,}",
            f"{entry.changed_documents:,}" if entry.changed_documents else "",
        )
    table.add_section()
    table.add_row("unknown language", "", "", "", f"{report.unknown_language:,}", "", "")
    share = f"{report.kept / report.documents:.1%}" if report.documents else ""
    table.add_row("kept", "", share, "", f"{report.kept:,}", f"{report.kept_characters:,}", "")
    return table


def reasons_table(report: DryRun) -> Table:
    """One row for each filter, reason and language, by documents dropped alone."""
    table = Table("filter", "reason", "language", title="By reason and language")
    table.add_column("alone", justify="right")
    table.add_column("in sequence", justify="right")
    rows = []
    for entry in report.filters:
        for key, drops in entry.alone.items():
            placed = entry.in_sequence.get(key)
            rows.append((entry.name, *key, drops.documents, placed.documents if placed else 0))
        for key, drops in entry.in_sequence.items():
            if key not in entry.alone:  # what filters before it changed made it drop this
                rows.append((entry.name, *key, 0, drops.documents))
    rows.sort(key=lambda row: (-row[3], row))
    for name, reason, language, alone, placed_documents in rows[:LANGUAGES_SHOWN]:
        table.add_row(name, reason, language, f"{alone:,}", f"{placed_documents:,}")
    rest = rows[LANGUAGES_SHOWN:]
    if rest:
        sums = [sum(row[i] for row in rest) for i in (3, 4)]  # type: ignore[misc]
        table.add_row(f"{len(rest)} more rows", "", "", f"{sums[0]:,}", f"{sums[1]:,}")
    return table


def example_lines(report: DryRun) -> Iterator[str]:
    """Examples of each reason in the language that it drops most of, as lines for the terminal."""
    for entry in report.filters:
        largest: dict[str, tuple[str, Drops]] = {}
        for (reason, language), drops in sorted(entry.alone.items()):
            if reason not in largest or drops.documents > largest[reason][1].documents:
                largest[reason] = (language, drops)
        for reason, (language, drops) in largest.items():
            yield f"{entry.name}: {reason} ({language})"
            for example in drops.examples:
                yield f"    {example.because}  {example.url}"
                yield f"        {example.excerpt}"
