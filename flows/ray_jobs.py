"""The one thin layer over Ray's job API: attach or submit, follow, stop.

A job's status decides how it ended; its log stream is best effort. Ray knows a job only while its
head lives, so whether a stage is finished is asked of the store's manifests, never of Ray.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OnLine = Callable[[str], None]
START_SECONDS = 60.0
"""How long a head that has just started may refuse or lack an agent."""
STOP_WAIT_SECONDS = 60
"""What a stopped driver gets for leaving cleanly, before Ray kills it."""
LAST_LINES = 30
"""Lines of a failed job's log that its error shows."""

STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
JOB_ENVIRONMENT = {
    "RAY_JOB_STOP_SIGNAL": "SIGINT",
    STOP_WAIT: str(STOP_WAIT_SECONDS),
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
    "RAY_DEDUP_LOGS": "0",
    "PYTHONUNBUFFERED": "1",
}
"""Set for every job. Secrets are never put here: Ray shows a job's environment on its dashboard
and writes it into its logs. Drivers and workers inherit them from the node they run on."""


class JobFailed(RuntimeError):
    """A Ray job did not succeed; the message says why, the stage's own words first."""


@dataclass(frozen=True)
class Job:
    """A job to attach to or to submit."""

    base_id: str
    """Its submission id without the attempt; [A-Za-z0-9_-], so short that `-a999` still fits."""
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    pending_timeout_seconds: float = 300.0
    resources: Mapping[str, float] = field(default_factory=dict)
    """Custom resources the driver itself needs; none by default, it then starts on the head."""

    def __post_init__(self) -> None:
        # Ray takes any id, but one with a slash or of 300 characters stays PENDING for ever.
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,90}", self.base_id):
            raise ValueError(
                f"job id {self.base_id!r}: use 1 to 90 letters, digits, dashes, underscores"
            )


def connect(address: str, *, seconds: float = START_SECONDS) -> Any:
    """Return a job client; a head that has just started is waited for.

    Args:
        address: the dashboard's, for example http://127.0.0.1:8265.

    Raises:
        JobFailed: nothing answers there.
    """
    from ray.job_submission import JobSubmissionClient

    return _patiently(lambda: JobSubmissionClient(address), seconds, f"Ray at {address}")


def run_job(client: Any, job: Job, on_line: OnLine) -> str:
    """Attach to the job if an attempt of it is alive, else submit it; follow it to its end.

    Returns:
        The submission id, `BASE-aN`.

    Raises:
        JobFailed: it failed, was stopped, or did not start within `pending_timeout_seconds`
            (then it has been asked to stop).
    """
    submission_id = attach_or_submit(client, job)
    last: deque[str] = deque(maxlen=LAST_LINES)

    def take(line: str) -> None:
        last.append(line)
        on_line(line)

    _wait_for_start(client, submission_id, job.pending_timeout_seconds)
    asyncio.run(_follow(client, submission_id, take))
    info = client.get_job_info(submission_id)
    if info.status.value != "SUCCEEDED":
        raise JobFailed(_why(submission_id, info, list(last)))
    return submission_id


def attach_or_submit(client: Any, job: Job) -> str:
    """Return the id of a live attempt of the job, submitting a new one if there is none.

    Two callers may find none at the same time: Ray refuses the second one's id, and it attaches.

    Raises:
        JobFailed: another job works on the same stage of the same run with other settings.
    """
    while True:
        mine = _attempts(client, job.base_id)
        for number, details in mine.items():
            if not details.status.is_terminal():
                return f"{job.base_id}-a{number}"
        refuse_other_settings(client, job)
        submission_id = f"{job.base_id}-a{max(mine, default=0) + 1}"
        if _submit(client, job, submission_id):
            return submission_id


def _submit(client: Any, job: Job, submission_id: str) -> bool:
    def submit() -> bool:
        try:
            client.submit_job(
                entrypoint=shlex.join(job.command),
                submission_id=submission_id,
                metadata=dict(job.metadata),
                runtime_env={"env_vars": {**JOB_ENVIRONMENT, **job.environment}},
                entrypoint_resources=dict(job.resources) or None,
            )
        except RuntimeError as error:
            if "already exists" in str(error):
                return False
            raise
        return True

    return bool(_patiently(submit, START_SECONDS, f"job {submission_id}"))


def _attempts(client: Any, base_id: str) -> dict[int, Any]:
    pattern = re.compile(re.escape(base_id) + r"-a(\d+)")
    found = {}
    for details in client.list_jobs():  # drivers that were not submitted have no submission id
        match = pattern.fullmatch(details.submission_id or "")
        if match:
            found[int(match[1])] = details
    return found


def refuse_other_settings(client: Any, job: Job) -> None:
    """Refuse a run while a job of the same run with other settings is alive.

    Raises:
        JobFailed: the live job is named. It would read the new settings half-way.
    """
    run = {key: job.metadata.get(key) for key in ("store", "run")}
    if None in run.values():
        return
    for details in client.list_jobs():
        theirs = details.metadata or {}
        if details.status.is_terminal() or not run.items() <= theirs.items():
            continue
        if theirs.get("settings") != job.metadata.get("settings"):
            raise JobFailed(
                f"job {details.submission_id} works on run {run['run']!r} with other settings: "
                "wait for it, cancel it, or name this run otherwise (run.name)"
            )


def _patiently(action: Callable[[], Any], seconds: float, what: str) -> Any:
    """Do `action`; while a head that starts refuses it, try again until the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except (ConnectionError, RuntimeError) as error:
            passing = isinstance(error, ConnectionError) or "available agent" in str(error)
            if not passing:
                raise JobFailed(f"{what}: {error}") from error
            if time.monotonic() > deadline:
                raise JobFailed(f"{what}: no answer in {seconds:.0f} s: {error}") from error
            time.sleep(0.5)


def _wait_for_start(client: Any, submission_id: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (info := client.get_job_info(submission_id)).status.value == "PENDING":
        if time.monotonic() > deadline:
            client.stop_job(submission_id)
            raise JobFailed(
                f"job {submission_id} did not start within cluster.pending_timeout_seconds = "
                f"{seconds:g}; Ray says: {info.message or 'nothing'}; it has been asked to stop"
            )
        time.sleep(0.3)


async def _follow(client: Any, submission_id: str, on_line: OnLine) -> None:
    """Hand on every line of the log once, until the job's status says that it has ended.

    A reconnected stream begins again at the first line, so those handed on already are skipped.
    """
    sent = 0
    while True:
        seen = 0
        async for line in _lines(client, submission_id):
            seen += 1
            if seen > sent:
                on_line(line)
                sent = seen
        if client.get_job_status(submission_id).is_terminal():
            break
        await asyncio.sleep(1.0)
    whole = client.get_job_logs(submission_id).split("\n")
    for line in whole[sent:] if whole[-1] else whole[sent:-1]:
        on_line(line)


async def _lines(client: Any, submission_id: str) -> AsyncIterator[str]:
    """Complete lines of one connection to the log stream; ends when it closes or goes stale."""
    import aiohttp

    stream = client.tail_job_logs(submission_id)
    rest = ""
    chunk = asyncio.ensure_future(anext(stream))
    try:
        while True:
            done, _ = await asyncio.wait({chunk}, timeout=10.0)
            if not done:  # quiet, or dead: only the status can tell
                if client.get_job_status(submission_id).is_terminal():
                    return
                continue
            *whole, rest = (rest + chunk.result()).split("\n")
            for line in whole:
                yield line
            chunk = asyncio.ensure_future(anext(stream))
    except (StopAsyncIteration, RuntimeError, aiohttp.ClientError, OSError):
        return  # the caller asks the status, and connects again if the job goes on
    finally:
        chunk.cancel()
        await asyncio.gather(chunk, return_exceptions=True)
        await stream.aclose()


def _why(submission_id: str, info: Any, last: list[str]) -> str:
    status = info.status.value
    if status == "STOPPED":
        return f"job {submission_id} was stopped"
    start = next((n for n, line in enumerate(last) if line.startswith("error: ")), None)
    if start is not None:
        own = "\n".join(last[start:])
        return f"{own}\n(job {submission_id} {status})"
    return "\n".join([f"job {submission_id} {status}: {info.message}", "its log ends:", *last])


def stop(client: Any, submission_id: str, *, seconds: float = STOP_WAIT_SECONDS + 20.0) -> str:
    """Stop a job and return its final status.

    Ray accepts the stop of a job that is still PENDING and forgets it, so it is asked again until
    the job is over.

    Raises:
        JobFailed: it is not over after `seconds`.
    """
    deadline, asked = time.monotonic() + seconds, 0.0
    while not (status := client.get_job_status(submission_id)).is_terminal():
        if time.monotonic() > deadline:
            raise JobFailed(
                f"job {submission_id} is still {status.value} {seconds:.0f} s after it was asked "
                "to stop"
            )
        if time.monotonic() - asked > 5.0:
            client.stop_job(submission_id)
            asked = time.monotonic()
        time.sleep(0.3)
    return str(status.value)


def stop_jobs_of(client: Any, flow_run_id: str, also: Mapping[str, str] = {}) -> dict[str, str]:
    """Stop the live jobs of a flow run, also those it attached to.

    Args:
        also: metadata (store, run) that marks the jobs which the flow run may have attached to.

    Returns:
        Submission id -> final status, or the error met. One job's error does not spare the others.
    """
    outcome = {}
    for details in client.list_jobs():
        metadata = details.metadata or {}
        mine = metadata.get("prefect_flow_run_id") == flow_run_id
        mine |= bool(also) and also.items() <= metadata.items()
        if not details.submission_id or details.status.is_terminal() or not mine:
            continue
        try:
            seconds = float(details.runtime_env["env_vars"][STOP_WAIT]) + 20.0
            outcome[details.submission_id] = stop(client, details.submission_id, seconds=seconds)
        except (RuntimeError, OSError, LookupError) as error:
            outcome[details.submission_id] = f"{type(error).__name__}: {error}"
    return outcome
