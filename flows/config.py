"""RunConfig: every section in one place, from a preset, a person's file and single settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field, model_validator

from model.config import ModelConfig
from pipelines.config import SAMPLE_MIRROR, DataConfig
from pipelines.core.config import (
    Config,
    ConfigError,
    merge,
    parse_setting,
    read_toml,
    set_path,
    validate,
)

PROJECT = Path(__file__).resolve().parent.parent
PRESETS = Path(__file__).resolve().parent / "runs"


class ReportSection(Config):
    """The page a run ends with ([report])."""

    title: str = "Run report"
    max_languages_in_picture: Annotated[int, Field(ge=1)] = 100
    """The picture of language shares shows the largest so many."""


class RunConfig(DataConfig, ModelConfig):
    """One run, whole. Presets are TOML files in flows/runs."""

    report: ReportSection = ReportSection()

    @model_validator(mode="after")
    def _batch_divides_among_workers(self) -> RunConfig:
        batch, workers = self.pretraining.sequences_per_step, self.cluster.num_workers
        if batch % workers:
            raise ValueError(
                f"pretraining.sequences_per_step = {batch} is not a multiple of "
                f"cluster.num_workers = {workers}"
            )
        return self


def preset_names() -> list[str]:
    """Names of the presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def resolve(
    preset: str, file: Path | None = None, settings: Sequence[str] | Mapping[str, Any] = ()
) -> RunConfig:
    """Resolve a run: preset, then the person's file, then single settings.

    Args:
        settings: `section.setting=value` lines, or a mapping of dotted paths to values.

    Raises:
        ConfigError: a preset, key or value is wrong; it is named with what would be right.
    """
    if preset not in preset_names():
        raise ConfigError(
            f"preset = {preset!r}: no such preset; known: {', '.join(preset_names())}"
        )
    tree = read_toml(PRESETS / f"{preset}.toml")
    if file is not None:
        tree = merge(tree, read_toml(file))
    pairs = settings.items() if isinstance(settings, Mapping) else map(parse_setting, settings)
    for path, value in pairs:
        tree = set_path(tree, path, value)
    config = validate(RunConfig, tree, origin=f"preset {preset!r}")
    here = {"store": absolute_store(config), "sources": absolute_sources(config)}
    return config.model_copy(update=here)


def absolute_store(config: RunConfig) -> Any:
    """The store section with a plain path made absolute below the checkout."""
    url = config.store.url
    if "://" in url:
        return config.store
    return config.store.model_copy(
        update={"url": str((PROJECT / Path(url).expanduser()).resolve())}
    )


def absolute_sources(config: RunConfig) -> list[Any]:
    """The sources, a server that is a plain path made absolute below the checkout."""
    return [
        source
        if "://" in source.server or source.server == SAMPLE_MIRROR
        else source.model_copy(
            update={"server": str((PROJECT / Path(source.server).expanduser()).resolve())}
        )
        for source in config.sources
    ]


def to_toml(config: RunConfig) -> bytes:
    """Write the resolved configuration as TOML; unset optional values are left out."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True)).encode("utf-8")
