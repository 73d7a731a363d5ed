"""Serve the sample mirror while a run lasts, if one of its sources asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flows.config import PROJECT, RunConfig
from pipelines.config import SAMPLE_MIRROR


@contextmanager
def sample_mirror(config: RunConfig, say: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Serve the mirror while the block runs.

    Yields:
        The environment that a stage's driver needs to find it; empty when no source uses it.
    """
    if all(getattr(source, "server", "") != SAMPLE_MIRROR for source in config.sources):
        yield {}
        return
    from pipelines.sources import SAMPLE_MIRROR_VARIABLE
    from pipelines.sources.sample_mirror import mirror_folder, serve

    folder = mirror_folder(PROJECT / ".babelmill" / SAMPLE_MIRROR)
    before = os.environ.get(SAMPLE_MIRROR_VARIABLE)
    with serve(folder) as url:
        say(f"the sample mirror is served at {url}")
        os.environ[SAMPLE_MIRROR_VARIABLE] = url
        try:
            yield {SAMPLE_MIRROR_VARIABLE: url}
        finally:
            if before is None:
                del os.environ[SAMPLE_MIRROR_VARIABLE]
            else:
                os.environ[SAMPLE_MIRROR_VARIABLE] = before
