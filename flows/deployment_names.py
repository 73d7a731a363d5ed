"""A Prefect plugin: `prefect deployment run pretrain-multilingual` means the default deployment.

Prefect's command line takes only FLOW/DEPLOYMENT. It loads this module through the entry point
group `prefect.plugins` and calls the hook before a command starts. Where Prefect's internals are
not as expected the hook changes nothing, and Prefect's own message appears.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from prefect.plugins import register_hook

from flows.stages import DEFAULT_DEPLOYMENT, FLOW_NAME

WRAPPED = "_babelmill_wraps"


def full_name(name: str) -> str:
    """Return FLOW/DEPLOYMENT for our flow's bare name, and any other name as it is."""
    return f"{FLOW_NAME}/{DEFAULT_DEPLOYMENT}" if name == FLOW_NAME else name


def accept_bare_name(client: Any, logger: logging.Logger) -> bool:
    """Make a client class's `read_deployment_by_name` accept our flow's bare name.

    Args:
        client: the class that Prefect's command line looks deployments up with.

    Returns:
        Whether the class accepts it now; False when it is not built as expected.
    """
    original: Callable[..., Awaitable[Any]] | None = getattr(
        client, "read_deployment_by_name", None
    )
    if original is None or not inspect.iscoroutinefunction(original):
        logger.debug("no coroutine read_deployment_by_name; the full name is needed")
        return False
    if hasattr(original, WRAPPED):
        return True
    if list(inspect.signature(original).parameters)[:2] != ["self", "name"]:
        logger.debug("read_deployment_by_name takes other arguments; the full name is needed")
        return False

    @functools.wraps(original)
    async def read_deployment_by_name(self: Any, name: str, *rest: Any, **more: Any) -> Any:
        return await original(self, full_name(name), *rest, **more)

    setattr(read_deployment_by_name, WRAPPED, True)
    client.read_deployment_by_name = read_deployment_by_name
    return True


@register_hook
def setup_environment(*, ctx: Any) -> None:
    """Prefect calls this at start-up; nothing of the environment changes."""
    logger = ctx.logger_factory(__name__)
    try:
        from prefect.client.orchestration import PrefectClient
    except ImportError as error:
        logger.debug("no PrefectClient (%s); the full deployment name is needed", error)
        return
    accept_bare_name(PrefectClient, logger)
