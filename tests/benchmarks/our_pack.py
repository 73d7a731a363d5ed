"""The pack stage over files of documents, in this process, measured.

python -m tests.benchmarks.our_pack STORE_FOLDER COPIES MODE -> one JSON line
"""

from __future__ import annotations

import json
import sys
import time

import pyarrow as pa

from pipelines.config import DataConfig
from pipelines.core.manifest import Output, total
from pipelines.core.shards import do_unit
from pipelines.core.store import Store
from pipelines.pack_sequences import pack_step, pack_units
from tests.benchmarks.pack_corpus import balance_of
from tests.peak_memory import peak_megabytes


def main() -> None:
    folder, copies, mode = sys.argv[1:4]
    store = Store(folder)
    listing = json.loads(store.read_bytes(f"inputs-{copies}.json"))
    unique = [Output.model_validate(entry) for entry in listing["unique"]]
    vocabulary = [Output.model_validate(entry) for entry in listing["vocabulary"]]
    config = DataConfig.model_validate(
        {
            "run": {"name": f"bench-{copies}-{mode}"},
            "sources": [{"kind": "wikipedia", "wikis": ["en"], "date": "20261101"}],
            "packing": {"mode": mode},
        }
    )
    step = pack_step(config, balance_of(unique), vocabulary)
    units = pack_units(balance_of(unique), vocabulary, unique)
    pa.array([""])  # pyarrow loads pandas at its first array: once in a worker's life
    counters, seconds, cpu = [], [], []
    for unit in units:
        began, used = time.monotonic(), time.process_time()
        result = do_unit(step, unit, store.url)
        if not isinstance(result, tuple):
            raise RuntimeError(result)
        seconds.append(time.monotonic() - began)
        cpu.append(time.process_time() - used)
        counters.append(result[1].counters)
    # A worker opens the vocabulary with its first file and keeps it for the others.
    tokens = [
        sum(n for name, n in c.items() if name.split("/")[0] in ("tokens", "held_out_tokens"))
        for c in counters
    ]
    whole = total(counters)

    def summed(name: str) -> int:
        return sum(count for key, count in whole.items() if key.startswith(f"{name}/"))

    print(
        json.dumps(
            {
                "tokens": sum(tokens),
                "tokens_per_second_per_core": sum(tokens[1:]) / sum(seconds[1:]),
                "tokens_per_cpu_second": sum(tokens[1:]) / sum(cpu[1:]),
                "seconds_with_opening_the_vocabulary": sum(seconds),
                "fill": summed("row_tokens") / summed("slots"),
                "masked": summed("masked_tokens") / summed("maskable_tokens"),
                "peak_megabytes": peak_megabytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
