"""A run's resolved configuration as it lies on the store."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from pipelines.core.config import ConfigError
from pipelines.core.store import Store

RUN_NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"
"""Names of runs: lower-case letters, digits and dashes, at most 40."""


def is_run_name(text: str) -> bool:
    """Whether a setting that takes a run or a folder names a run; a folder has a slash in it."""
    return re.fullmatch(RUN_NAME.strip("^$"), text) is not None


def is_folder(text: str) -> bool:
    """Whether a setting that takes a run (NAME), a checkpoint (NAME@STEP, RUN/UNIT@STEP) or a
    folder names a folder: it has a slash in it."""
    return "/" in text and re.fullmatch(r"[^@/]+/[^@/]+@[0-9]+", text) is None


def config_key(run: str) -> str:
    """Where a run keeps its resolved configuration."""
    return f"runs/{run}/config.toml"


def read_run_file(store: Store, run: str) -> dict[str, Any]:
    """Read the resolved configuration of a run as a plain tree.

    Raises:
        ConfigError: the store has no such run.
    """
    key = config_key(run)
    if not store.exists(key):
        raise ConfigError(f"no run {run!r} in {store.url}: {key} is not there")
    return tomllib.loads(store.read_bytes(key).decode("utf-8"))
