"""What a worker needs for a shard of 1 GB, and how fast finished work is found finished."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from pipelines.core.manifest import FileRef
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from tests.benchmarks.crawl import measured
from tests.benchmarks.help_pages import CACHE, sample_warc

PAGES = 8000
SHARDS = 1000
LANGUAGES = 10


def run(data: Path) -> dict[str, Any]:
    """Peak memory of the extract stage on a small and on a large file; seconds of a rerun."""
    small = sample_warc(PAGES)
    copies = -(-1_000_000_000 // small.stat().st_size)
    large = CACHE / "help-1GB.warc.gz"
    if not large.is_file():
        content = small.read_bytes()  # a WARC is its members, one after the other
        with large.with_suffix(".attempt").open("wb") as file:
            for _ in range(copies):
                file.write(content)
        large.with_suffix(".attempt").rename(large)
    with TemporaryDirectory(prefix="babelmill-bench-") as folder:
        results = [
            measured(
                [sys.executable, "-m", "tests.benchmarks.our_crawl", str(path), f"{folder}/{n}"]
            )
            for n, path in enumerate((small, large))
        ]
        seconds = rerun(Path(folder) / "rerun")
    return {
        "shard_bytes": [path.stat().st_size for path in (small, large)],
        "documents": [result["documents"] for result in results],
        "peak_megabytes": [result["peak_megabytes"] for result in results],
        "memory_ratio": results[1]["peak_megabytes"] / results[0]["peak_megabytes"],
        "rerun_seconds_per_1000_shards": seconds,
    }


def rerun(folder: Path) -> float:
    """Seconds to find 1,000 shards with outputs in 10 languages each finished."""
    stage = StageRun(Store(str(folder)), "bench", inline=True, quiet=True)
    units = [Unit(f"shard-{n}", (FileRef(path=f"in/{n}", size=n),)) for n in range(SHARDS)]
    step = Step("bench", 1, "out", {}, write_few)
    stage.run(step, units)
    began = time.monotonic()
    record = stage.run(step, units)
    seconds = time.monotonic() - began
    if record.reused != SHARDS:
        raise RuntimeError(f"{SHARDS - record.reused} shards were done again")
    return seconds


def write_few(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """One row for each language."""
    for language in range(LANGUAGES):
        name = f"l{language}/part-{attempt.unit_id}"
        attempt.write_table(name, pa.table({"n": [1]}), part="documents", language=str(language))
        for number in range(10):
            attempt.counters[f"counter-{number}/l{language}"] += 1
