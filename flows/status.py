"""What the command line shows: services, runs, sources, results."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from flows.check import CheckResult
from flows.config import RunConfig, resolve
from flows.service_commands import LABELS
from flows.services import Services
from flows.stages import DEFAULT_DEPLOYMENT, stages_of_tree
from flows.training_progress import training_progress
from pipelines.core.manifest import read_stage, stage_record_key
from pipelines.core.progress import duration
from pipelines.core.run_file import read_run_file
from pipelines.core.store import Store

LAST_RUNS = 5


def store_of(url: str | None) -> str:
    """The store's URL as given, else the default preset's."""
    settings = {} if url is None else {"store.url": url}
    return resolve(DEFAULT_DEPLOYMENT, settings=settings).store.url


def show_status(store_url: str) -> None:
    """Print the services and the last runs of a store."""
    console = Console()
    console.print(services_table(Services()))
    console.print(runs_table(Store(store_url)))


def services_table(services: Services) -> Table:
    """One row for each service: its address and whether it answers."""
    table = Table("service", "address", "state", title="Services")
    state = services.read()
    for name, label in LABELS.items():
        if state is None or name not in state.services:
            table.add_row(label, "", "not started")
            continue
        addresses = {"prefect": state.prefect_url, "ray": state.ray_url}
        alive = services.alive(state, name)
        answers = alive and services.healthy(state, name)
        words = "running" if answers else "running, does not answer" if alive else "died"
        table.add_row(label, addresses.get(name, ""), words)
    return table


def runs_table(store: Store) -> Table:
    """The last runs of a store, by the time of their newest record, and how far each is.

    Of a pretraining that is not finished, the step of its last checkpoint is shown.
    """
    table = Table("run", "stages finished", "next", "seconds", title=f"Runs in {store.url}")
    for run in runs_of(store)[:LAST_RUNS]:
        tree = read_run_file(store, run)
        stages = [stage.name for stage in stages_of_tree(tree)]
        done = [name for name in stages if store.exists(stage_record_key(run, name))]
        following = next((name for name in stages if name not in done), "")
        seconds = sum(read_stage(store, run, name).seconds for name in done)
        if following == "pretrain" and (progress := training_progress(store, run, tree)):
            following += f", {progress}"
        table.add_row(run, f"{len(done)}/{len(stages)}", following, duration(seconds))
    return table


def runs_of(store: Store) -> list[str]:
    """Names of the store's runs, the one that was checked last first."""
    files = store.filesystem.glob(store.path("runs/*/config.toml"), detail=True)
    times = {
        str(path).rstrip("/").split("/")[-2]: str(info.get("mtime") or info.get("LastModified", ""))
        for path, info in files.items()
    }
    return sorted(times, key=lambda run: times[run], reverse=True)


def show_sources(config: RunConfig, result: CheckResult) -> None:
    """Print what a run would read."""
    table = Table("source", "shards", "compressed bytes", title=f"Run {config.run.name}")
    for line in result.sources:
        table.add_row(line.source, f"{line.shards:,}", line.size)
    console = Console()
    console.print(table)
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"store: {config.store.url}", markup=False)


def show_result(store_url: str, run: str) -> None:
    """Print the tables of a finished run and where its page is."""
    from flows.report.summary import run_table

    store, console = Store(store_url), Console()
    console.print(run_table(store, run))
    page = store.path(f"runs/{run}/report/index.html")
    console.print(f"report   {page}", markup=False, soft_wrap=True)
