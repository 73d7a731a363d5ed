"""The project's flow machinery over tiny stages: python tiny_flow.py RUN STORE, or `serve`."""

from __future__ import annotations

import sys
from pathlib import Path

from prefect import flow

from flows.pretrain_multilingual import parameters_to_config, run_stages, stop_ray_jobs
from flows.stages import Stage

SCRIPT = str(Path(__file__).resolve().parent / "tiny_stage.py")
KINDS = {
    "slow": (("slow", "slow"),),
    "fragile": (("first", "ok"), ("second", "fragile"), ("third", "ok")),
}


@flow(name="tiny", on_cancellation=[stop_ray_jobs], on_crashed=[stop_ray_jobs])
def tiny(run: str, store: str) -> None:
    config = parameters_to_config(run=run, store=store)
    stages = [
        Stage(name, (SCRIPT, name, behaviour), "for a test")
        for name, behaviour in KINDS[run.split("-")[0]]
    ]
    run_stages(stages, config, {})


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        tiny.serve(name="tiny")
    else:
        tiny(*sys.argv[1:])
