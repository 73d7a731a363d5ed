"""The flow: from sources to a fine-tuned encoder and its report, one Ray job a stage.

Prefect sees stages; each is a task that follows one Ray job. The job's driver spreads the stage's
shards over the cluster. What is finished is known by the store's manifests, so a run that was
stopped goes on where it was.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prefect import flow, get_run_logger, runtime, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from flows import prefect_artifacts, ray_jobs
from flows.check import CheckResult, preflight, save_config
from flows.config import RunConfig, resolve, to_toml
from flows.sample import sample_mirror
from flows.stages import DEFAULT_DEPLOYMENT, FLOW_NAME, Stage, stages_of
from pipelines.core.config import ConfigError
from pipelines.core.hashing import digest
from pipelines.core.manifest import read_stage
from pipelines.core.store import Store

RAY_VARIABLE = "RAY_API_SERVER_ADDRESS"
"""Ray's own variable for the address of its job API."""
LOCAL_RAY = "http://127.0.0.1:8265"
RAY_ABOUT_ITSELF = re.compile(
    r"\(TrainController pid=|Running entrypoint for job |\S+ \S+\s+INFO job_manager\.py"
)
"""Lines of a job's log in which Ray talks about itself; the dashboard still has them."""


def connect() -> Any:
    """A client of the cluster that the environment names."""
    return ray_jobs.connect(os.environ.get(RAY_VARIABLE, LOCAL_RAY))


def parameters_to_config(
    preset: str = DEFAULT_DEPLOYMENT,
    settings: Mapping[str, Any] | None = None,
    run: str | None = None,
    languages: list[str] | None = None,
    store: str | None = None,
) -> RunConfig:
    """Resolve the flow's parameters; the named ones win over `settings`.

    Raises:
        ConfigError: a preset, key or value is wrong.
    """
    flat = flatten(settings or {})
    named = {"run.name": run, "run.languages": languages, "store.url": store}
    flat |= {path: value for path, value in named.items() if value is not None}
    return resolve(preset, settings=flat)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested tables into dotted paths: {"balance": {"alpha": 1}} -> {"balance.alpha": 1}."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def job_of(
    stage: Stage, config: RunConfig, environment: Mapping[str, str], owner: str
) -> ray_jobs.Job:
    """The Ray job of a stage. Equal configurations give equal ids, so a rerun attaches.

    Args:
        owner: id of the flow run.
    """
    run, store = config.run.name, config.store.url
    settings = digest(to_toml(config).decode("utf-8"))[:10]
    # Training saves before it leaves; what its driver needs besides is short.
    patience = max(ray_jobs.STOP_WAIT_SECONDS, config.cluster.grace_seconds + 30)
    return ray_jobs.Job(
        base_id=f"{run}-{stage.name}-{settings}",
        command=stage.arguments(store, run),
        environment={**environment, ray_jobs.STOP_WAIT: str(patience)},
        metadata={
            "job_name": f"{run}-{stage.name}",
            "prefect_flow_run_id": owner,
            "run": run,
            "stage": stage.name,
            "store": store,
            "settings": settings,
        },
        pending_timeout_seconds=config.cluster.pending_timeout_seconds,
    )


@task(name="check", task_run_name="check", cache_policy=NO_CACHE)
def check(config: RunConfig) -> CheckResult:
    """Refuse what cannot work, before anything starts."""
    result = preflight(config)
    log = get_run_logger()
    for line in result.sources:
        log.info("[check] %s: %d shards, bytes: %s", line.source, line.shards, line.size)
    for note in result.notes:
        log.warning("[check] %s", note)
    prefect_artifacts.show_sources(result)
    return result


@task(task_run_name="{stage.name}", cache_policy=NO_CACHE)
def run_stage(stage: Stage, config: RunConfig, environment: Mapping[str, str]) -> None:
    """Run one stage as one Ray job, its log on this page as it comes."""
    log = get_run_logger()
    job = job_of(stage, config, environment, str(runtime.flow_run.id))
    client = connect()
    bar = prefect_artifacts.ProgressBar(stage.name)
    log.info("[%s] %s", stage.name, stage.purpose)

    def on_line(line: str) -> None:
        log.log(logging.DEBUG if RAY_ABOUT_ITSELF.match(line) else logging.INFO, line)
        bar.read(line)

    ray_jobs.run_job(client, job, on_line)
    bar.finish()
    store = Store(config.store.url)
    record = read_stage(store, config.run.name, stage.name)
    prefect_artifacts.show_stage(record)
    if stage.name == "pretrain":
        prefect_artifacts.show_training(store, config.run.name, record)


def run_stages(stages: Sequence[Stage], config: RunConfig, environment: Mapping[str, str]) -> None:
    """Run stages in order. A failed one raises, and the next does not start."""
    for stage in stages:
        run_stage.with_options(name=stage.name)(stage, config, environment)


def stop_ray_jobs(flow: Any, flow_run: Any, state: Any) -> None:
    """When a flow run is cancelled or crashes, stop the Ray jobs it started or attached to.

    Prefect calls this in a fresh process, where only the flow run itself is known.
    """
    client = connect()
    config = parameters_to_config(**flow_run.parameters)
    attached = {"run": config.run.name, "store": config.store.url}
    outcome = ray_jobs.stop_jobs_of(client, str(flow_run.id), also=attached)
    for job, status in outcome.items():
        print(f"[{FLOW_NAME}] job {job}: {status}", flush=True)  # noqa: T201 - the runner's log


def name_of_run() -> str:
    """The run's name, for Prefect's pages; the flow itself tells what is wrong with a setting."""
    given = runtime.flow_run.parameters
    try:
        return parameters_to_config(**given).run.name
    except ConfigError:
        return str(given.get("run") or given.get("preset"))


@flow(
    name=FLOW_NAME,
    flow_run_name=name_of_run,
    on_cancellation=[stop_ray_jobs],
    on_crashed=[stop_ray_jobs],
)
def pretrain_multilingual(
    preset: str = DEFAULT_DEPLOYMENT,
    settings: dict[str, Any] | None = None,
    run: str | None = None,
    languages: list[str] | None = None,
    store: str | None = None,
) -> None:
    """From raw text to a fine-tuned multilingual encoder and its report.

    Args:
        preset: Which of flows/runs to start from: demo, wikipedia-small, bert-base, modern-base,
            xlmr-base, xlmr-large.
        settings: Single settings over the preset, dotted or nested: {"pretraining.steps": 500}.
        run: Name of the run; the same name continues the same run.
        languages: BCP 47 tags to keep; empty keeps what the preset keeps.
        store: URL of the store (file, s3, gs); empty takes the preset's.
    """
    config = parameters_to_config(preset, settings, run, languages, store)
    with sample_mirror(config, get_run_logger().info) as environment:
        check(config)
        ray_jobs.refuse_other_settings(connect(), job_of(stages_of(config)[0], config, {}, ""))
        save_config(config)
        run_stages(stages_of(config), config, environment)
    report = Store(config.store.url).path(f"runs/{config.run.name}/report/index.html")
    create_markdown_artifact(
        key="report", markdown=f"Run **{config.run.name}** is finished. Its report: `{report}`"
    )
    get_run_logger().info("[report] %s", report)
