"""Real, small drivers of stages: python tiny_stage.py NAME BEHAVIOUR --store URL --run RUN"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.core.manifest import FileRef
from pipelines.core.shards import Attempt, StageFailed, Step, Unit, run_step
from pipelines.core.store import Store

SHARDS = 4


def work(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    broken = Path(attempt.store.path("third-is-broken"))
    if config["fragile"] and unit.key == "shard-3" and broken.exists():
        raise ValueError("the bytes of this shard are damaged")
    attempt.counters["records"] += 1


def sleep(store: Store, run: str, seconds: float) -> None:
    try:
        for tick in range(int(seconds * 5)):
            print(f"[slow] tick {tick}", flush=True)
            time.sleep(0.2)
            if store.exists(f"{run}-go-on"):
                return
    except KeyboardInterrupt:
        store.publish_bytes(f"{run}-left-cleanly", b"SIGINT")
        raise


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("behaviour", choices=["ok", "fragile", "slow"])
    parser.add_argument("--store", required=True)
    parser.add_argument("--run", required=True)
    given = parser.parse_args()
    store = Store(given.store)
    store.publish_bytes(f"{given.run}-{given.name}-started", b"")
    if given.behaviour == "slow":
        sleep(store, given.run, 90)
    config = {"fragile": given.behaviour == "fragile", "run": given.run}
    step = Step(given.name, 1, f"runs/{given.run}/{given.name}", config, work)
    units = [Unit(f"shard-{n + 1}", (FileRef(path=str(n)),)) for n in range(SHARDS)]
    try:
        run_step(step, units, store, given.run, inline=True)
    except StageFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
