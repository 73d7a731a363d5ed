"""A Ray cluster of several local nodes, which can be drained and lost. Only its own are stopped."""

from __future__ import annotations

import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.object_store import free_ports

MEMORY = 80 * 2**20
QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 3000,
    "health_check_failure_threshold": 3,
    "metrics_report_interval_ms": 500,
}
"""A lost node is noticed and metrics are exported within seconds."""


class Nodes:
    """A head without CPUs for workers, and nodes with one each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._ports: dict[str, int] = {}
        self.workers: list[Any] = []
        """The nodes with a CPU, in the order in which they came."""
        self._cluster = Cluster()
        self._add(num_cpus=0, include_dashboard=False, _system_config=QUICK)

    @property
    def address(self) -> str:
        """Of the head."""
        return str(self._cluster.address)

    def add(self) -> Any:
        """One more node with one CPU."""
        node = self._add(num_cpus=1)
        self.workers.append(node)
        return node

    def _add(self, **settings: Any) -> Any:
        [port] = free_ports(1)
        node = self._cluster.add_node(
            object_store_memory=MEMORY, metrics_export_port=port, **settings
        )
        self._ports[node.node_id] = port
        return node

    def lose(self, node: Any) -> None:
        """Kill -9 the node, with all that runs there."""
        self.workers.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def drain(self, node: Any, seconds: float) -> None:
        """Say that the node will be taken away, as a cloud does before it takes a spot instance."""
        import ray
        from ray.core.generated import autoscaler_pb2

        accepted, why = ray._raylet.GcsClient(address=self.address).drain_node(
            node.node_id,
            autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"),
            "a test takes it away",
            int((time.time() + seconds) * 1000),
        )
        assert accepted, why

    def metrics(self, name: str) -> list[str]:
        """Lines of that beginning that the nodes' own endpoints give to Prometheus."""
        lines = []
        for node in self._cluster.list_all_nodes():
            url = f"http://127.0.0.1:{self._ports[node.node_id]}/metrics"
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    lines += answer.read().decode("utf-8").splitlines()
            except OSError:
                continue  # its agent is not up yet, or the node is gone
        return [line for line in lines if line.startswith(name)]

    def stop(self) -> None:
        """Stop every process of the cluster."""
        self._cluster.shutdown()


@contextmanager
def ray_nodes(count: int) -> Iterator[Nodes]:
    """A cluster of a head and so many nodes, in a folder of its own."""
    folder = tempfile.mkdtemp(prefix="bm-")  # short, because sockets lie below it
    (Path(folder) / "ray").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
        patch.setenv("OMP_NUM_THREADS", "1")
        nodes = Nodes()
        try:
            for _ in range(count):
                nodes.add()
            yield nodes
        finally:
            nodes.stop()
            shutil.rmtree(folder, ignore_errors=True)
