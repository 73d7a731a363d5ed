"""The extract stage on one WARC file, in this process, measured.

python -m tests.benchmarks.our_crawl WARC STORE_FOLDER [SETTING=VALUE…] -> one JSON line
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow as pa

from pipelines.config import DataConfig
from pipelines.core.config import parse_setting, set_path
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.extract.stage import extract_step, extract_units
from pipelines.sources import list_shards
from tests.peak_memory import peak_megabytes


def main() -> None:
    warc, folder = Path(sys.argv[1]).resolve(), sys.argv[2]
    tree = {"run": {"name": "bench"}, "sources": [{"kind": "local_files", "paths": [str(warc)]}]}
    for setting in sys.argv[3:]:
        tree = set_path(tree, *parse_setting(setting))
    config = DataConfig.model_validate(tree)
    stage = StageRun(Store(folder), "bench", inline=True, quiet=True)
    # pyarrow loads pandas, where it is installed, at the first array: like the other imports of
    # both scripts, and as in a worker that lives on, that is not part of the time.
    pa.array([""])
    before = peak_megabytes()
    began, cpu = time.monotonic(), time.process_time()
    record = stage.run(extract_step(config), extract_units(config, list_shards(config)))
    seconds, used = time.monotonic() - began, time.process_time() - cpu
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu": used,
                "documents": record.counters["documents"],
                "pages": record.counters["pages"],
                "counters": {k: v for k, v in record.counters.items() if "/" not in k},
                "megabytes_before": before,
                "peak_megabytes": peak_megabytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
