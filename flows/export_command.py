"""`babelmill export`: a run's model as a Hugging Face folder on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipelines.core.store import Store


def export(
    run: Annotated[str, typer.Argument(help="Name of the run, finished or not.")],
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    checkpoint: Annotated[
        int | None, typer.Option(min=0, metavar="STEP", help="The checkpoint of this step.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a folder that is not empty.")] = False,
    store: Annotated[
        str | None, typer.Option(help="URL of the store; by default the preset's.")
    ] = None,
) -> None:
    """Write a run's model as a Hugging Face folder.

    Of a finished run it is the export that the run has made and proven. With --checkpoint, or when
    the run has no export yet, a checkpoint is exported (by default the last one), and proven in the
    same way: transformers loads it, and its logits and ids are compared with ours.

    Exit status: 0; 1 the model that transformers loads is another; 2 wrong arguments. The folder
    is whole, or untouched.
    """
    from flows.cli import _errors, say
    from flows.model_folder import check_run, copy_export, export_record, new_folder
    from flows.status import store_of
    from pipelines.core.manifest import stage_record_key
    from pipelines.core.store import Store

    with _errors():
        opened = Store(store_of(store))
        check_run(opened, run)
        target = to.expanduser().absolute()
        if checkpoint is None and opened.exists(stage_record_key(run, "export")):
            with new_folder(target, overwrite) as folder:
                copy_export(opened, export_record(opened, run), folder)
            say(f"{target}: the export of run {run}")
            return
        with new_folder(target, overwrite) as folder:
            step, largest = _export_checkpoint(opened, run, checkpoint, folder)
        say(f"{target}: step {step:,} of run {run}; logits within {largest:.1e} of ours")


def _export_checkpoint(store: Store, run: str, step: int | None, folder: Path) -> tuple[int, float]:
    from model.checkpoint_export import export_checkpoint
    from model.plan import RunInputs

    return export_checkpoint(RunInputs(store, run), step, folder)
