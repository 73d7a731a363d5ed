"""Start a deployment through Prefect's API and follow its log in the terminal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId, LogFilterLevel
from prefect.client.schemas.sorting import LogSort
from prefect.states import Cancelling

Say = Callable[[str], None]
PAGE = 200
SECONDS_BETWEEN = 1.0


def run_and_follow(deployment: str, parameters: dict[str, Any], say: Say) -> str:
    """Start a run of FLOW/DEPLOYMENT, hand its log lines to `say`, and wait for its end.

    Ctrl-C cancels the run, and waits until it is cancelled.

    Returns:
        The type of the final state: COMPLETED, FAILED, CANCELLED, CRASHED.
    """
    return asyncio.run(_run_and_follow(deployment, parameters, say))


async def _run_and_follow(deployment: str, parameters: dict[str, Any], say: Say) -> str:
    async with get_client() as client:
        found = await client.read_deployment_by_name(deployment)
        run = await client.create_flow_run_from_deployment(found.id, parameters=parameters)
        say(f"flow run {run.name} ({run.id})")
        try:
            return await _follow(client, run.id, say)
        except asyncio.CancelledError:
            say("cancelling the run; its Ray job is stopped first")
            await client.set_flow_run_state(run.id, Cancelling())
            await _follow(client, run.id, say)
            raise


async def _follow(client: PrefectClient, run_id: UUID, say: Say) -> str:
    """Hand on the run's log in order until the run is over and no line is left."""
    wanted = LogFilter(
        flow_run_id=LogFilterFlowRunId(any_=[run_id]), level=LogFilterLevel(ge_=logging.INFO)
    )
    seen: set[UUID] = set()
    offset = 0
    quiet_rounds = 0
    while True:
        state = (await client.read_flow_run(run_id)).state
        final = state is not None and state.is_final()
        # Lines come in batches from several processes, so the newest page is read again.
        page = await client.read_logs(
            wanted, limit=PAGE, offset=max(0, offset - PAGE // 2), sort=LogSort.TIMESTAMP_ASC
        )
        new = [entry for entry in page if entry.id not in seen]
        for entry in new:
            seen.add(entry.id)
            if not entry.message.startswith("Finished in state Completed"):
                say(entry.message)  # Prefect says that of every task
        offset += len(new)
        quiet_rounds = 0 if new else quiet_rounds + 1
        if final and quiet_rounds >= 3 and state is not None:
            return str(state.type.value)
        await asyncio.sleep(0 if len(page) == PAGE and new else SECONDS_BETWEEN)
