"""A run without a Prefect server: the same stages, one driver after the other, in this terminal."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from flows import processes
from flows.check import preflight, save_config
from flows.config import PROJECT, RunConfig
from flows.sample import sample_mirror
from flows.services import Services
from flows.stages import Stage, stages_of

Say = Callable[[str], None]


class StageEnded(RuntimeError):
    """A stage's driver ended with an error, which it has printed itself."""


def run_here(config: RunConfig, say: Say, stages: Sequence[Stage] | None = None) -> None:
    """Check, then run every stage against the cluster of `babelmill up`, or one of its own.

    Raises:
        ConfigError: the run cannot work.
        StageEnded: a stage failed; the ones after it were not started.
    """
    with sample_mirror(config, say) as mirror:
        result = preflight(config)
        say(f"[check] {result.shards} shards; store {config.store.url}")
        for note in result.notes:
            say(f"[check] {note}")
        save_config(config)
        with ray_cluster(say) as cluster:
            for stage in stages_of(config) if stages is None else stages:
                run_driver(stage, config, {**os.environ, **mirror, **cluster})


def run_driver(stage: Stage, config: RunConfig, environment: Mapping[str, str]) -> None:
    """Run one stage's driver as a child whose lines go to this terminal.

    Raises:
        StageEnded: its exit status is not 0.
    """
    command = stage.arguments(config.store.url, config.run.name)
    child = subprocess.Popen(
        command, env=dict(environment), cwd=PROJECT, preexec_fn=processes.die_with_parent
    )
    try:
        status = child.wait()
    except BaseException:  # Ctrl-C reaches the child too: let it leave, and wait for it
        child.terminate()
        child.wait()
        raise
    if status:
        raise StageEnded(f"stage {stage.name!r} failed (exit status {status}), as said above")


@contextmanager
def ray_cluster(say: Say, running: Services | None = None) -> Iterator[dict[str, str]]:
    """A Ray cluster while the block runs: the one that is up, else one started for it.

    Yields:
        The environment in which `ray.init()` finds it.
    """
    if "RAY_ADDRESS" in os.environ:  # the person has named a cluster
        yield {}
        return
    services = Services() if running is None else running
    state = services.read()
    if state is not None and services.alive(state, "ray"):
        yield services.driver_environment(state)
        return
    with tempfile.TemporaryDirectory(prefix="babelmill-run-") as folder:
        own = Services(Path(folder), Path(folder), ports={}, end_with_parent=True)
        state = own.up(say, names=("ray",))
        try:
            yield own.driver_environment(state)
        finally:
            own.down(say)
