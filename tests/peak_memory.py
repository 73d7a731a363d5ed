"""How much memory a process has held."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_megabytes() -> float:
    """Largest memory this process has held since it was executed, in MB.

    VmHWM: getrusage's figure begins with that of the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        [line] = [row for row in status.read_text().splitlines() if row.startswith("VmHWM")]
        return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
