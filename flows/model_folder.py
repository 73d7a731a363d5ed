"""A model as a folder on this machine: one that is there, or a copy of a run's export."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.core.config import ConfigError
from pipelines.core.manifest import StageRecord, read_stage, read_verified
from pipelines.core.store import Store

CONFIG = "config.json"
"""The file by which a Hugging Face folder is known."""
MOST_LISTED = 20
"""Runs that are named where one is not there."""


@contextmanager
def model_folder(model: str, store: Store) -> Iterator[Path]:
    """The folder of a model while the block runs.

    Args:
        model: a folder that holds config.json, or the name of a run of the store.

    Raises:
        ConfigError: it is neither, or the run has not exported its model.
    """
    path = Path(model).expanduser()
    if (path / CONFIG).is_file():
        yield path
        return
    if path.is_dir() or "/" in model:
        raise ConfigError(f"{model!r}: no folder with a {CONFIG}, and no name of a run")
    try:
        check_run(store, model)
    except ConfigError as error:
        raise ConfigError(f"{model!r}: no folder with a {CONFIG}, and {error}") from None
    with tempfile.TemporaryDirectory(prefix="babelmill-") as folder:
        copy_export(store, export_record(store, model), Path(folder))
        yield Path(folder)


def export_record(store: Store, run: str) -> StageRecord:
    """The record of a run's export stage.

    Raises:
        ConfigError: the run has not exported a model.
    """
    try:
        return read_stage(store, run, "export")
    except FileNotFoundError as error:
        raise ConfigError(f"run {run!r}, store {store.url}: {error}") from None


def check_run(store: Store, run: str) -> None:
    """See that a store has a run.

    Raises:
        ConfigError: it has not; says which it has, the newest first.
    """
    from flows.status import runs_of

    known = runs_of(store)
    if run in known:
        return
    more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    there = f"there are: {', '.join(known[:MOST_LISTED])}{more}" if known else "there is none yet"
    raise ConfigError(f"no such run {run!r} in store {store.url}; {there}")


def copy_export(store: Store, record: StageRecord, folder: Path) -> None:
    """Copy an exported model, each file compared with its checksum.

    Raises:
        DamagedObject: a file is not what was written.
    """
    for output in record.outputs_of(part="export"):
        target = folder / output.labels["file"]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(read_verified(store, output))


@contextmanager
def new_folder(target: Path, overwrite: bool) -> Iterator[Path]:
    """A folder to fill that gets its name when the block ends well; after an error nothing changes.

    Raises:
        ConfigError: `target` is a file, its parent is missing, or it holds something and
            `overwrite` is False.
    """
    if target.exists() and not target.is_dir():
        raise ConfigError(f"--to {target}: it is a file; name a folder")
    if not target.parent.is_dir():
        raise ConfigError(f"--to {target}: there is no folder {target.parent}")
    if not overwrite and target.is_dir() and any(target.iterdir()):
        raise ConfigError(f"--to {target}: the folder is not empty; give --overwrite")
    attempt = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    old = attempt.with_name(f"{attempt.name}.old")
    try:
        yield attempt
        attempt.chmod(0o755)  # mkdtemp makes it for its owner alone
        if target.exists():
            target.rename(old)
        attempt.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(attempt)
        shutil.rmtree(old, ignore_errors=True)
