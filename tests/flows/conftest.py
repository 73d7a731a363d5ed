"""One Prefect server, one Ray head and the served deployments for all tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.services import Services, State

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Running:
    services: Services
    state: State
    checkout: Path
    environment: dict[str, str]

    def client(self) -> Any:
        from flows.ray_jobs import connect

        return connect(self.state.ray_url)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("services")
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    services = Services(folder, checkout, ports={})
    before = os.environ.get("RAY_JOB_START_TIMEOUT_SECONDS")
    os.environ["RAY_JOB_START_TIMEOUT_SECONDS"] = "15"  # Ray's own: the head reads it
    try:
        state = services.up(lambda _: None)
        yield Running(services, state, checkout, services.environment(state))
    finally:
        services.down(lambda _: None)
        if before is None:
            del os.environ["RAY_JOB_START_TIMEOUT_SECONDS"]
        else:
            os.environ["RAY_JOB_START_TIMEOUT_SECONDS"] = before
