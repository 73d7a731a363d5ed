"""Serve one deployment for each preset from this process:  python -m flows.serve"""

from __future__ import annotations

from typing import Any

from prefect import serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.types.entrypoint import EntrypointType

from flows.config import preset_names
from flows.pretrain_multilingual import pretrain_multilingual


def main() -> None:
    """Register the deployments and run what is asked for, until stopped."""
    one_at_a_time = ConcurrencyLimitConfig(
        limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
    )
    deployments: list[Any] = [
        pretrain_multilingual.to_deployment(
            name=preset,
            parameters={"preset": preset},
            concurrency_limit=one_at_a_time,
            entrypoint_type=EntrypointType.MODULE_PATH,
            tags=["babelmill"],
        )
        for preset in preset_names()
    ]
    serve(*deployments)


if __name__ == "__main__":
    main()
