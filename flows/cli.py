"""The command line, `babelmill`. Heavy packages are imported inside the commands that need them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from flows.balance_command import balance
from flows.booleans import Command
from flows.embed_command import embed
from flows.export_command import export
from flows.fill_mask_command import fill_mask
from flows.inspect_command import inspect
from flows.language_command import language
from flows.plan_command import plan
from flows.stages import DEFAULT_DEPLOYMENT, FLOW_NAME
from pipelines.core.config import ConfigError

app = typer.Typer(
    name="babelmill",
    help="From raw web text to a fine-tuned multilingual encoder.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Preset = Annotated[str, typer.Option(help="Which of flows/runs to start from.")]
File = Annotated[Path | None, typer.Option(help="Your own TOML file, laid over the preset.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting: pretraining.steps=500. May be repeated."),
]
StoreUrl = Annotated[str | None, typer.Option(help="URL of the store; by default the preset's.")]


STORAGE_LIBRARY = re.compile(r"(aio)?botocore\.|gcsfs\.|google\.|aiohttp\.")
"""Modules whose errors are about addresses and credentials, not about this program."""


def say(text: str) -> None:
    """Print one line for the person at the terminal."""
    print(text, flush=True)  # noqa: T201 - this is the terminal


@contextmanager
def _errors() -> Iterator[None]:
    """Turn the errors a person can act on into one message and an exit status."""
    from pipelines.core.shards import StageFailed

    try:
        yield
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is the terminal
        raise typer.Exit(2) from None
    except (StageFailed, RuntimeError) as error:
        if isinstance(error, typer.Exit):  # it is a RuntimeError, and has been said already
            raise
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is the terminal
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except Exception as error:
        if not isinstance(error, OSError | ImportError | ValueError) and not STORAGE_LIBRARY.match(
            type(error).__module__
        ):
            raise  # a bug: its traceback is what helps
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        raise typer.Exit(1) from None


@app.command()
def up() -> None:
    """Start the Prefect server, the Ray head and the deployments on this machine."""
    from flows.services import Services

    with _errors():
        services = Services()
        state = services.up(say)
        say(f"Prefect  {state.prefect_url}")
        say(f"Ray      {state.ray_url}")
        say(f"logs     {services.folder / 'logs'}")
        say(f"in this checkout: prefect deployment run {FLOW_NAME} --watch")


@app.command()
def down() -> None:
    """Stop exactly what `up` started."""
    from flows.services import Services

    with _errors():
        Services().down(say)


@app.command()
def status(store: StoreUrl = None) -> None:
    """Show the services, and the last runs with their stages."""
    from flows.status import show_status, store_of

    with _errors():
        show_status(store_of(store))


@app.command()
def check(
    preset: Preset = DEFAULT_DEPLOYMENT, file: File = None, settings: Settings = None
) -> None:
    """Check a run before it starts: settings, store, sources, languages, vocabulary."""
    from flows.check import preflight
    from flows.config import resolve
    from flows.sample import sample_mirror
    from flows.status import show_sources

    with _errors():
        config = resolve(preset, file, settings or ())
        with sample_mirror(config, say):
            show_sources(config, preflight(config))


@app.command()
def run(preset: Preset = DEFAULT_DEPLOYMENT, file: File = None, settings: Settings = None) -> None:
    """Run all stages in this terminal, without a Prefect server."""
    from flows.config import resolve
    from flows.local_run import run_here
    from flows.processes import interrupted_by_any_signal
    from flows.status import show_result

    with _errors(), interrupted_by_any_signal():
        config = resolve(preset, file, settings or ())
        run_here(config, say)
        show_result(config.store.url, config.run.name)


@app.command()
def demo(settings: Settings = None) -> None:
    """Start the services, run the demo through Prefect's API, follow it, show what came out."""
    from flows.config import resolve
    from flows.services import Services
    from flows.status import show_result
    from pipelines.core.config import parse_setting

    with _errors():
        given: dict[str, Any] = dict(parse_setting(line) for line in settings or ())
        config = resolve(DEFAULT_DEPLOYMENT, settings=given)
        services = Services()
        state = services.up(say)
        _use(services.environment(state))
        from flows.follow import run_and_follow

        name = f"{FLOW_NAME}/{DEFAULT_DEPLOYMENT}"
        final = run_and_follow(name, {"settings": given} if given else {}, say)
        if final != "COMPLETED":
            raise RuntimeError(f"the run ended {final}; its page: {state.prefect_url}/runs")
        show_result(config.store.url, config.run.name)
        say(f"Prefect  {state.prefect_url}/runs")
        say(f"Ray      {state.ray_url}")
        say("`babelmill down` stops both")


def _use(environment: dict[str, str]) -> None:
    """Let Prefect, imported next in this process, talk to the server that is up."""
    os.environ.update(
        {name: value for name, value in environment.items() if name.startswith("PREFECT_")}
    )


@app.command()
def report(
    run: Annotated[str, typer.Argument(help="Name of the run.")], store: StoreUrl = None
) -> None:
    """Write the page of a run again, and print its tables."""
    from flows.report.__main__ import build_report
    from flows.status import show_result, store_of
    from pipelines.core.store import Store

    with _errors():
        url = store_of(store)
        build_report(Store(url), run)
        show_result(url, run)


@app.command()
def documents(  # noqa: PLR0913 - its parameters are its options
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, URLs, or -.")],
    output: Annotated[str, typer.Option("-o", "--output", help="A file, or - for the terminal.")],
    file_format: Annotated[
        Literal["jsonl", "parquet"] | None,
        typer.Option("--format", help="By default by its name."),
    ] = None,
    languages: Annotated[str | None, typer.Option(help="Keep only these: sw,yo.")] = None,
    rejects: Annotated[
        str | None,
        typer.Option(help="A file for documents that later stages drop, each with its reason."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop the reading of each input after so many extracted documents. Filters, "
            "duplicates and thresholds then see these alone, and fewer may be written.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace files that are there.")] = False,
    preset: Preset = DEFAULT_DEPLOYMENT,
    file: File = None,
    settings: Settings = None,
) -> None:
    """Run the stages from extract to deduplicate on some files, without a cluster.

    The documents are those that a run with the same settings has, in the order of the input.
    Perplexity is off unless --set or --file speaks of it. The stages' own files lie in the
    temporary folder (TMPDIR) until the end.

    Exit status: 0; 1 an input cannot be read at all, nothing is written; 2 wrong settings or
    arguments; 3 an input is damaged or cut off: what was readable is written, and the last line
    says what is incomplete.
    """
    from flows.documents_command import Wanted, run_documents
    from flows.processes import interrupted_by_any_signal

    with _errors(), interrupted_by_any_signal():
        wanted = Wanted(output, file_format, rejects, limit, overwrite)
        tags = [tag.strip() for tag in (languages or "").split(",") if tag.strip()]
        stats = run_documents(
            inputs, wanted, languages=tags, preset=preset, file=file, settings=settings or ()
        )
        if stats.damage:
            raise typer.Exit(3)


@app.command()
def filters(
    run: Annotated[str, typer.Argument(help="Name of a run whose extract stage has finished.")],
    file: File = None,
    settings: Settings = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Read so many shards.")] = None,
    store: StoreUrl = None,
) -> None:
    """Show what filters would drop of a run's documents. Writes nothing."""
    from flows.filters_command import show_filters
    from flows.status import store_of

    with _errors():
        show_filters(store_of(store), run, file, settings or (), sample)


for function in (language, balance, inspect, plan, export, fill_mask, embed):
    app.command()(function)


def _help(text: str) -> str:
    """A docstring as help: each paragraph fills the terminal, and brackets are no markup."""
    return escape("\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n")))


for command in app.registered_commands:
    command.cls = Command
    command.help = _help((command.callback and command.callback.__doc__) or "")


def main() -> None:
    """Entry point."""
    app()
