"""The command line of all drivers: `python -m MODULE [STAGE] --store URL --run RUN`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from pipelines.core.config import ConfigError
from pipelines.core.shards import StageFailed
from pipelines.core.store import DamagedObject, Store


def drive(
    program: str,
    about: str | None,
    action: Callable[[str, Store, str], object],
    stages: Sequence[str],
    arguments: Sequence[str] | None = None,
) -> int:
    """Read the arguments, run a stage, and put what is wrong with it into one message.

    Args:
        action: takes the stage, the store and the run's name.
        stages: which there are to choose from; one alone is not asked for.
        arguments: None takes the process's own.

    Returns:
        The exit status: 0; 2 when a setting or an argument is wrong; 1 when the stage could not be
        finished.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    if len(stages) > 1:
        parser.add_argument("stage", choices=list(stages))
    parser.add_argument("--store", required=True, help="URL of the store, or a folder")
    parser.add_argument("--run", required=True, help="name of the run")
    given = parser.parse_args(arguments)
    try:
        action(getattr(given, "stage", stages[0]), _store(given.store), given.run)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the terminal
        return 2
    except (
        StageFailed,
        DamagedObject,
        FileNotFoundError,
        NotADirectoryError,
        PermissionError,
    ) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the terminal
        return 1
    return 0


def _store(url: str) -> Store:
    """The store of that URL.

    Raises:
        ConfigError: no driver of storage knows such a URL.
    """
    store = Store(url)
    try:
        _ = store.root
    except (ValueError, ImportError) as error:
        raise ConfigError(f"--store {url!r}: {error}") from None
    return store
