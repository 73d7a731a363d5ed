"""The commands behind `babelmill up`: what each service is started with, and on which ports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from flows.processes import free_port
from flows.stages import FLOW_NAME

Ports = dict[str, int]
Command = tuple[list[str], Ports]
"""The command line, and the ports it will listen on by name."""

OBJECT_STORE_BYTES = 512 * 2**20
"""Documents pass between stages through the store, so Ray's shared memory can be small."""

LABELS = {
    "prefect": "the Prefect server",
    "ray": "the Ray head",
    "serve": f"the deployments of {FLOW_NAME}",
}


def prefect_server(preferred: Ports) -> Command:
    """A Prefect server on the loopback address."""
    port = free_port(preferred.get("http"))
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    return [*command, "--port", str(port)], {"http": port}


def ray_head(preferred: Ports) -> Command:
    """A Ray head in the foreground, its dashboard on the loopback address."""
    names = ("gcs", "client", "agent", "agent-grpc", "metrics", "runtime-env")
    ports = {"dashboard": free_port(preferred.get("dashboard"))}
    ports |= {name: free_port(preferred.get(name)) for name in names}
    # A driver's own actors and two training workers must fit on a machine of two cores.
    cpus = max(4, os.cpu_count() or 1)
    options = {
        "--port": ports["gcs"],
        "--ray-client-server-port": ports["client"],
        "--dashboard-host": "127.0.0.1",
        "--dashboard-port": ports["dashboard"],
        "--dashboard-agent-listen-port": ports["agent"],
        "--dashboard-agent-grpc-port": ports["agent-grpc"],
        "--metrics-export-port": ports["metrics"],
        "--runtime-env-agent-port": ports["runtime-env"],
        "--min-worker-port": 0,
        "--max-worker-port": 0,
        "--num-cpus": cpus,
        "--object-store-memory": OBJECT_STORE_BYTES,
    }
    flags = [f"{option}={value}" for option, value in options.items()]
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    return [*start, "--disable-usage-stats", *flags], ports


def deployments(preferred: Ports) -> Command:
    """The process that serves the deployments; it listens on no port."""
    return [sys.executable, "-m", "flows.serve"], {}


COMMANDS: dict[str, Callable[[Ports], Command]] = {
    "prefect": prefect_server,
    "ray": ray_head,
    "serve": deployments,
}
"""By service name; each takes the ports it should rather have."""
