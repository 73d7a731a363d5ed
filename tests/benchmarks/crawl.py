"""WARC to documents with language, against datatrove: WarcReader, Trafilatura, LanguageFilter,
JsonlWriter. The same file, the same model of language, one core each, one after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.help_pages import sample_warc
from tests.benchmarks.machine import bench_python, on_one_core

PAGES = 2500
FOLDER = Path(__file__).resolve().parent


def run(data: Path) -> dict[str, Any]:
    """Documents a second of both, and their ratio."""
    peer, warc = bench_python(), sample_warc(PAGES)
    with TemporaryDirectory(prefix="babelmill-bench-") as folder:
        ours = measured(
            [sys.executable, "-m", "tests.benchmarks.our_crawl", str(warc), f"{folder}/ours"]
        )
        script = str(FOLDER / "datatrove_crawl.py")
        model = str(data / "lid" / "lid.176.ftz")
        theirs = measured([peer, script, str(warc), model, f"{folder}/theirs"])
    rates = {
        name: result["documents"] / result["seconds"]
        for name, result in (("ours", ours), ("datatrove", theirs))
    }
    return {
        "input": f"{PAGES} pages of 34 languages, {warc.stat().st_size} bytes of WARC",
        "documents_per_second": {**rates, "ratio": rates["ours"] / rates["datatrove"]},
        "documents": {"ours": ours["documents"], "datatrove": theirs["documents"]},
        "peak_megabytes": ours["peak_megabytes"],
        "our_counters": ours["counters"],
    }


def measured(command: list[str]) -> dict[str, Any]:
    """The JSON on the last line of what a command prints; it runs on one core."""
    done = subprocess.run(
        on_one_core(command), cwd=FOLDER.parents[1], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
