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


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A store with the run "tiny", which has not come to training."""
    from pipelines.core.store import Store
    from tests.model.tiny import build, tiny_config

    store = Store(str(tmp_path_factory.mktemp("untrained")))
    build(store, tiny_config())
    return store


@pytest.fixture(scope="session")
def whole(untrained: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole Hugging Face folder of two layers, to be read only."""
    import torch

    from model.config import EncoderSection
    from model.encoder import Encoder
    from model.export import export_masked_model
    from model.heads import MaskedLanguageModel
    from model.plan import RunInputs

    torch.manual_seed(3)
    section = EncoderSection(layers=2, hidden_size=32, heads=2, feed_forward_size=64)
    vocabulary = RunInputs(untrained, "tiny").vocabulary
    path = tmp_path_factory.mktemp("whole")
    model = MaskedLanguageModel(Encoder(section, vocabulary.rows, 24))
    export_masked_model(path, model, vocabulary, "card")
    return path
