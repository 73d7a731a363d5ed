"""Run by the peer's interpreter: datatrove's four MinHash stages over JSONL files, timed.

python datatrove_minhash.py INPUT_FOLDER OUTPUT_FOLDER FILES -> one JSON line
"""

import json
import sys
import time
from pathlib import Path

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter


def total(stat: int | dict[str, int]) -> int:
    """A statistic as datatrove writes it: a number, or one with more about it."""
    return stat["total"] if isinstance(stat, dict) else stat


def main() -> None:
    source, output, files = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    settings = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
    signatures, buckets, removed = (
        str(output / name) for name in ("signatures", "buckets", "removed")
    )
    stages = [
        (files, [JsonlReader(str(source)), MinhashDedupSignature(signatures, config=settings)]),
        (14, [MinhashDedupBuckets(signatures, buckets, config=settings)]),
        (1, [MinhashDedupCluster(buckets, removed, config=settings)]),
        (
            files,
            [
                JsonlReader(str(source)),
                MinhashDedupFilter(removed),
                JsonlWriter(str(output / "unique")),
            ],
        ),
    ]
    began, cpu = time.monotonic(), time.process_time()
    seconds = []
    for number, (tasks, pipeline) in enumerate(stages):
        start = time.process_time()
        LocalPipelineExecutor(
            pipeline=pipeline, tasks=tasks, workers=1, logging_dir=str(output / f"logs-{number}")
        ).run()
        seconds.append(round(time.process_time() - start, 2))
    cpu = time.process_time() - cpu
    stats = json.loads((output / "logs-3" / "stats.json").read_text())[1]["stats"]
    print(
        json.dumps(
            {
                "seconds": round(time.monotonic() - began, 1),
                "cpu_seconds": round(cpu, 2),
                "cpu_seconds_of_stages": seconds,
                "kept": total(stats["forwarded"]),
                "dropped": total(stats["dropped"]),
            }
        )
    )


if __name__ == "__main__":
    main()
