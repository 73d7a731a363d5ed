"""A run's resolved configuration as it lies on the store."""

from __future__ import annotations

import tomllib
from typing import Any

from pipelines.core.config import ConfigError
from pipelines.core.store import Store


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
