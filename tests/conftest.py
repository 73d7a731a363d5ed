"""Shared by all tests: where the data folder is, and a store on a temporary folder."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from pipelines.core.store import Store

# How long an example takes says nothing about it: other tests and other people use the machine.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has its background jobs ignore it, and they their children; some tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of real public data lies beside the checkout, and is not here")
    return SHARED_DATA


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """One small Ray for the tests that need real workers; they can import the tests' own steps."""
    import ray

    if ray.is_initialized():
        yield
        return
    os.environ["RAY_AUTH_MODE"] = "disabled"  # drivers started by tests connect to it, on loopback
    root = str(Path(__file__).resolve().parents[1])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": root}},
        configure_logging=False,
    )
    yield
    ray.shutdown()
