"""`babelmill up` and `down`: a Prefect server, a Ray head and the served deployments, here.

Everything lives below one folder (.babelmill): databases, logs, and services.json, which says what
runs. Starting again starts only what is missing.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from flows import processes
from flows.config import PROJECT, preset_names
from flows.service_commands import COMMANDS, LABELS
from pipelines.core.config import ConfigError

STATE = PROJECT / ".babelmill"
MARK = "# Written by `babelmill up`, removed by `babelmill down`."


class Service(BaseModel):
    """A running service."""

    name: str
    started: processes.Started
    log: str
    ports: dict[str, int]


class State(BaseModel):
    """What services.json holds."""

    owner: str
    """Marks the processes of these services in their environment."""
    ray_folder: str
    """Ray's sockets and session logs; its path must be short."""
    services: dict[str, Service] = {}

    @property
    def prefect_url(self) -> str:
        """Address of the Prefect server."""
        return f"http://127.0.0.1:{self.services['prefect'].ports['http']}"

    @property
    def ray_url(self) -> str:
        """Address of the Ray dashboard and its job API."""
        return f"http://127.0.0.1:{self.services['ray'].ports['dashboard']}"


Say = Callable[[str], None]


class Services:
    """The services of one state folder.

    Args:
        folder: where state, databases and logs go.
        checkout: where prefect.toml is written, so that `prefect` typed there finds the server.
        ports: preferred ports by name (http, dashboard); a taken one is replaced by a free one.
        end_with_parent: the services do not outlive this process, however it ends.
    """

    def __init__(
        self,
        folder: Path = STATE,
        checkout: Path = PROJECT,
        ports: dict[str, int] | None = None,
        end_with_parent: bool = False,
    ) -> None:
        self.folder, self.checkout = folder, checkout
        self.preferred = {"http": 4200, "dashboard": 8265} if ports is None else ports
        self.state_file = folder / "services.json"
        self.end_with_parent = end_with_parent

    def read(self) -> State | None:
        """What was started and not stopped since, or None."""
        if not self.state_file.exists():
            return None
        try:
            return State.model_validate_json(self.state_file.read_text(encoding="utf-8"))
        except ValidationError:
            raise ConfigError(
                f"{self.state_file} does not read, so what it started is not known: stop the "
                f"processes with {processes.OWNER} in their environment by hand, and delete it"
            ) from None

    def alive(self, state: State, name: str) -> bool:
        """Whether a service's process still runs."""
        service = state.services.get(name)
        return service is not None and processes.find(service.started) is not None

    def up(self, say: Say, names: tuple[str, ...] = ("prefect", "ray", "serve")) -> State:
        """Start what is missing, in order, and wait until all of it is healthy.

        Raises:
            RuntimeError: a service did not start; the end of its log is in the message.
        """
        with self._lock():
            state = self.read() or State(owner=uuid.uuid4().hex, ray_folder=_short_folder())
            Path(state.ray_folder).mkdir(exist_ok=True)
            begun: list[str] = []
            try:
                for name in names:
                    if self.alive(state, name):
                        continue
                    if name != "serve" and self.alive(state, "serve"):
                        self._stop(state, "serve")  # it knows the old addresses
                    say(f"starting {LABELS[name]}")
                    begun.append(name)
                    self._start(state, name)
            except BaseException:  # also Ctrl-C: what this call began does not stay behind
                for name in reversed(begun):
                    self._stop(state, name)
                if not state.services:
                    self._forget(state)
                raise
            if "prefect" in names:
                self._write_prefect_toml(state, say)
            return state

    def _start(self, state: State, name: str) -> None:
        log = self.folder / "logs" / f"{name}.log"
        old = state.services.get(name)
        preferred = self.preferred | (old.ports if old else {})
        command, ports = COMMANDS[name](preferred)
        started = processes.start(
            command,
            log=log,
            environment=self.environment(state, ports),
            folder=self.checkout,
            ends_with_parent=self.end_with_parent,
        )
        state.services[name] = Service(name=name, started=started, log=str(log), ports=ports)
        self._write(state)
        seconds = 120.0
        processes.wait_until(
            lambda: self.healthy(state, name),
            started,
            seconds=seconds,
            what=LABELS[name],
            log=log,
        )

    def healthy(self, state: State, name: str) -> bool:
        """Whether a service answers as it should."""
        if not self.alive(state, name):
            return False
        if name == "prefect":
            return _get(f"{state.prefect_url}/api/health") is True
        if name == "ray":
            return _get(f"{state.ray_url}/api/version") is not None
        found = _get(f"{state.prefect_url}/api/deployments/filter", body={}) or []
        ready = {item["name"] for item in found if item.get("status") == "READY"}
        return ready >= set(preset_names())

    def environment(self, state: State, ports: dict[str, int] | None = None) -> dict[str, str]:
        """The environment of a process that belongs to these services, or talks to them.

        Addresses and secrets of stores (AWS_*, and so on) come from the caller's environment.
        """
        environment = {
            **os.environ,
            processes.OWNER: state.owner,
            "PREFECT_HOME": str(self.folder / "prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
            "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",
            "RAY_TMPDIR": state.ray_folder,
            "PYTHONUNBUFFERED": "1",
        }
        for foreign in ("RAY_ADDRESS", "PREFECT_API_URL", "PREFECT_PROFILE"):
            environment.pop(foreign, None)
        if ports and "http" in ports:
            environment["PREFECT_SERVER_API_PORT"] = str(ports["http"])
            environment["PREFECT_API_URL"] = f"http://127.0.0.1:{ports['http']}/api"
        if "prefect" in state.services:
            environment["PREFECT_API_URL"] = f"{state.prefect_url}/api"
        if "ray" in state.services:
            environment["RAY_API_SERVER_ADDRESS"] = state.ray_url
        return environment

    def driver_environment(self, state: State) -> dict[str, str]:
        """What a driver that is not a Ray job needs to find the head by `ray.init()`."""
        everything = self.environment(state)
        names = ("RAY_TMPDIR", "RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED", "PYTHONUNBUFFERED")
        address = f"127.0.0.1:{state.services['ray'].ports['gcs']}"
        return {name: everything[name] for name in names} | {"RAY_ADDRESS": address}

    def down(self, say: Say) -> None:
        """Stop exactly what `up` started."""
        with self._lock():
            state = self.read()
            if state is None:
                say("nothing is running")
                return
            self._stop_all(state, say)

    def _stop_all(self, state: State, say: Say) -> None:
        for name in reversed(list(state.services)):
            say(f"stopping {LABELS[name]}")
            self._stop(state, name)
        self._forget(state)

    def _forget(self, state: State) -> None:
        shutil.rmtree(state.ray_folder, ignore_errors=True)
        toml = self.checkout / "prefect.toml"
        if toml.exists() and toml.read_text(encoding="utf-8").startswith(MARK):
            toml.unlink()
        self.state_file.unlink(missing_ok=True)

    def _stop(self, state: State, name: str) -> None:
        service = state.services.pop(name, None)
        if service is not None:
            processes.stop(service.started, state.owner)
            self._write(state)

    def _write(self, state: State) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        attempt = self.state_file.with_suffix(".attempt")
        attempt.write_text(state.model_dump_json(indent=1), encoding="utf-8")
        os.replace(attempt, self.state_file)

    def _write_prefect_toml(self, state: State, say: Say) -> None:
        path = self.checkout / "prefect.toml"
        if path.exists() and not path.read_text(encoding="utf-8").startswith(MARK):
            say(f"{path} is not ours and stays; for this server set")
            say(f"  export PREFECT_API_URL={state.prefect_url}/api")
            return
        path.write_text(
            f'{MARK}\n[api]\nurl = "{state.prefect_url}/api"\n\n[plugins]\nenabled = true\n',
            encoding="utf-8",
        )

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "services.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"another `babelmill up` or `down` is at work in {self.folder}; wait for it"
                ) from None
            yield


def _short_folder() -> str:
    return tempfile.mkdtemp(prefix="babelmill-")


def _get(url: str, body: Any = None) -> Any:
    """The JSON answer of a local service (POST when there is a body), or None."""
    request = urllib.request.Request(url, headers={"Content-Type": "application/json"})
    if body is not None:
        request.data = json.dumps(body).encode("utf-8")
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None
