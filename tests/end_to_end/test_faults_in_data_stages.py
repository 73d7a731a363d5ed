"""Workers killed at any moment, a full disk, a store that fails: the final bytes stay the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import psutil
import pytest

from flows.config import resolve, to_toml
from pipelines.core.manifest import read_stage
from pipelines.core.run_file import config_key
from pipelines.core.shards import StageFailed
from pipelines.core.store import Store
from pipelines.run_stage import run_stage
from pipelines.sources import SAMPLE_MIRROR_VARIABLE
from pipelines.sources.sample_mirror import mirror_folder, serve
from tests.flaky_proxy import FAILURES, flaky_proxy
from tests.object_store import s3_server

ROOT = Path(__file__).resolve().parents[2]
RUN = "faults"
SETTINGS = [
    f"run.name='{RUN}'",
    "run.languages=['de', 'fi', 'sw', 'ja', 'ru', 'ar', 'hi']",
    "deduplication.keys_per_partition=20000",
    "perplexity.enabled=true",
    "perplexity.order=3",
    "perplexity.tokens='words'",
    "perplexity.train_on='all'",
]
STAGES = ["extract", "filter", "deduplicate", "perplexity", "balance"]
MOST_KILLS = 12


def prepare(store: Store) -> Store:
    store.publish_bytes(config_key(RUN), to_toml(resolve("demo", None, SETTINGS)))
    return store


def written(store: Store) -> dict[str, str]:
    """SHA-256 of every file that the records of the stages name."""
    return {
        output.path: output.sha256
        for stage in STAGES
        for output in read_stage(store, RUN, stage).outputs
    }


@pytest.fixture(scope="module")
def mirror() -> Iterator[str]:
    with (
        serve(mirror_folder(ROOT / ".babelmill" / "sample-mirror")) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(SAMPLE_MIRROR_VARIABLE, address)
        yield address


@pytest.fixture(scope="module")
def undisturbed(mirror: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What comes out when nothing fails: in one process, one unit after the other."""
    store = prepare(Store(str(tmp_path_factory.mktemp("undisturbed"))))
    for stage in STAGES:
        run_stage(stage, store, RUN, inline=True)
    assert len(read_stage(store, RUN, "perplexity").outputs_of(part="unique")) >= 7
    return written(store)


class Killer(threading.Thread):
    """Kills a Ray worker that is at work with -9, again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.kills = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.7) and self.kills < MOST_KILLS:
            for process in psutil.Process().children(recursive=True):
                try:
                    if process.cmdline()[:1] == ["ray::do_unit"]:
                        process.kill()
                        self.kills += 1
                        break
                except psutil.Error:
                    continue


@contextmanager
def killed_workers() -> Iterator[Killer]:
    killer = Killer()
    killer.start()
    try:
        yield killer
    finally:
        killer.over.set()
        killer.join()


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_workers_killed_at_any_moment(
    undisturbed: dict[str, str], tmp_path: Path, local_ray: None
) -> None:
    store = prepare(Store(str(tmp_path / "store")))
    with killed_workers() as killer:
        for stage in STAGES:
            for _ in range(MOST_KILLS + 1):
                try:
                    run_stage(stage, store, RUN)
                    break
                except StageFailed as failure:  # one unit was killed more often than Ray retries
                    assert "Worker" in str(failure)
    assert killer.kills >= 3
    assert written(store) == undisturbed


@pytest.mark.timeout(600)
def test_a_store_that_fails_one_request_in_ten(
    undisturbed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        s3_server(tmp_path / "server") as environment,
        flaky_proxy(environment["AWS_ENDPOINT_URL"]) as (address, done),
    ):
        for name, value in {**environment, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        fsspec.filesystem("s3").clear_instance_cache()
        store = prepare(Store("s3://corpora/faults"))
        for stage in STAGES:
            run_stage(stage, store, RUN, inline=True)
        assert written(store) == undisturbed
        assert all(done[failure] >= 3 for failure in FAILURES), done
    fsspec.filesystem("s3").clear_instance_cache()


@contextmanager
def small_disk() -> Iterator[tuple[Path, Callable[[int], None]]]:
    """A file system of its own, and a function that sets how many kilobytes of it are free."""
    with tempfile.TemporaryDirectory(prefix="babelmill-disk-") as folder:

        def set_free(kilobytes: int) -> None:
            used = shutil.disk_usage(folder).used // 1024
            mount(f"remount,size={used + kilobytes}k")

        def mount(options: str) -> None:
            command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")

        mount("size=400k")
        try:
            yield Path(folder), set_free
        finally:
            subprocess.run(["umount", folder], check=True)


@pytest.mark.timeout(600)
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_full_disk_is_named_and_nothing_half_written_is_believed(
    undisturbed: dict[str, str], mirror: str
) -> None:
    with small_disk() as (folder, set_free):
        store = prepare(Store(str(folder / "store")))
        (folder / "tmp").mkdir()
        full = 0
        for stage in STAGES:
            for kilobytes in (100, 1000, 200_000):
                set_free(kilobytes)
                done = subprocess.run(
                    [sys.executable, "-c", INLINE, stage, store.url, RUN],
                    env={**os.environ, "TMPDIR": str(folder / "tmp")},
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode == 0:
                    break
                assert "No space left on device" in done.stderr, done.stderr[-2000:]
                full += 1
            assert done.returncode == 0, done.stderr[-2000:]
        assert full >= 2
        assert written(store) == undisturbed


INLINE = """
import sys
from pipelines.core.store import Store
from pipelines.run_stage import run_stage
run_stage(sys.argv[1], Store(sys.argv[2]), sys.argv[3], inline=True)
"""
